"""What an owner calls, what stops a backfill, and the part of the ticker.

    start    entry ──► record ──► first fires       resume   entry ──► state ──► next fires
    pause    state ──► waiting runs are taken back  cancel   as pause
    ticker   entry due: advance, or finish a stop ──► the next entry, at a whole minute ──► this one goes

An entry without its record is dropped, and a RUNNING backfill has an entry: a crash between the two loses nothing. Entries of one
backfill that were put at different times meet again at the whole minute. A backfill that is paused or over has none.

A stop writes the state first. A fire enters the window before it is claimed, and leaves it when its run has ended: so every run that was
claimed before is found in the window and taken back, and a run that is claimed later is sent later, so its worker reads the new
state. When the owner's call returns, nothing of the backfill starts any more. Another backfill may have revived a run by then, and is
not stopped: so each transition is conditional on the run's backfill.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.message import Message
from quarterjack.domain.run import WAITING, AgendaEntry, EntryKind, RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import Conflict, NotFound, QuarterjackError, Unavailable
from quarterjack.fires.audit_entry import audit_entry
from quarterjack.fires.context import (
    LOOKAHEAD,
    BackfillProgress,
    FireContext,
    Handled,
    ScheduleCounts,
    TickCounts,
    postpone,
)
from quarterjack.owner.backfill.advance import ROUNDS, BackfillMover, advance, mover_of
from quarterjack.owner.backfill.records import note, read_backfill, read_runs, write_backfill
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.owner.schedules.client_tokens import ClientToken, remember_word, remembered_word
from quarterjack.ports.services import Clock, Services
from quarterjack.state.backfill import ENDED, BackfillState, Readiness, StoredBackfill, readiness
from quarterjack.state.before_start import refuse
from quarterjack.state.ending import cancel as cancellation_of
from quarterjack.state.transition import Compare, Transition, all_of
from quarterjack.values import replace

log = logging.getLogger(__name__)

BUDGET = 2 * SECOND  # of one backfill in one tick: live fires wait behind it; the rest is done a minute later
_WRITES = 20  # writes of one backfill in one tick
_RACES = 100  # lost races before the caller is told: each run that ends is a write
_ROUNDS = 5  # times that a run may move between being seen and being taken back
_ACTS = {
    BackfillState.PAUSED: AuditAct.PAUSE_BACKFILL,
    BackfillState.RUNNING: AuditAct.RESUME_BACKFILL,
    BackfillState.CANCELLED: AuditAct.CANCEL_BACKFILL,
}
_REASONS = {BackfillState.PAUSED: "backfill paused", BackfillState.CANCELLED: "backfill cancelled"}


def started_before(owner: str, token: ClientToken | None, context: FireContext) -> StoredBackfill | None:
    """The backfill that an earlier call with the token has started. Raises AlreadyExists, Unavailable."""
    identity = None if token is None else remembered_word(token, context.services, context.clock())
    return None if identity is None else read_backfill(owner, identity, context.services)


def start(planned: StoredBackfill, context: FireContext, token: ClientToken | None = None) -> StoredBackfill:
    """Start a planned backfill, under the id that the first call with the token noted.

    Raises AlreadyExists, Conflict, Unavailable: then it may have been started, and ``list_backfills`` shows it.
    """
    services, clock = context.services, context.clock
    if token is not None:
        planned = replace(planned, id=remember_word(token, planned.id, services, clock()))
    if planned.total == 0:
        return _created(planned.in_state(BackfillState.DONE, now=clock(), reason="nothing is due"), context)
    entry = _put_entry(planned, context)
    started = _created(planned, context)
    extra = {"schedule": started.owner, "backfill": started.id, "fires": started.total}
    log.info("backfill.started", extra=extra)
    return _begun(started, context, entry)


def pause(owner: str, identity: str, context: FireContext) -> StoredBackfill:
    """Hold a backfill. When this returns, no run of it starts; those that had started go on. Raises NotFound, Conflict, Unavailable."""
    backfill = _moved(owner, identity, BackfillState.PAUSED, context)
    take_back(backfill, context)
    return backfill


def cancel(owner: str, identity: str, context: FireContext) -> StoredBackfill:
    """End a backfill. When this returns, no run or further attempt of it starts. One that has ended stays as it is."""
    backfill = _moved(owner, identity, BackfillState.CANCELLED, context)
    if backfill.state is not BackfillState.CANCELLED:
        return backfill
    take_back(backfill, context)
    return _begun(backfill, context)


def resume(owner: str, identity: str, context: FireContext) -> StoredBackfill:
    """Let a paused backfill go on. Raises NotFound, Conflict, Unavailable."""
    entry = _put_entry(find(owner, identity, context.services), context)
    return _begun(_moved(owner, identity, BackfillState.RUNNING, context), context, entry)


def find(owner: str, identity: str, services: Services) -> StoredBackfill:
    """A backfill by its id. Raises NotFound."""
    backfill = read_backfill(owner, identity, services)
    if backfill is None:
        raise NotFound(f"id={identity!r}: {owner!r} has no such backfill; list_backfills() shows those it has")
    return backfill


def _moved(owner: str, identity: str, to: BackfillState, context: FireContext) -> StoredBackfill:
    """The backfill in a state, written unless it is in it already."""
    for _ in range(_RACES):
        backfill = find(owner, identity, context.services)
        state = backfill.state
        if state is to or (state in ENDED and to is BackfillState.CANCELLED):
            return backfill
        if state in ENDED:
            raise Conflict(f"id={identity!r}: it is {state} and stays so; start another backfill for the rest")
        reason = "requested" if to in ENDED else None
        audit = audit_entry(_ACTS[to], _target(backfill), context)
        moved = write_backfill(backfill.in_state(to, now=context.clock(), reason=reason), context.services, audit)
        if moved is not None:
            with suppress(QuarterjackError):  # it only lets the audit entry expire later
                note(moved, context.services, now=context.clock())
            return moved
    raise Conflict(f"id={identity!r}: others changed it {_RACES} times meanwhile; try again")


def _target(backfill: StoredBackfill) -> str:
    """The backfill, for the audit."""
    return f"{backfill.owner}#backfill/{backfill.id}"


def _created(backfill: StoredBackfill, context: FireContext) -> StoredBackfill:
    note(backfill, context.services, now=context.clock())
    span: Mapping[str, Any] = {"start": backfill.start, "end": backfill.end, "total": backfill.total}
    audit = audit_entry(AuditAct.BACKFILL, _target(backfill), context, **span)
    # None: a call with the same token, at the same time, was first; the two have noted one id.
    created = write_backfill(backfill, context.services, audit) or read_backfill(
        backfill.owner, backfill.id, context.services
    )
    if created is None:
        raise Conflict(f"backfill {backfill.id} of {backfill.owner!r} was there and is gone; try again")
    return created


def _put_entry(backfill: StoredBackfill, context: FireContext) -> AgendaEntry:
    """Let the ticker look at a backfill at once. No other entry of it has that key: others are at whole minutes."""
    agenda, now = context.services.agenda, context.clock()
    shard, identity = agenda.layout().shard_of(backfill.owner), f"{backfill.owner}#{backfill.id}"
    entry = AgendaEntry(
        shard=shard, due=now | 1, kind=EntryKind.BACKFILL, id=identity, after=backfill.created, created_at=now
    )
    if entry.key not in agenda.put([entry]):
        raise Unavailable("the agenda did not accept the backfill; try again")
    return entry


def _begun(backfill: StoredBackfill, context: FireContext, entry: AgendaEntry | None = None) -> StoredBackfill:
    """Advance at once, without waiting for a tick; the ticker does the rest if that fails.

    ``entry`` was put before the state. If this process stalled since, the ticker may have dropped it: it saw nothing that needs one.
    """
    if entry is not None and context.clock() - entry.created_at > ORPHAN_PATIENCE // 2:
        _put_entry(backfill, context)
    try:
        return advance(mover_of(backfill, context), backfill, backfill.window, rounds=ROUNDS)
    except QuarterjackError as problem:
        extra = {"schedule": backfill.owner, "backfill": backfill.id, "error": str(problem)}
        log.warning("backfill.left_to_tick", extra=extra)
        return backfill


# Stop.


def take_back(backfill: StoredBackfill, context: FireContext) -> None:
    """Take back the waiting runs of a stopped backfill; running ones go on. Raises Unavailable: call again to finish."""
    services = context.services
    waiting = WAITING if backfill.state is BackfillState.CANCELLED else {RunState.QUEUED}
    for _ in range(_ROUNDS):
        runs = read_runs(backfill, backfill.window, services).values()
        found = [run for run in runs if run is not None and run.backfill == backfill.id and run.state in waiting]
        now = context.clock()
        moves = []
        for run in found:
            refusal, *cancellation = _ends(backfill, run.revision, now, now + services.retention)
            moves.append((run.ref, refusal if run.state is RunState.QUEUED else cancellation[0]))
        moved = services.ledger.move_all(moves) if moves else {}
        if all(moved.get(run.ref) for run in found):
            return
    raise Unavailable(f"runs of backfill {backfill.id} changed {_ROUNDS} times meanwhile; call again to finish")


def refuse_stopped(message: Message, services: Services, clock: Clock) -> tuple[str, RunState | None] | None:
    """Take back a message's run if its backfill is stopped: the reason, and the run's state if this call ended it.

    None: its backfill goes on, or the run has started.
    """
    backfill = read_backfill(message.run.owner, message.backfill or "", services)
    if backfill is None or backfill.state not in _REASONS:
        return None
    now = clock()
    for move in _ends(backfill, message.revision, now, now + services.retention):
        moved = services.ledger.move(message.run, move)
        if moved.applied:
            return _REASONS[backfill.state], RunState.CANCELLED
        if moved.run is not None and moved.run.backfill != backfill.id:  # whose own message has its payload
            return "claimed by another backfill", None
    return None


def _ends(backfill: StoredBackfill, revision: int, now: int, expires: int) -> Iterator[Transition]:
    """Refuse a run that never started: another backfill may claim its fire. After a cancellation also end one between two attempts."""
    own, reason = Compare("backfill", "=", backfill.id), _REASONS[backfill.state]
    refusal = refuse(to=RunState.CANCELLED, revision=revision, now=now, expires=expires, reason=reason)
    yield replace(refusal, guard=all_of(own, refusal.guard))
    if backfill.state is BackfillState.CANCELLED:
        ended = cancellation_of(now=now, expires=expires)
        yield replace(ended, guard=all_of(own, ended.guard))


# The ticker's part.


def look_after(entry: AgendaEntry, context: FireContext) -> Handled:
    """Advance a backfill whose worker may have crashed, and end it."""
    services, clock = context.services, context.clock
    owner, _, identity = entry.id.partition("#")
    backfill = read_backfill(owner, identity, services)
    if backfill is None:  # its creator may be about to put it
        return Handled(may_go=clock() - entry.created_at > ORPHAN_PATIENCE)
    head = services.schedules.head(backfill.tenant, backfill.name)
    ready = readiness(backfill, head)
    if ready is Readiness.ORPHANED and backfill.state not in ENDED:
        # The deletion took back the waiting runs. After a lost race the next tick tries again.
        ended = backfill.in_state(BackfillState.CANCELLED, now=clock(), reason="schedule deleted")
        audit = audit_entry(AuditAct.CANCEL_BACKFILL, _target(backfill), context, reason=ended.reason)
        backfill = write_backfill(ended, services, audit) or backfill
    if backfill.state in _REASONS:
        take_back(backfill, context)  # in case its owner's process crashed before that
    if backfill.state is BackfillState.PAUSED:
        is_resumed = clock() - entry.created_at <= ORPHAN_PATIENCE  # the entry comes before the state
        return Handled(may_go=not is_resumed)
    current = head.revision if head is not None and ready is Readiness.READY else None
    mover = BackfillMover(owner, current, context)
    looked = entry.due - LOOKAHEAD - MINUTE  # or later, by the tick before this one
    until = clock() + BUDGET
    backfill = advance(mover, backfill, backfill.window, rounds=_WRITES, until=until, looked=looked)
    counts = TickCounts(schedules=ScheduleCounts(backfills=(_progress(backfill, entry),)))
    if backfill.state in ENDED and not backfill.window:
        return Handled(may_go=True, counts=counts)
    # Leave the entry for the next tick: beyond this one's look-ahead.
    due = -(-(clock() + LOOKAHEAD + SECOND) // MINUTE) * MINUTE
    may_go = due != entry.due and postpone(replace(entry, after=backfill.created), due, services)
    return Handled(may_go=may_go, counts=counts)


def _progress(backfill: StoredBackfill, entry: AgendaEntry) -> BackfillProgress:
    return BackfillProgress(
        tenant=backfill.tenant,
        backfill=backfill.id,
        created=max(backfill.created - entry.after, 0),
        left=0 if backfill.state in ENDED else max(backfill.total - backfill.created - backfill.skipped, 0),
    )
