"""What an owner calls: start, pause, resume, cancel and find a backfill.

    start    entry ──► record ──► first fires       resume   entry ──► state ──► next fires
    pause    state ──► waiting runs are taken back  cancel   as pause

An entry without its record is dropped, and a RUNNING backfill has an entry: a crash between the two loses nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.run import AgendaEntry
from minutehand.errors import Conflict, MinutehandError, NotFound, Unavailable
from minutehand.owner.backfill.advance import ROUNDS, advance, mover_of
from minutehand.owner.backfill.records import read_backfill, write_backfill
from minutehand.owner.backfill.stop import take_back
from minutehand.owner.backfill.timer import first_entry
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.owner.schedules.client_tokens import ClientToken, remember_word, remembered_word
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import ENDED, BackfillState, StoredBackfill

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
