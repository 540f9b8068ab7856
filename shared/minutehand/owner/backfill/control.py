"""What an owner calls, what stops a backfill, and the ticker's part.

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
from collections.abc import Iterator
from dataclasses import dataclass, replace

from minutehand.domain.message import Message
from minutehand.domain.names import shard_of
from minutehand.domain.run import WAITING, AgendaEntry, EntryKind, RunRow, RunState
from minutehand.domain.times import MINUTE, SECOND
from minutehand.errors import Conflict, MinutehandError, NotFound, Unavailable
from minutehand.fires.chain import TickCounts
from minutehand.fires.context import FireContext
from minutehand.fires.plan import LOOKAHEAD
from minutehand.owner.backfill.advance import ROUNDS, BackfillMover, advance, mover_of
from minutehand.owner.backfill.records import read_backfill, read_runs, write_backfill
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.owner.schedules.client_tokens import ClientToken, remember_word, remembered_word
from minutehand.ports.services import Clock, Services
from minutehand.state.backfill import ENDED, BackfillState, Readiness, StoredBackfill, readiness
from minutehand.state.before_start import refuse
from minutehand.state.ending import cancel as cancellation_of
from minutehand.state.transition import Compare, Transition, all_of

_ROUNDS = 5  # times that a run may move between being seen and being taken back
_REASONS = {BackfillState.PAUSED: "backfill paused", BackfillState.CANCELLED: "backfill cancelled"}


@dataclass(frozen=True)
class StoppedRun:
    """Why the message of a backfill's run is not executed."""

    reason: str
    state: RunState | None = None  # of the run, if this call ended it


def take_back(backfill: StoredBackfill, services: Services, clock: Clock) -> None:
    """Take back the waiting runs of a stopped backfill; running ones go on. Raises Unavailable: call again to finish."""
    waiting = WAITING if backfill.state is BackfillState.CANCELLED else {RunState.QUEUED}
    for _ in range(_ROUNDS):
        runs = read_runs(backfill, backfill.window, services).values()
        found = [run for run in runs if run is not None and run.backfill == backfill.id and run.state in waiting]
        now = clock()
        moves = [(run.ref, _ending_of(run, backfill, now, now + services.retention)) for run in found]
        moved = services.ledger.move_all(moves) if moves else {}
        if all(moved.get(run.ref) for run in found):
            return
    raise Unavailable(f"runs of backfill {backfill.id} changed {_ROUNDS} times meanwhile; call again to finish")


def refuse_stopped(message: Message, services: Services, clock: Clock) -> StoppedRun | None:
    """Take back a message's run if its backfill is stopped. None: its backfill goes on, or the run has started."""
    backfill = read_backfill(message.run.owner, message.backfill or "", services)
    if backfill is None or backfill.state not in _REASONS:
        return None
    now = clock()
    for move in _ends(backfill, message.revision, now, now + services.retention):
        moved = services.ledger.move(message.run, move)
        if moved.applied:
            return StoppedRun(_REASONS[backfill.state], RunState.CANCELLED)
        if moved.run is not None and moved.run.backfill != backfill.id:  # whose own message has its payload
            return StoppedRun("claimed by another backfill")
    return None


def _ending_of(run: RunRow, backfill: StoredBackfill, now: int, expires: int) -> Transition:
    """What ends a run in the state in which it was read."""
    refusal, *cancellation = _ends(backfill, run.revision, now, expires)
    return refusal if run.state is RunState.QUEUED else cancellation[0]


def _ends(backfill: StoredBackfill, revision: int, now: int, expires: int) -> Iterator[Transition]:
    """Refuse a run that never started: another backfill may claim its fire. After a cancellation also end one between two attempts."""
    own, reason = Compare("backfill", "=", backfill.id), _REASONS[backfill.state]
    refusal = refuse(to=RunState.CANCELLED, revision=revision, now=now, expires=expires, reason=reason)
    yield replace(refusal, guard=all_of(own, refusal.guard))
    if backfill.state is BackfillState.CANCELLED:
        ended = cancellation_of(now=now, expires=expires)
        yield replace(ended, guard=all_of(own, ended.guard))


log = logging.getLogger(__name__)

_RACES = 100  # lost races before the caller is told: each run that ends is a write


def started_before(owner: str, token: ClientToken | None, services: Services, clock: Clock) -> StoredBackfill | None:
    """The backfill that an earlier call with the token has started. Raises AlreadyExists, Unavailable."""
    identity = None if token is None else remembered_word(token, services, clock())
    return None if identity is None else read_backfill(owner, identity, services)


def start(
    planned: StoredBackfill, services: Services, clock: Clock, token: ClientToken | None = None
) -> StoredBackfill:
    """Start a planned backfill, under the id that the first call with the token noted.

    Raises AlreadyExists, Conflict, Unavailable: then it may have been started, and ``list_backfills`` shows it.
    """
    if token is not None:
        planned = replace(planned, id=remember_word(token, planned.id, services, clock()))
    if planned.total == 0:
        return _created(planned.in_state(BackfillState.DONE, now=clock(), reason="nothing is due"), services)
    entry = _put_entry(planned, services, clock)
    started = _created(planned, services)
    _put_again_after_stall(entry, started, services, clock)
    extra = {"schedule": started.owner, "backfill": started.id, "fires": started.total}
    log.info("backfill.started", extra=extra)
    return _begun(started, services, clock)


def pause(owner: str, identity: str, services: Services, clock: Clock) -> StoredBackfill:
    """Hold a backfill. When this returns, no run of it starts; those that had started go on. Raises NotFound, Conflict, Unavailable."""
    backfill = _moved(owner, identity, BackfillState.PAUSED, services, clock)
    take_back(backfill, services, clock)
    return backfill


def cancel(owner: str, identity: str, services: Services, clock: Clock) -> StoredBackfill:
    """End a backfill. When this returns, no run or further attempt of it starts. One that has ended stays as it is."""
    backfill = _moved(owner, identity, BackfillState.CANCELLED, services, clock)
    if backfill.state is not BackfillState.CANCELLED:
        return backfill
    take_back(backfill, services, clock)
    return _begun(backfill, services, clock)


def resume(owner: str, identity: str, services: Services, clock: Clock) -> StoredBackfill:
    """Let a paused backfill go on. Raises NotFound, Conflict, Unavailable."""
    entry = _put_entry(find(owner, identity, services), services, clock)
    backfill = _moved(owner, identity, BackfillState.RUNNING, services, clock)
    _put_again_after_stall(entry, backfill, services, clock)
    return _begun(backfill, services, clock)


def find(owner: str, identity: str, services: Services) -> StoredBackfill:
    """A backfill by its id. Raises NotFound."""
    backfill = read_backfill(owner, identity, services)
    if backfill is None:
        raise NotFound(f"id={identity!r}: {owner!r} has no such backfill; list_backfills() shows those it has")
    return backfill


def _moved(owner: str, identity: str, to: BackfillState, services: Services, clock: Clock) -> StoredBackfill:
    """The backfill in a state, written unless it is in it already."""
    for _ in range(_RACES):
        backfill = find(owner, identity, services)
        state = backfill.state
        if state is to or (state in ENDED and to is BackfillState.CANCELLED):
            return backfill
        if state in ENDED:
            raise Conflict(f"id={identity!r}: it is {state} and stays so; start another backfill for the rest")
        reason = "requested" if to in ENDED else None
        moved = write_backfill(backfill.in_state(to, now=clock(), reason=reason), services)
        if moved is not None:
            return moved
    raise Conflict(f"id={identity!r}: others changed it {_RACES} times meanwhile; try again")


def _begun(backfill: StoredBackfill, services: Services, clock: Clock) -> StoredBackfill:
    """Advance at once, without waiting for a tick; the ticker does the rest if that fails."""
    try:
        return advance(mover_of(backfill, services, clock), backfill, backfill.window, rounds=ROUNDS)
    except MinutehandError as problem:
        extra = {"schedule": backfill.owner, "backfill": backfill.id, "error": str(problem)}
        log.warning("backfill.left_to_tick", extra=extra)
        return backfill


def _created(backfill: StoredBackfill, services: Services) -> StoredBackfill:
    created = write_backfill(backfill, services)
    if created is None:
        raise Conflict(f"backfill {backfill.id} of {backfill.owner!r} is there already; try again")
    return created


def _put_entry(backfill: StoredBackfill, services: Services, clock: Clock) -> AgendaEntry:
    entry = first_entry(backfill, services, clock())
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable("the agenda did not accept the backfill; try again")
    return entry


def _put_again_after_stall(entry: AgendaEntry, backfill: StoredBackfill, services: Services, clock: Clock) -> None:
    """If this process stalled, the ticker may have dropped the entry: it saw nothing that needs one."""
    if clock() - entry.created_at > ORPHAN_PATIENCE // 2:
        _put_entry(backfill, services, clock)


BUDGET = 2 * SECOND  # of one backfill in one tick: live fires wait behind it; the rest is done a minute later
_WRITES = 20  # writes of one backfill in one tick


def first_entry(backfill: StoredBackfill, services: Services, now: int) -> AgendaEntry:
    """The entry that lets the ticker look at a backfill, due at once. No other of it has that key: others are at whole minutes."""
    shard = shard_of(backfill.owner, services.agenda.shards())
    identity = f"{backfill.owner}#{backfill.id}"
    return AgendaEntry(shard=shard, due=now | 1, kind=EntryKind.BACKFILL, id=identity, created_at=now)


def look_after(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Look after a backfill. Returns whether the entry may be deleted."""
    del counts
    services, clock = context.services, context.clock
    owner, _, identity = entry.id.partition("#")
    backfill = read_backfill(owner, identity, services)
    if backfill is None:  # its creator may be about to put it
        return clock() - entry.created_at > ORPHAN_PATIENCE
    head = services.schedules.head(backfill.tenant, backfill.name)
    ready = readiness(backfill, head)
    if ready is Readiness.ORPHANED and backfill.state not in ENDED:
        # The deletion took back the waiting runs. After a lost race the next tick tries again.
        ended = backfill.in_state(BackfillState.CANCELLED, now=clock(), reason="schedule deleted")
        backfill = write_backfill(ended, services) or backfill
    if backfill.state in (BackfillState.PAUSED, BackfillState.CANCELLED):
        take_back(backfill, services, clock)  # in case its owner's process crashed before that
    if backfill.state is BackfillState.PAUSED:
        is_resumed = clock() - entry.created_at <= ORPHAN_PATIENCE  # the entry comes before the state
        return not is_resumed
    current = head.revision if head is not None and ready is Readiness.READY else None
    mover = BackfillMover(owner, current, services, clock, context.trace)
    looked = entry.due - LOOKAHEAD - MINUTE  # or later, by the tick before this one
    until = clock() + BUDGET
    backfill = advance(mover, backfill, backfill.window, rounds=_WRITES, until=until, looked=looked)
    over = backfill.state in ENDED and not backfill.window
    return over or _put_next(entry, services, clock)


def _put_next(entry: AgendaEntry, services: Services, clock: Clock) -> bool:
    """Leave the entry for the next tick: beyond this one's look-ahead."""
    due = -(-(clock() + LOOKAHEAD + SECOND) // MINUTE) * MINUTE
    later = replace(entry, due=due, failures=0)
    return later.key != entry.key and later.key in services.agenda.put([later])
