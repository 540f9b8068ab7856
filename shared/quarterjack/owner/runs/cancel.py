"""Cancel or hasten one run. When ``cancel_run`` returns, no further attempt of the run starts."""

from __future__ import annotations

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Conflict, Unavailable
from quarterjack.fires.acts import line_of
from quarterjack.fires.claim import message_of, send
from quarterjack.fires.context import FireContext, run_must_exist
from quarterjack.fires.withdraw import held_leases, wait_for_held
from quarterjack.ports.services import Clock, Services
from quarterjack.state.ending import cancel, hasten, request_cancel
from quarterjack.state.transition import signed

_BETWEEN_ATTEMPTS = (RunState.RETRYING, RunState.CONTINUED)
_ROUNDS = 5  # times that a run may change between the read and the write


def cancel_run(run: RunRow, context: FireContext) -> RunRow:
    """A waiting run is CANCELLED; the worker of a running one is asked to end it; an ended one stays as it is.

    ``run`` as it was just read.
    """
    run = end_run(run, context)
    wait_for_held(held_leases([run], context.clock()), context.services)
    return run


def ask_to_end(ref: RunRef, services: Services, clock: Clock) -> RunRow:
    """The same for the overlap policy, which has no line in the audit.

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


def end_run(run: RunRow, context: FireContext) -> RunRow:
    """The same for an owner; ``run`` as it was just read."""
    ref, services = run.ref, context.services
    for _ in range(_ROUNDS):
        if run.is_terminal or run.cancel_requested:
            return run
        now = run.end_time(context.clock())
        waiting = run.state is not RunState.RUNNING
        move = cancel(now=now, expires=now + services.retention) if waiting else request_cancel()
        line = line_of(AuditAct.CANCEL, str(ref), context)
        moved = services.ledger.move(ref, signed(move, line.actor), line)
        run = run_must_exist(ref, moved.run)
        if moved.applied:
            return run
    raise Conflict(f"run_id={str(ref)!r}: it changed {_ROUNDS} times meanwhile; cancel it again")


def hasten_run(run: RunRow, context: FireContext) -> RunRow:
    """Start the next attempt of a run now, for which it waits. ``run`` as it was just read."""
    ref, services, now = run.ref, context.services, context.clock()
    is_hastened = run.state in _BETWEEN_ATTEMPTS and run.not_before <= now  # by a call whose message was not accepted
    if not is_hastened:
        moved = services.ledger.move(ref, hasten(now=now), line_of(AuditAct.RETRY, str(ref), context))
        run = run_must_exist(ref, moved.run)
        is_hastened = moved.applied
    if not is_hastened:
        raise Conflict(
            f"run_id={str(ref)!r}: it is {run.state}, so there is no attempt to hasten; "
            "replay_run() makes a new run with the same payload"
        )
    whole = services.ledger.read(ref) or run  # with the payload that lies beside its row
    message = message_of(whole, services)
    if message is None or not send([message], services.work, context.clock)[0]:
        raise Unavailable(
            f"run_id={str(ref)!r}: its message was not accepted; it runs at its next attempt, or call again"
        )
    return whole
