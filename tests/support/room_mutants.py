"""Mutants of single rooms, each of which the nearest folder of tests must notice alone. Each: name, file, this text, that text."""

from __future__ import annotations

ROOM_MUTANTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "pages of dead runs begin with the oldest",
        "stores/dead_index.py",
        "                newest_first=True,\n                limit=rows,\n",
        "                newest_first=False,\n                limit=rows,\n",
    ),
    (
        "a redriven run is marked although its line is gone",
        "stores/dead_index.py",
        "row=row, only_if=is_there))[0]",
        "row=row))[0]",
    ),
    (
        "a burst is smaller than a second's runs",
        "domain/tenants/limits.py",
        "max(burst or 1, math.ceil(per_second))",
        "burst or math.ceil(per_second)",
    ),
    (
        "an hour is compacted as soon as it is over",
        "historian/archive.py",
        "before = (began - LATE) // HOUR * HOUR",
        "before = began // HOUR * HOUR",
    ),
    (
        "a run of a line with two entries is sent for twice",
        "fires/flow/next_runs.py",
        "                chosen.add(str(entry.run))\n",
        "",
    ),
    (
        "a breaker is quiet while the ticker holds entries back for it",
        "state/tenants/breaker.py",
        " and now - self.since > FORGOTTEN and now - self.held_at > QUIET",
        " and now - self.since > FORGOTTEN",
    ),
    (
        "attempts of a later window are left out of another tenant's",
        "state/tenants/breaker.py",
        "for at, one, other in windows if at in kept]",
        "for at, one, other in windows]",
    ),
    (
        "a deadline counts from when a run asks for its turn",
        "worker/admission/overlap.py",
        "ready.spec.due + int(deadline * SECOND)",
        "worker.clock() + int(deadline * SECOND)",
    ),
    (
        "a page of dead runs is followed by its last run again",
        "owner/runs/dead.py",
        "cursor=found[limit - 1].key)",
        "cursor=found[limit - 2].key)",
    ),
    (
        "fires of a spread schedule that are kept apart are counted as moved",
        "timing/tally.py",
        "if max((table.decided, *table.apart)) >= begin:",
        "if table.decided >= begin:",
    ),
    ("a delayed message comes at once", "sqs/queues.py", '"DelaySeconds": outgoing.delay,', '"DelaySeconds": 0,'),
    (
        "the auditor passes over deleted schedules",
        "auditor/chain_walk.py",
        "elif head.resume_at is not None or head.state is ScheduleState.DELETED:",
        "elif head.resume_at is not None:",
    ),
    (
        "a short count has five characters",
        "console/count_charts.py",
        "if share < 9.95 else",
        "if share < 10 else",
    ),
    (
        "a page of another origin of this site may change things",
        "web/guard.py",
        'site not in (None, "same-origin", "none")',
        'site not in (None, "same-origin", "same-site", "none")',
    ),
    (
        "a delay of a tick has no end",
        "concurrency/rate_limits.py",
        "min(turn + units / self.rate * SECOND, now + LONGEST)",
        "turn + units / self.rate * SECOND",
    ),
    (
        "a changed notice is told again",
        "dynamodb/run_stream.py",
        'if not (record.get("eventName") == _PUT if is_notice else is_run(ref)):',
        "if not (is_notice or is_run(ref)):",
    ),
    (
        "a letter that the worker's release could not read is taken as a verdict",
        "undertaker/bury.py",
        "    elif letter.state == UNREADABLE:",
        "    elif letter.state == REJECTED:",
    ),
    (
        "a shard is in a group twice",
        "ticker/fan_out.py",
        "if not sound or len(set(shards)) < len(shards):",
        "if not sound:",
    ),
)
