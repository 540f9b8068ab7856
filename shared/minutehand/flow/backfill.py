"""Backfill: what an owner does with one. Plan, start, pause, resume, cancel.

    start    entry ──► backfill ──► lanes, as far as they go at once       resume   entry ──► state ──► lanes
    pause    state ──► what waits is taken back                            cancel   as pause

An entry without its backfill is dropped, and a backfill has an entry while it is RUNNING: dying in between loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import ClosedBy, Head, Revision
from minutehand.domain.times import from_ms
from minutehand.errors import Conflict, InvalidInput, MinutehandError, NotFound, Unavailable
from minutehand.fires.current import check_seen, must_exist, revision_of
from minutehand.flow.backfill_lanes import ROUNDS, Going, advance, finish, going
from minutehand.flow.backfill_piece import first_entry
from minutehand.flow.backfill_records import Kept, lanes_of, moved_to, read_backfill, write_backfill
from minutehand.flow.backfill_stop import take_back
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.owner.schedules.client_tokens import ClientToken, note, noted
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import ENDED, MARGIN, Backfill, BackfillOrder, BackfillState, is_free
from minutehand.state.definition_spans import one_definition, own_definitions, survey
from minutehand.timing import fires

log = logging.getLogger(__name__)

_RACES = 5  # lost races before the caller is told
_MOST_PARTS = 2_000  # stretches of one backfill: its record is read with each of its runs


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What shall be backfilled."""

    start: int  # UTC ms, inclusive
    end: int  # UTC ms, exclusive
    order: BackfillOrder
    concurrency: int
    payload: tuple[str | None, str | None] = (
        None,
        None,
    )  # JSON text or its key in the bucket, instead of each definition's
    current: bool = False  # the current definition for all of it
    allow_repeat: bool = False


def plan(
    tenant: str,
    name: str,
    wish: Wish,
    identity: str,
    services: Services,
    clock: Clock,
    *,
    expected: int | None = None,
) -> Going:
    """The backfill as it would be started. Reads only. Raises NotFound, InvalidInput, Conflict, Unavailable."""
    now, head = clock(), must_exist(tenant, name, services.schedules.head(tenant, name))
    check_seen(head, expected)
    oldest = now - services.retention + MARGIN
    if wish.start < oldest and not wish.allow_repeat:
        raise InvalidInput(
            "start",
            from_ms(wish.start).isoformat(),
            "is longer ago than the ledger remembers, so what has run already could run again",
            f"start at {from_ms(oldest).isoformat()} or later, or pass allow_repeat=True",
        )
    empty = Backfill(
        id=identity,
        tenant=tenant,
        name=name,
        born=head.created_at,
        start=wish.start,
        end=wish.end,
        order=wish.order,
        concurrency=wish.concurrency,
        stretches=(),
        total=0,
        first=None,
        last=None,
        created_at=now,
        payload=wish.payload[0],
        payload_ref=wish.payload[1],
        allow_repeat=wish.allow_repeat,
    )
    return _surveyed(empty, head, services, clock, current=wish.current)


def _surveyed(backfill: Backfill, head: Head, services: Services, clock: Clock, *, current: bool) -> Going:
    """With the stretches of its interval and what is due in them."""
    after, upto = backfill.start - 1, backfill.end - 1
    if current:
        revisions = [revision_of(head, services)]
        parts = one_definition(revisions[0], after, upto)
    else:
        revisions = list(_history(head, after, services))[::-1]
        if not revisions:
            raise Conflict(f"name={head.name!r}: it was deleted meanwhile; nothing is filled")
        parts = own_definitions(revisions, after, upto)
    known = Going(backfill, head.revision, services, clock, revisions={r.number: r for r in revisions})
    kept, total, first, last = survey(parts, known.table)
    if len(kept) > _MOST_PARTS:
        raise InvalidInput(
            "start",
            from_ms(backfill.start).isoformat(),
            f"lies {len(kept):,} changes of the schedule ago",
            f"backfill it in parts of at most {_MOST_PARTS:,} changes, or pass current=True",
        )
    known.backfill = replace(backfill, stretches=tuple(kept), total=total, first=first, last=last)
    return known


def _history(head: Head, after: int, services: Services) -> Iterator[Revision]:
    """The revisions of this schedule, and not of a deleted one of its name, that fires after an instant can be of; newest first."""
    for revision in services.schedules.history(head.owner):
        if revision.active_from < head.created_at or revision.closed_by is ClosedBy.DELETED:
            return
        yield revision
        if revision.active_from <= after:
            return


def count_there(planned: Going) -> int:
    """How many of its fires have a run in the way. Reads the ledger's rows of the interval."""
    backfill = planned.backfill
    rows = planned.services.ledger.window(backfill.owner, after=backfill.start - 1, upto=backfill.end - 1)
    due = (fire for part in backfill.stretches for fire in fires(planned.table(part), part.after, part.upto))
    there, count = _next_taken(rows), 0
    for fire in due:
        while there is not None and there < fire:
            there = _next_taken(rows)
        if there is None:
            return count
        count += there == fire
    return count


def _next_taken(rows: Iterator[RunRow]) -> int | None:
    return next((run.due for run in rows if run.ref.is_fire and not is_free(run)), None)


def started_before(owner: str, token: ClientToken | None, services: Services, clock: Clock) -> Backfill | None:
    """The backfill that an earlier call with the token has started. Raises AlreadyExists, Unavailable."""
    identity = None if token is None else noted(token, services, clock())
    kept = None if identity is None else read_backfill(owner, identity, services)
    return None if kept is None else kept.backfill


def start(planned: Going, token: ClientToken | None = None) -> Backfill:
    """Start a planned backfill, under the id that the first call with the token noted.

    Raises AlreadyExists, Conflict, Unavailable: then it may have been started, and ``list_backfills`` shows it.
    """
    if token is not None:
        identity = note(token, planned.backfill.id, planned.services, planned.clock())
        planned.backfill = replace(planned.backfill, id=identity)
    backfill, services, clock = planned.backfill, planned.services, planned.clock
    if backfill.total == 0:
        kept = Kept(backfill, 0)
        return _must(moved_to(kept, BackfillState.DONE, services, now=clock(), reason="nothing is due"), kept).backfill
    entry = _put_entry(backfill, services, clock)
    if not write_backfill(Kept(backfill, 0), services):
        raise Conflict(f"backfill {backfill.id} of {backfill.owner!r} is there already; try again")
    _put_again_after_stall(entry, backfill, services, clock)
    log.info("backfill.started", extra={"schedule": backfill.owner, "backfill": backfill.id, "fires": backfill.total})
    _kick(Kept(backfill, 1), services, clock)
    return backfill


def pause(owner: str, identity: str, services: Services, clock: Clock) -> Backfill:
    """Hold a backfill. When this returns, no run of it starts; those that had started go on. Raises NotFound, Conflict, Unavailable."""
    kept = _moved(owner, identity, BackfillState.PAUSED, services, clock)
    take_back(kept.backfill, services, clock)
    return kept.backfill


def cancel(owner: str, identity: str, services: Services, clock: Clock) -> Backfill:
    """End a backfill. When this returns, no run or further attempt of it starts. One that has ended stays as it is."""
    kept = _moved(owner, identity, BackfillState.CANCELLED, services, clock)
    if kept.backfill.state is BackfillState.CANCELLED:
        take_back(kept.backfill, services, clock)
    return kept.backfill


def resume(owner: str, identity: str, services: Services, clock: Clock) -> Backfill:
    """Let a paused backfill go on. Raises NotFound, Conflict, Unavailable."""
    entry = _put_entry(find(owner, identity, services).backfill, services, clock)
    kept = _moved(owner, identity, BackfillState.RUNNING, services, clock)
    _put_again_after_stall(entry, kept.backfill, services, clock)
    _kick(kept, services, clock)
    return kept.backfill


def find(owner: str, identity: str, services: Services) -> Kept:
    """A backfill by its id. Raises NotFound."""
    kept = read_backfill(owner, identity, services)
    if kept is None:
        raise NotFound(f"id={identity!r}: {owner!r} has no such backfill; list_backfills() shows those it has")
    return kept


def _moved(owner: str, identity: str, to: BackfillState, services: Services, clock: Clock) -> Kept:
    """The backfill in a state, written unless it is in it already."""
    for _ in range(_RACES):
        kept = find(owner, identity, services)
        state = kept.backfill.state
        if state is to or (state in ENDED and to is BackfillState.CANCELLED):
            return kept
        if state in ENDED:
            raise Conflict(f"id={identity!r}: it is {state} and stays so; start another backfill for what is left")
        moved = moved_to(kept, to, services, now=clock(), reason="requested" if to in ENDED else None)
        if moved is not None:
            return moved
    raise Conflict(f"id={identity!r}: others changed it {_RACES} times meanwhile; try again")


def _kick(kept: Kept, services: Services, clock: Clock) -> None:
    """Move every lane that stands, so that the backfill begins at once; what fails is left to the ticker."""
    try:
        under_way = going(kept.backfill, services, clock)
        if under_way is None:
            return
        lanes = [advance(under_way, lane, rounds=ROUNDS) for lane in lanes_of(kept.backfill, services)]
        if all(lane.over for lane in lanes):
            finish(kept, services, clock)
    except MinutehandError as problem:
        extra = {"schedule": kept.backfill.owner, "backfill": kept.backfill.id, "error": str(problem)}
        log.warning("backfill.left_to_tick", extra=extra)


def _put_entry(backfill: Backfill, services: Services, clock: Clock) -> AgendaEntry:
    entry = first_entry(backfill, services, clock())
    if entry.key not in services.agenda.put([entry]):
        raise Unavailable("the agenda did not accept the backfill; try again")
    return entry


def _put_again_after_stall(entry: AgendaEntry, backfill: Backfill, services: Services, clock: Clock) -> None:
    """If this process stalled, the ticker may have dropped the entry: it saw nothing that needs one."""
    if clock() - entry.created_at > ORPHAN_PATIENCE // 2:
        _put_entry(backfill, services, clock)


def _must(moved: Kept | None, kept: Kept) -> Kept:
    if moved is None:
        raise Conflict(f"backfill {kept.backfill.id} of {kept.backfill.owner!r} is there already; try again")
    return moved
