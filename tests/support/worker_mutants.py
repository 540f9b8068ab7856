"""Mutants of what runs now: records of workers, running runs, queues, known jobs. Each: name, file, this text, that text."""

from __future__ import annotations

WORKER_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "a record at each beat, however soon",
        "daemon/worker_record.py",
        "if self._written is not None and 0 <= self._clock() - self._written.seen_at < period:",
        "if self._written is not None and 0 > period:",
    ),
    (
        "a record for each batch of a resting environment",
        "daemon/worker_record.py",
        "self._write_beside(PERIOD if is_news else RESTING)",
        "self._write_beside(PERIOD)",
    ),
    (
        "a worker that leaves without a goodbye",
        "daemon/worker_record.py",
        "                    self._write(stopped=True)\n",
        "                    self._write()\n",
    ),
    (
        "a record that is given up when an answer was lost",
        "daemon/worker_record.py",
        "            self._version = 0 if present is None else present.version\n",
        "            self._version = 0\n",
    ),
    (
        "an environment that sleeps has vanished",
        "state/worker_record.py",
        "if silent and (left_behind or self.identity.kind is WorkerKind.PROCESS):",
        "if silent:",
    ),
    (
        "a run that another worker has is left behind",
        "state/worker_record.py",
        "or row.fence != at_hand.fence:",
        "or False:",
    ),
    (
        "the newest runs of a crowded worker are listed",
        "state/worker_record.py",
        "key=lambda each: (each.started_at, each.ref))",
        "key=lambda each: (-each.started_at, each.ref))",
    ),
    (
        "hashed jobs are not known",
        "state/worker_record.py",
        "if job in self.names or is_builtin(job) or _hash(job) in hashed:",
        "if job in self.names or is_builtin(job):",
    ),
    (
        "what a record names is running",
        "owner/workers.py",
        "if run.state is RunState.RUNNING and wanted(run)]",
        "if wanted(run)]",
    ),
    (
        "another tenant's running runs",
        "owner/workers.py",
        "if tenant in (None, run.ref.tenant):  #",
        "if True:  #",
    ),
    (
        "a record past its expiry is shown until DynamoDB removes it",
        "owner/workers.py",
        "if record.expires is not None and record.expires <= now:",
        "if record.expires is None:",
    ),
    (
        "another tenant's runs at a worker",
        "sdk/history/workers.py",
        "is_wanted = all_tenants or run.ref.tenant == self.tenant",
        "is_wanted = True",
    ),
    (
        "an age where nobody knows one",
        "fires/waits.py",
        "return max(waiting, default=None)",
        "return max(waiting, default=0)",
    ),
    (
        "a live worker has vanished",
        "sdk/views.py",
        "worker_vanished=holds_lease and now is not None and not has_live_lease(run, now),",
        "worker_vanished=holds_lease,",
    ),
    (
        "a lease that forgets when its message was sent",
        "worker/admission/lease.py",
        "published=ready.received.delivery.sent_at or None,",
        "published=None,",
    ),
    (
        "a worker that writes the catalogue at each look",
        "domain/job_catalogue.py",
        "now - known.seen_at < REFRESH and now - present.seen_at < REFRESH",
        "now - known.seen_at < 0",
    ),
    (
        "a worker that looks at the catalogue at each beat",
        "owner/catalogue.py",
        "            self._next = now + REFRESH\n",
        "            self._next = now\n",
    ),
    (
        "a deployment that leaves its row for ever",
        "owner/catalogue.py",
        "            self._take_back(wanted, now)\n",
        "            pass\n",
    ),
    (
        "a job that is lost with the row of a set that has it alone",
        "domain/job_catalogue.py",
        "self.seen_at - other.seen_at > SUPERSEDED and other.jobs.keys() <= self.jobs.keys()",
        "self.seen_at - other.seen_at > SUPERSEDED",
    ),
    (
        "the definition of an old worker that refreshes beside a new one",
        "domain/job_catalogue.py",
        "    return lives, one.since if lives else one.seen_at\n",
        "    return lives, one.seen_at\n",
    ),
    (
        "a warning about every name before any worker has published",
        "sdk/job_checks.py",
        "if knows or (knows is None and not self._session.strict):",
        "if knows:",
    ),
    (
        "a query for each submission",
        "owner/catalogue.py",
        "if self._read_at is not None and 0 <= now - self._read_at < _AGAIN:",
        "if self._read_at is not None and now < self._read_at:",
    ),
    (
        "a job to be notified that nobody looks up",
        "sdk/job_checks.py",
        "                self.check_job(field, target.removeprefix(JOB), target)\n",
        "                pass\n",
    ),
    (
        "a Lambda function that publishes while its batch goes on",
        "daemon/worker_record.py",
        "        else:\n            self._invocation = name\n",
        "        else:\n            self._invocation = name\n            self._write_beside(PERIOD)\n",
    ),
)
