"""Cancel and hasten: what an owner asks of one run. When ``cancel_run`` returns, no further attempt of it starts."""

from __future__ import annotations

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow, RunState
from minutehand.errors import Conflict, NotFound, Unavailable
from minutehand.fires.held_leases import held_leases, wait_for_held
from minutehand.fires.send import message_of, send
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.transitions.ending import cancel, hasten, request_cancel

_ROUNDS = 5  # times that a run may move between being seen and being changed


def cancel_run(ref: RunRef, services: Services, clock: Clock) -> RunRow:
    """A waiting run is CANCELLED; a running one is asked to end; an ended one stays as it is."""
    run = ask_to_end(ref, services, clock)
    wait_for_held(held_leases([run], clock()), services)
    return run


def ask_to_end(ref: RunRef, services: Services, clock: Clock) -> RunRow:
    """The same, but a run that was leased ahead of its instant may still begin: see ``ahead.let_begin``."""
    for _ in range(_ROUNDS):
        now = clock()
        moved = services.ledger.move(ref, cancel(now=now, expires=now + services.retention))
        run = moved.run
        if run is None:
            raise NotFound(f"run_id={str(ref)!r}: there is no such run, or its retention is over")
        if moved.applied or run.is_terminal:
            return run
        if run.state is RunState.RUNNING:
            asked = services.ledger.move(ref, request_cancel())
            if asked.applied and asked.run is not None:
                return asked.run
    raise Conflict(f"run_id={str(ref)!r}: it changed {_ROUNDS} times meanwhile; cancel it again")


def hasten_run(ref: RunRef, services: Services, clock: Clock) -> RunRow:
    """A run that waits for its next attempt has it now."""
    moved = services.ledger.move(ref, hasten(now=clock()))
    run = moved.run
    if run is None:
        raise NotFound(f"run_id={str(ref)!r}: there is no such run, or its retention is over")
    if not moved.applied:
        raise Conflict(
            f"run_id={str(ref)!r}: it is {run.state}, so there is no attempt to hasten; "
            "replay_run() makes a new run with the same payload"
        )
    whole = services.ledger.read(ref) or run  # with the payload that lies beside its row
    message = message_of(whole, services)
    if message is None or not send([message], services.work, clock)[0]:
        raise Unavailable(
            f"run_id={str(ref)!r}: its message was not accepted; it runs at its next attempt, or call again"
        )
    return whole
