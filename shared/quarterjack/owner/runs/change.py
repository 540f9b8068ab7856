"""Cancel, hasten, reschedule or requeue one run. When ``cancel_run`` returns, no further attempt of the run starts.

A one-off that was never leased can be rescheduled: it is due at another time, earlier or later; or requeued: it waits in another queue, or
in the lane of another priority. One transaction has the run's row, its new agenda entry, the removal of the old one and the audit entry,
so there is nothing to finish after a crash. The run's revision grows with it, and everything that is under way for the old time or queue
names the old revision: its messages, and the leases and expiries of workers that read the row before. The guards of these refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.history.entry import RunKind, kind_of
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Overrides, Priority
from quarterjack.domain.queue import DEFAULT_QUEUE, declared_name
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict, InvalidInput, Unavailable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import LOOKAHEAD, FireContext, run_must_exist
from quarterjack.fires.parking import children, map_of_step, requests_of, tell_end
from quarterjack.fires.withdraw import held_leases, wait_for_held
from quarterjack.owner.runs.submit import entry_of, send_now
from quarterjack.ports.services import Clock, Services
from quarterjack.state.before_start import requeue, reschedule
from quarterjack.state.ending import cancel, hasten, request_cancel
from quarterjack.state.transition import Transition, signed
from quarterjack.state.waits.asked import map_steps
from quarterjack.state.waits.park import signal_of
from quarterjack.stores.ledger import BatchReadResult
from quarterjack.values import replace

_BETWEEN_ATTEMPTS = (RunState.RETRYING, RunState.CONTINUED)
_ROUNDS = 5  # times that a run may change between the read and the write
_OTHERS = {
    RunKind.FIRE: "change the schedule, or skip the fire with skip_next() and submit() a one-off",
    RunKind.BACKFILL: "cancel the backfill, and start one when its runs may start",
    RunKind.TRIGGER: "a triggered run starts at once; cancel it with cancel_run(), and trigger() when it may start",
}


def cancel_run(run: RunRow, context: FireContext) -> RunRow:
    """A waiting run is CANCELLED; the worker of a running one is asked to end it; an ended one stays as it is.

    The same happens to what is below it: children, items of maps, tasks. ``run`` as it was just read. Raises Conflict, Unavailable.
    """
    ended = list[RunRow]()
    run = _cancel(run, context, ended)
    wait_for_held(held_leases(ended, context.clock()), context.services)
    return run


def _cancel(run: RunRow, context: FireContext, ended: list[RunRow]) -> RunRow:
    """Cancel a run and what is below it. The rows of all of them are added to ``ended``: their leases are not waited for."""
    run = end_run(run, context)
    ended.append(run)
    if run.is_terminal:
        tell_end(run, context.services, context.clock)
    _cancel_below(run, context, ended)
    return run


def _cancel_below(run: RunRow, context: FireContext, ended: list[RunRow]) -> None:
    """Cancel what is below a cancelled run and has not ended. A child that is submitted later does not start."""
    if run.state is not RunState.CANCELLED and not run.cancel_requested:
        return
    maps = map_steps(requests_of(run, context.services))
    _cancel_all(run.ref, [*children(run, context.services).values()], maps, context, ended)


def cancel_all(parent: RunRef, refs: Sequence[RunRef], maps: Sequence[str], context: FireContext) -> None:
    """Cancel those of a run's children, and of the items of its maps, that have not ended. Raises Conflict, Unavailable."""
    _cancel_all(parent, refs, maps, context, [])


def _cancel_all(
    parent: RunRef, refs: Sequence[RunRef], maps: Sequence[str], context: FireContext, ended: list[RunRow]
) -> None:
    looked = context.services.ledger.look(refs) if refs else BatchReadResult()
    for child in looked.found.values():
        if child.is_terminal:  # by a call that may have died before the children of the child
            _cancel_below(child, context, ended)
        else:
            _cancel(child, context, ended)
    for step in maps:
        _cancel_map(parent, step, context, ended)
    if looked.unanswered:
        raise Unavailable(f"{len(looked.unanswered)} children of run {parent} could not be read; cancel it again")


def _cancel_map(parent: RunRef, step: str, context: FireContext, ended: list[RunRow]) -> None:
    """Cancel the items under way of a map of a cancelled run: no further one starts. Raises Unavailable.

    In batches, and without an audit entry for each: that of the run is for them all.
    """
    from quarterjack.fires.windows.advance import read_window  # noqa: PLC0415 (who has no map loads none)

    window = read_window(map_of_step(parent, step), context.services)
    left = [] if window is None else [window.item(number) for number in window.open]
    for _ in range(_ROUNDS):
        left = _cancelled(left, context, ended) if left else []
    if left:
        raise Unavailable(f"{len(left)} items of map {step!r} of run {parent} keep moving; cancel the run again")


def _cancelled(refs: Sequence[RunRef], context: FireContext, ended: list[RunRow]) -> list[RunRef]:
    """Cancel those that have not ended; those that moved meanwhile, or were not answered."""
    ledger, moves = context.services.ledger, list[tuple[RunRef, Transition]]()
    looked = ledger.look(refs)
    for run in looked.found.values():
        if run.is_terminal or run.cancel_requested:
            continue
        if run.asked is not None or run.asked_before:  # it may have children of its own
            _cancel(run, context, ended)
            continue
        moves.append((run.ref, _cancellation(run, context)))
    answers = ledger.move_all(moves) if moves else {}
    return [*looked.unanswered, *(ref for ref, _ in moves if not answers.get(ref))]


def ask_to_end(ref: RunRef, services: Services, clock: Clock) -> RunRow:
    """Cancel a run for the overlap policy, without an audit entry, and leave what is below it to who ends it.

    The job of a run that was leased before its instant may still begin: see ``held_leases``.
    """
    for _ in range(_ROUNDS):
        now = clock()
        moved = services.ledger.move(ref, cancel(now=now, expires=now + services.retention))
        run = run_must_exist(ref, moved.run)
        if moved.applied or run.is_terminal:
            return run
        if run.state is RunState.RUNNING:
            asked = services.ledger.move(ref, request_cancel())
            if asked.applied and asked.run is not None:
                return asked.run
    raise Conflict(f"run_id={str(ref)!r}: it changed {_ROUNDS} times meanwhile; cancel it again")


def end_children(run: RunRow, context: FireContext) -> None:
    """Cancel what is below a run that was cancelled, or asked to end: by the overlap policy, or by an owner whose call failed.

    Raises Conflict, Unavailable.
    """
    if run.asked is not None or run.asked_before or run.awaits is not None:
        _cancel_below(run, context, [])


def end_run(run: RunRow, context: FireContext) -> RunRow:
    """Cancel a run alone, with an audit entry of the owner; a process of the installation writes none. ``run`` as it was just read."""
    ref, services = run.ref, context.services
    for _ in range(_ROUNDS):
        if run.is_terminal or run.cancel_requested:
            return run
        audit = None if context.caller.is_system else audit_entry(AuditAct.CANCEL, str(ref), context)
        moved = services.ledger.move(ref, _cancellation(run, context), audit)
        run = run_must_exist(ref, moved.run)
        if moved.applied:
            return run
    raise Conflict(f"run_id={str(ref)!r}: it changed {_ROUNDS} times meanwhile; cancel it again")


def _cancellation(run: RunRow, context: FireContext) -> Transition:
    """A run that waits is CANCELLED; the worker of one that is RUNNING is asked to end it."""
    now = run.end_time(context.clock())
    waits = run.state is not RunState.RUNNING
    move = cancel(now=now, expires=now + context.services.retention) if waits else request_cancel()
    return signed(move, actor_of(context))


def hasten_run(run: RunRow, context: FireContext) -> RunRow:
    """Start the next attempt of a run now, for which it waits. ``run`` as it was just read."""
    ref, services, now = run.ref, context.services, context.clock()
    is_hastened = run.state in _BETWEEN_ATTEMPTS and run.not_before <= now  # by a call whose message was not accepted
    if not is_hastened:
        moved = services.ledger.move(ref, hasten(now=now), audit_entry(AuditAct.RETRY, str(ref), context))
        run = run_must_exist(ref, moved.run)
        is_hastened = moved.applied
    if not is_hastened:
        raise Conflict(f"run_id={str(ref)!r}: it is {run.state}, so there is no attempt to hasten; {_instead(run)}")
    whole = services.ledger.read(ref) or run  # with the payload that lies beside its row
    message = message_of(whole, services)
    if message is None or not send([message], services.work, context.clock)[0]:
        raise Unavailable(
            f"run_id={str(ref)!r}: its message was not accepted; it runs at its next attempt, or call again"
        )
    return whole


def _instead(run: RunRow) -> str:
    """The remedy for a run that has no next attempt to hasten."""
    if run.state is RunState.PARKED:
        return f"it {run.reason}, and cancel_run() ends it" + (
            "; signal() answers it" if signal_of(run) is not None else ""
        )
    return "replay_run() makes a new run with the same payload"


def reschedule_run(run: RunRow, due: int, context: FireContext) -> RunRow:
    """The run is due at ``due`` (UTC ms). ``run`` as it was just read.

    Raises InvalidInput for a run that is no one-off, Conflict for one that has begun or ended, Unavailable.
    """
    if not run.ref.is_one_off:
        kind = kind_of(run)
        raise InvalidInput("run_id", str(run.ref), f"is a {kind} of schedule {run.ref.schedule!r}", _OTHERS[kind])
    what = {"due": from_ms(due).isoformat()}

    def moved(run: RunRow) -> tuple[RunRow, Transition, Mapping[str, Any]]:
        after = replace(run, due=due, not_before=due)
        return after, reschedule(revision=run.revision, due=due), {"was": from_ms(run.due).isoformat(), **what}

    return _move(run, moved, AuditAct.RESCHEDULE, context)


def requeue_run(run: RunRow, context: FireContext, *, queue: str | None, priority: Priority | None) -> RunRow:
    """The run waits in another declared ``queue``, or with another ``priority``; None: it keeps it. ``run`` as it was just read.

    Raises InvalidInput for a run that is no one-off, Conflict for one that has begun or ended, Unavailable.
    """
    if not run.ref.is_one_off:
        kind, remedy = kind_of(run), "update_schedule() changes the queue and the priority of later fires"
        raise InvalidInput("run_id", str(run.ref), f"is a {kind} of schedule {run.ref.schedule!r}", remedy)

    def moved(run: RunRow) -> tuple[RunRow, Transition, Mapping[str, Any]]:
        policies = Overrides.parse(run.overrides)
        after = replace(
            run,
            queue=run.queue if queue is None else declared_name(queue),
            overrides=run.overrides if priority is None else replace(policies, priority=priority).encode(),
        )
        told = {"queue": queue, "priority": priority}
        was = {"was_queue": run.queue or DEFAULT_QUEUE, "was_priority": policies.priority or Priority.NORMAL}
        detail = {name: None if value is None else str(value) for name, value in (told | was).items()}
        return after, requeue(revision=run.revision, queue=after.queue, overrides=after.overrides), detail

    return _move(run, moved, AuditAct.REQUEUE, context)


# Gets the run as it was read; gives it as it will be, the transition, and the details of the audit entry.
_Moved = Callable[[RunRow], tuple[RunRow, Transition, Mapping[str, Any]]]


def _move(run: RunRow, moved: _Moved, act: AuditAct, context: FireContext) -> RunRow:
    """Change when or where a one-off waits that has not begun: its row and its entry, and its message if it is due soon."""
    services = context.services
    for _ in range(_ROUNDS):
        if run.state is not RunState.QUEUED:
            raise Conflict(f"run_id={str(run.ref)!r}: {_too_late(run)}")
        after, transition, detail = moved(run)
        if after == run:
            return run
        now, audit = context.clock(), audit_entry(act, str(run.ref), context, **detail)
        entry = entry_of(replace(after, revision=run.revision + 1), services, now)
        put = services.ledger.reschedule(
            run.ref, transition, put=entry, remove=entry_of(run, services, now), audit=audit
        )
        run = run_must_exist(run.ref, put.run)
        if put.applied:
            if run.not_before <= context.clock() + LOOKAHEAD:
                send_now(run, entry, context)
            return run
    raise Conflict(f"run_id={str(run.ref)!r}: it changed {_ROUNDS} times meanwhile; call again")


def _too_late(run: RunRow) -> str:
    if run.is_terminal:
        return f"it is {run.state}, so it cannot be moved; replay_run() makes a new run with the same payload"
    if run.state is RunState.RUNNING:
        return "it has begun, so it cannot be moved; cancel_run() asks it to end"
    if run.state is RunState.PARKED:
        return "it is PARKED, so it cannot be moved; cancel_run() ends it"
    return f"it has begun and is {run.state}; retry_run() starts its next attempt now, cancel_run() ends it"
