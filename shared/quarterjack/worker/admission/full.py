"""What becomes of runs that find no permit of their flow's key, by its ``on_full``: they wait, are skipped, or take the place of others."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.policies.flow import OnFull
from quarterjack.domain.run import AgendaEntry, RunState
from quarterjack.errors import Conflict, NotFound, QuarterjackError
from quarterjack.fires.context import FAR
from quarterjack.fires.flow.wait_queue import read_permits
from quarterjack.owner.runs.change import ask_to_end, end_children
from quarterjack.state.before_start import pass_over
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.delivery.visibility import InFlightMessage
from quarterjack.worker.stages import Outcome, ReadyRun

log = logging.getLogger(__name__)

WHY = "flow"  # why a run is skipped
_PAGE = 100  # entries of a wait queue that are read at once


def skip_full(worker: WorkerContext, cap: ConcurrencyCap, ready: Sequence[ReadyRun]) -> dict[InFlightMessage, Outcome]:
    """With ``skip_new``: the runs that are SKIPPED, and the outcomes of their messages. A run that has begun waits for its next attempt."""
    if cap.flow is None or cap.flow.on_full is not OnFull.SKIP_NEW:
        return {}
    reason = f"flow: {_at_work(cap)}"
    skipped = [each for each in ready if _skip(worker, each.message.run, each.message.revision, reason)]
    return {each.in_flight: Outcome.refused(WHY, RunState.SKIPPED) for each in skipped}


def make_room(worker: WorkerContext, cap: ConcurrencyCap, ready: Sequence[ReadyRun]) -> None:
    """With ``keep_newest`` and ``cancel_old``, after runs were enqueued: older ones are SKIPPED, or asked to end.

    Raises nothing: who could not be skipped goes before the newest, and who comes next tries again.
    """
    if cap.flow is None or cap.flow.on_full not in (OnFull.KEEP_NEWEST, OnFull.CANCEL_OLD):
        return
    try:
        waiting = sorted(_waiting(cap, worker), key=lambda entry: (entry.due, entry.created_at, entry.key))
        if not waiting:
            return
        *older, newest = waiting
        reason = f"flow: {newest.run}, a newer run of {cap.label}, is in its place"
        for entry in older:
            if entry.run == newest.run or _skip_queued(worker, entry.run, reason):
                worker.services.agenda.remove([entry])
        if cap.flow.on_full is OnFull.CANCEL_OLD:
            _cancel(worker, cap, [each.message.run for each in ready])
    except QuarterjackError as problem:
        log.warning("flow.not_trimmed", extra={"cap": cap.id, "error": str(problem)})


def _at_work(cap: ConcurrencyCap) -> str:
    assert cap.flow is not None
    limits = []
    if cap.flow.at_a_time is not None:
        limits.append(f"{cap.flow.at_a_time} at a time")
    if cap.flow.per_minute is not None:
        limits.append(f"{cap.flow.per_minute} a minute")
    return f"{cap.label} has its {' and '.join(limits)}"


def _waiting(cap: ConcurrencyCap, worker: WorkerContext) -> Iterator[AgendaEntry]:
    for queue in cap.wait_queues:
        after = None
        while True:
            page = worker.services.agenda.due(queue, upto=FAR, after=after, limit=_PAGE)
            yield from page.entries
            after = page.last
            if after is None:
                break


def _skip_queued(worker: WorkerContext, ref: RunRef, reason: str) -> bool:
    """Whether a run that waits will not start any more."""
    run = worker.services.ledger.read(ref)
    return run is None or run.is_terminal or _skip(worker, ref, run.revision, reason)


def _skip(worker: WorkerContext, ref: RunRef, revision: int, reason: str) -> bool:
    now = worker.clock()
    end = pass_over(to=RunState.SKIPPED, revision=revision, now=now, expires=worker.expires(now), reason=reason)
    applied = worker.services.ledger.move(ref, end).applied
    if applied:
        log.info("run.skipped", extra={"run_id": str(ref), "reason": reason})
    return applied


def _cancel(worker: WorkerContext, cap: ConcurrencyCap, newer: Sequence[RunRef]) -> None:
    """Ask the runs that have a permit to end."""
    for run_id in read_permits(cap, worker.services).current(worker.clock()).sent:
        ref = parse_run_id(run_id)
        if ref in newer:
            continue
        try:
            end_children(ask_to_end(ref, worker.services, worker.clock), worker.role)
        except (NotFound, Conflict):
            continue
