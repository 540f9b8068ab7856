"""Mutants of what runs now: records of workers, running runs, queues. Each: name, file, this text, that text."""

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
        "self._write_beside(PERIOD if last is not None and last.at_hand else RESTING)",
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
        "if job in self.names or _hash(job) in hashed:",
        "if job in self.names:",
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
        "sdk/history/worker_views.py",
        "for run in row.runs if tenant in (None, run.ref.tenant)]",
        "for run in row.runs]",
    ),
    (
        "an age where nobody knows one",
        "fires/backpressure.py",
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
)
