"""What the records of the workers say about a run that waits for one, or whose worker is silent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quarterjack.domain.job_catalogue import nearest
from quarterjack.domain.names import few
from quarterjack.domain.queue import DEFAULT_QUEUE
from quarterjack.domain.run import RunRow
from quarterjack.state.before_start import UNSERVED
from quarterjack.state.worker_record import OWN_QUEUE, WorkerKind, WorkerRow, WorkerState
from quarterjack.why.answer import Cause, Sentence, count, show
from quarterjack.why.facts import Facts, not_known

_SOURCE = "records of the workers"
_SHOWN = 3  # workers that one sentence names
_THERE = (WorkerState.BUSY, WorkerState.IDLE)


def of_job(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """Whether any worker has ever known the job of a run that waits."""
    if facts.delivery.catalogue is None or not _is_unknown(facts, run):
        return
    text = (
        f"No worker has ever known job {run.job!r}: the run is DEAD once it has waited for 15 minutes. "
        f"{_sentence(nearest(run.job, facts.delivery.catalogue.entries))}"
    )
    yield Sentence(text=text, source="jobs that workers published", cause=Cause.UNKNOWN_JOB)


def _is_unknown(facts: Facts, run: RunRow) -> bool:
    return facts.delivery.catalogue is not None and facts.delivery.catalogue.knows(run.job) is False


def of_version(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """That no worker is there of the application version that a run waits for."""
    if run.reason is None or not run.reason.startswith(UNSERVED):
        return
    version = run.reason.removeprefix(UNSERVED)
    of_it = [row for row in facts.delivery.workers or () if row.identity.app_version == version]
    seen = "has a record"
    if of_it:
        last = max(of_it, key=lambda row: row.seen_at)
        seen = f"has been heard of since {show(last.seen_at)}: the last one was {last.identity.name}"
    text = (
        f"It starts only on workers of application version {version}, and none {seen}. `quarterjack runs reassign` gives it another "
        "version, `quarterjack versions retire` does so for all runs of the version."
    )
    yield Sentence(text=text, source=_SOURCE, cause=Cause.VERSION)


def of_queue(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """Whether workers of the run's queue are there, know its job, and have room."""
    if facts.delivery.workers is None or _is_unknown(facts, run):  # which ``of_job`` has said
        return
    queue = facts.queue or DEFAULT_QUEUE
    all_ = [row for row in facts.delivery.workers if queue == row.identity.queue]
    there = [row for row in all_ if row.state(facts.now, left_behind=False) in _THERE]
    if not there:
        yield _nobody(all_, queue)
        return
    who = f"{count(len(there), 'worker')} of queue {queue!r}"
    if all(row.identity.jobs.knows(run.job) is False for row in there):
        text = f"Of {who} none knows job {run.job!r}: it is DEAD once it has waited for 15 minutes."
        yield Sentence(text=text, source=_SOURCE, cause=Cause.UNKNOWN_JOB)
        return
    yield from _of_strangers(there, run, queue)
    taken, slots = sum(row.at_hand for row in there), [row.identity.concurrency for row in there]
    if None in slots:
        yield Sentence(text=f"{who} had {count(taken, 'run')} at hand.", source=_SOURCE)
    elif taken >= (room := sum(filter(None, slots))):
        text = f"All {count(room, 'slot')} of {who} were taken, by their last records."
        yield Sentence(text=text, source=_SOURCE, cause=Cause.BUSY)
    else:
        yield Sentence(text=f"{who} had {taken} of {count(room, 'slot')} taken.", source=_SOURCE)


def _of_strangers(there: Sequence[WorkerRow], run: RunRow, queue: str) -> Iterator[Sentence]:
    """That some of the queue's workers do not know the job."""
    strangers = [row for row in there if row.identity.jobs.knows(run.job) is False]
    if strangers:
        text = (
            f"{len(strangers)} of {count(len(there), 'worker')} of queue {queue!r} do not know job {run.job!r} ({_named(strangers)}): "
            f"each time one of them gets the run, it waits 30 s for another. Where two applications share the queue, {OWN_QUEUE}."
        )
        yield Sentence(text=text, source=_SOURCE, cause=Cause.SHARED_QUEUE)


def given_back(facts: Facts, run: RunRow, since: int) -> Sentence | None:
    """That workers of the queue gave messages of the job back since then (UTC ms), as they do not know it; None: no record says so."""
    queue = facts.queue or DEFAULT_QUEUE
    found = [
        row
        for row in facts.delivery.workers or ()
        if queue == row.identity.queue and row.unknown.last_at >= since and run.job in row.unknown.names
    ]
    if not found:
        return None
    text = (
        f"{count(len(found), 'worker')} of queue {queue!r} ({_named(found)}) got messages of job {run.job!r}, which they do not know, and "
        f"gave them back: each time it waited 30 s for another worker. Where two applications share the queue, {OWN_QUEUE}."
    )
    return Sentence(text=text, source=_SOURCE, cause=Cause.SHARED_QUEUE)


def _named(rows: Sequence[WorkerRow]) -> str:
    return few([row.identity.name for row in rows], _SHOWN)


def _nobody(rows: Sequence[WorkerRow], queue: str) -> Sentence:
    """No worker of the queue has said anything for a minute. An idle Lambda environment says nothing, and so do older releases."""
    if not rows:
        return not_known(
            f"No worker of queue {queue!r} has a record, as an idle Lambda environment has none after an hour."
        )
    last = max(rows, key=lambda row: row.seen_at)
    text = f"No worker of queue {queue!r} has been heard of since {show(last.seen_at)}: the last one was {last.identity.name}."
    sure = all(row.identity.kind is WorkerKind.PROCESS for row in rows)
    return Sentence(text=text, source=_SOURCE, cause=Cause.NO_WORKER if sure else None)


def of_worker(facts: Facts, run: RunRow) -> Iterator[Sentence]:
    """What is known of the worker that has a run."""
    for row in facts.delivery.workers or ():
        if row.identity.name == run.worker:
            kind = "a Lambda environment of" if row.identity.kind is WorkerKind.FUNCTION else "a process on"
            left = "" if row.stopped_at is None else f", and stopped in order at {show(row.stopped_at)}"
            text = f"Worker {run.worker} is {kind} {row.identity.host}; its record was last written at {show(row.seen_at)}{left}."
            yield Sentence(text=text, source=_SOURCE)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
