"""Park a run: what it waits for goes on record, the run parks, and the record is checked again, before the message goes.

record of requests ─► timer ─► park ─► check ─► delete the message

A sleep has no check: its delayed message, or its timer, comes when it is over.

a worker dies          why nothing is lost
before park            the message comes back, and the job asks again
after park             the message comes back, finds the run parked, and checks (``refused``)
the waker dies         the timer checks, 1, 2, 4 … minutes apart, at most an hour
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.fires.parking import map_of_step, wake_if_over
from quarterjack.owner.runs.submit import wait_timer
from quarterjack.state.transition import Transition
from quarterjack.state.waits.asked import child_ref, map_steps, steps_of
from quarterjack.state.waits.park import MAX_WAIT, SIGNAL, SLEEP, WaitSpec, deadline_over, leased_from, park
from quarterjack.state.waits.retention import recorded_until
from quarterjack.state.waits.terms import terms_of
from quarterjack.stores.siblings import BesideKind
from quarterjack.values import replace
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import LeasedRun, Parked

_NEXT_TICK = 75 * SECOND  # a tick begins within a minute, and reaches each shard within another quarter
SMALL_RECORD = 300  # characters of requests in the run's own row; earlier ones lie beside it


def is_messaged(result: Parked, now: int) -> bool:
    """Whether a delayed message ends the wait: of a sleep, and of a wait that would be over before the next tick."""
    return result.awaits == SLEEP or result.wake_at - now <= _NEXT_TICK


def parking(worker: WorkerContext, leased: LeasedRun, result: Parked, now: int) -> Transition:
    """The transition that parks a run. Large records and the terms of the wait are stored beside the row first. Raises Unavailable."""
    run, before = leased.run, leased.run.asked_before
    latest: str | None = json.dumps(result.asked[before:], separators=(",", ":"))
    if latest is not None and len(latest) > SMALL_RECORD:
        _store(worker, run, BesideKind.ASKED, f"{before:06d}", latest)
        latest, before = None, len(result.asked)
    if result.terms is not None:
        deadline = leased.policies.deadline
        leased_by = None if deadline is None else deadline_over(run.due, deadline)
        terms = replace(terms_of(result.terms), leased_by=leased_by).text
        _store(worker, run, BesideKind.WAIT, result.awaits.removeprefix(SIGNAL), terms)
    wait = WaitSpec(
        awaits=result.awaits,
        reason=result.reason,
        wake_at=result.wake_at,
        not_before=not_before_of(leased, result),
        asked=latest,
        asked_before=before,
    )
    return park(fence=run.fence, number=run.wait_no + 1, now=now, wait=wait)


def _store(worker: WorkerContext, run: RunRow, kind: BesideKind, name: str, text: str) -> None:
    expires = worker.expires_with(run) + MAX_WAIT  # the run may wait for longer than the retention
    kept = worker.services.siblings.keep(run.ref, fence=run.fence, kind=kind, name=name, text=text, expires=expires)
    if not kept:
        raise Unavailable(f"{kind} {name!r} of run {run.ref} was not stored: this worker has lost it")


def keep_record(worker: WorkerContext, leased: LeasedRun, result: Parked) -> None:
    """Before a run parks for long: keep what it has recorded, and its ended children, for as long as it needs them. Raises Unavailable."""
    run = leased.run
    until = recorded_until(
        started_at=run.started_at or 0,
        awaits=result.awaits,
        not_before=not_before_of(leased, result),
        now=worker.clock(),
        retention=worker.services.retention,
    )
    if until is not None:
        refs = [child_ref(run.ref, step) for step in steps_of(result.asked).values()]
        worker.services.waits.prolong(run.ref, refs, until=until)
        _keep_items(worker, run, map_steps(result.asked), until)


def _keep_items(worker: WorkerContext, run: RunRow, steps: Sequence[str], until: int) -> None:
    if steps:
        from quarterjack.fires.windows.keep import keep_items  # noqa: PLC0415 (who has no map loads none)

        for step in steps:
            keep_items(map_of_step(run.ref, step), worker.services, worker.clock, until=until, since=worker.clock())


def leave_timer(worker: WorkerContext, leased: LeasedRun, result: Parked) -> None:
    """The timer that checks the wait of a run that is about to park; none for a sleep. Raises Unavailable."""
    if result.awaits == SLEEP:
        return
    run = replace(leased.run, not_before=not_before_of(leased, result), wait_no=leased.run.wait_no + 1)
    entry = wait_timer(run, worker.services, worker.clock())
    if entry.key not in worker.services.agenda.put([entry]):
        raise Unavailable(f"the agenda did not accept the timer of run {run.ref}; it has not parked")


def not_before_of(leased: LeasedRun, result: Parked) -> int:
    """UTC ms from which the run may be leased: the end of its wait, or of its deadline, by which it is expired."""
    return leased_from(result.wake_at, due=leased.run.due, deadline=leased.policies.deadline)


def is_over_already(worker: WorkerContext, run: RunRow | None) -> bool:
    """The second check, after the run parked: whether what it waits for happened meanwhile; then it continues. Raises Unavailable."""
    return run is not None and wake_if_over(run, worker.services, worker.clock) is not None


def asked_to_end(leased: LeasedRun, run: RunRow | None) -> bool:
    """Whether a run did not park because its cancellation was asked for meanwhile."""
    return run is not None and run.cancel_requested and (run.state, run.fence) == (RunState.RUNNING, leased.run.fence)
