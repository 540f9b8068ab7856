"""Send a signal to a run: the first one of a name is the answer to the run's wait for it, whether it comes before, during or after that.

    audit entry and signal, one transaction ─► read the run ─► wake it, if it waits for this ─► its message

A process that dies before the wake leaves a signal that the run's timer finds. A repeated call finds its own signal.

A heartbeat of something started elsewhere moves the end of the wait: one guarded transition on the parked row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import RunRow, RunState
from quarterjack.errors import Conflict, Unavailable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.fires.parking import notify_waiting
from quarterjack.payload_types.schema import REMEDY, PayloadSchema, is_engine_installed
from quarterjack.state.waits.park import prolong, signal_of
from quarterjack.state.waits.terms import after_heartbeat
from quarterjack.stores.waits import FAILURE, LinkRow, SignalRow

log = logging.getLogger(__name__)


def send_signal(
    run: RunRow,
    name: str,
    payload: str,
    context: FireContext,
    *,
    warn: Callable[[str], None] = log.warning,
    channel: str | None = None,
    link: LinkRow | None = None,
) -> tuple[SignalRow, bool]:
    """The signal that the run has, and whether this call brought it. ``payload`` is JSON text; ``run`` as it was just read.

    ``channel``: "link" for an answer by a link, FAILURE for an error in place of an answer. ``link``: it may not be revoked.
    ``warn`` is told if the payload cannot be checked here.
    Raises Conflict for a run that has ended without that signal, InvalidInput for a payload that the wait does not take, Unavailable.
    """
    services = context.services
    found = services.waits.signal(run.ref, name)
    if found is None and run.is_terminal:
        raise Conflict(
            f"run_id={str(run.ref)!r}: it is {run.state}, so no signal {name!r} reaches it; nothing was written"
        )
    brought = False
    if found is None and channel != FAILURE:
        check_terms(run, name, payload, context, warn)
    if found is None:
        mine = SignalRow(payload=payload, at=context.clock(), actor=actor_of(context), channel=channel)
        audit = audit_entry(AuditAct.SIGNAL, str(run.ref), context, signal=name, channel=channel)
        brought = services.waits.put_signal(run.ref, name, mine, audit, link=link)
        found = mine if brought else services.waits.signal(run.ref, name)
    if found is None and link is not None:
        raise Conflict(
            f"run_id={str(run.ref)!r}: the link to signal {name!r} was revoked meanwhile; nothing was written"
        )
    if found is None:
        raise Unavailable(f"signal {name!r} of run {run.ref} is being written by another process; try again")
    notify_waiting(run.ref, services, context.clock)
    return found, brought


def check_terms(
    run: RunRow, name: str, payload: str, context: FireContext, warn: Callable[[str], None] = log.warning
) -> None:
    """Raises InvalidInput for an answer that does not fit the schema of the run's wait. A run that has not asked yet has none."""
    terms = context.services.waits.terms(run.ref, name)
    if terms is None or terms.schema is None:
        return
    if not is_engine_installed():
        why = "the answer is checked by the job only, because jsonschema-rs is not installed here"
        warn(f"signal={name!r}: {why}; {REMEDY}")
        return
    PayloadSchema(terms.schema).check(payload, name)


def heartbeat(run: RunRow, name: str, context: FireContext) -> RunRow:
    """Prolong the run's wait for a signal; the run as it is then. A run that has not parked yet, or has the signal, stays as it is.

    Raises Conflict for a run that has ended, waits for something else, or needs no heartbeats, and for a wait that is over; Unavailable.
    """
    if run.is_terminal:
        raise Conflict(f"run_id={str(run.ref)!r}: it is {run.state}, so nothing waits for signal {name!r}")
    if run.state is not RunState.PARKED:
        return run
    if signal_of(run) != name:
        raise Conflict(f"run_id={str(run.ref)!r}: it waits for {run.awaits!r}, not for signal {name!r}")
    terms = context.services.waits.terms(run.ref, name)
    if terms is None or terms.heartbeat is None:
        remedy = "ctx.wait_for(name, heartbeat=seconds) makes one that does"
        raise Conflict(f"run_id={str(run.ref)!r}: its wait for signal {name!r} needs no heartbeats; {remedy}")
    now = context.clock()
    wake_at, not_before = after_heartbeat(terms, now)
    move = prolong(number=run.wait_no, now=now, wake_at=wake_at, not_before=not_before)
    moved = context.services.ledger.move(run.ref, move)
    if moved.run is None or (not moved.applied and moved.run.state is RunState.PARKED):
        raise Conflict(f"run_id={str(run.ref)!r}: its wait for signal {name!r} is over")
    return moved.run
