"""A piece of a backfill: what the ticker does for one each minute. Workers bring it forward; this finds what they left.

    entry due: move lanes that have stood still ──► end it if all are over ──► the next entry, at a whole minute ──► this one goes

Entries of one backfill that were put at different times meet again at the whole minute. A paused or ended backfill has none.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.names import shard_of
from minutehand.domain.times import MINUTE, SECOND
from minutehand.fires.context import FireContext
from minutehand.fires.plan import LOOKAHEAD
from minutehand.fires.tick_counts import TickCounts
from minutehand.flow.backfill_lanes import Going, advance, finish
from minutehand.flow.backfill_records import Kept, forget_lanes, lanes_of, moved_to, read_backfill
from minutehand.flow.backfill_stop import take_back
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import ENDED, Backfill, BackfillState, Standing, standing

log = logging.getLogger(__name__)

STILL = 30 * SECOND  # how long a lane stands still before the ticker looks at it
BUDGET = 2 * SECOND  # of one piece: live fires wait behind it; what is left is done a minute later
_ROUNDS = 20  # places that one lane is moved past in a piece


def first_entry(backfill: Backfill, services: Services, now: int) -> AgendaEntry:
    """The entry that lets the ticker see to a backfill, due at once. No other of it has that key: others are at whole minutes."""
    shard = shard_of(backfill.owner, services.agenda.shards())
    identity = f"{backfill.owner}#{backfill.id}"
    return AgendaEntry(shard=shard, due=now | 1, kind=EntryKind.BACKFILL, id=identity, created_at=now)


def piece(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """See to a backfill. True when the entry may go."""
    del counts
    services, clock = context.services, context.clock
    owner, _, identity = entry.id.partition("#")
    kept = read_backfill(owner, identity, services)
    if kept is None:  # its creator may be about to put it
        return clock() - entry.created_at > ORPHAN_PATIENCE
    head = services.schedules.head(kept.backfill.tenant, kept.backfill.name)
    stands = standing(kept.backfill, head)
    if stands is Standing.ORPHANED and kept.backfill.state not in ENDED:
        kept = _orphaned(kept, services, clock)
    if kept.backfill.state is not BackfillState.RUNNING:
        _finish_stop(kept.backfill, services, clock)
        about_to_go_on = kept.backfill.state is BackfillState.PAUSED and clock() - entry.created_at <= ORPHAN_PATIENCE
        return not about_to_go_on
    if stands is Standing.GOES and head is not None:
        _go_on(
            kept,
            Going(kept.backfill, head.revision, services, clock, context.trace),
            looked=entry.due - LOOKAHEAD - MINUTE,
        )
    return _put_next(entry, services, clock)


def _orphaned(kept: Kept, services: Services, clock: Clock) -> Kept:
    """Its schedule was deleted, and that took back what waited."""
    ended = moved_to(kept, BackfillState.CANCELLED, services, now=clock(), reason="schedule deleted")
    return ended or kept


def _finish_stop(backfill: Backfill, services: Services, clock: Clock) -> None:
    """What stopping it means, in case its owner's process died before that."""
    if backfill.state is not BackfillState.DONE:
        take_back(backfill, services, clock)
    if backfill.state in ENDED:
        forget_lanes(backfill, services, expires=(backfill.ended_at or clock()) + services.retention)


def _go_on(kept: Kept, under_way: Going, *, looked: int) -> None:
    """Move the lanes that nobody has moved for a while, as far as the budget goes. ``looked``: when this was done before, or earlier."""
    clock = under_way.clock
    until = clock() + BUDGET
    for lane in lanes_of(kept.backfill, under_way.services):
        if clock() >= until:
            return
        if not lane.over and lane.moved_at <= clock() - STILL:
            advance(under_way, lane, rounds=_ROUNDS, looked=looked)
    finish(kept, under_way.services, clock)


def _put_next(entry: AgendaEntry, services: Services, clock: Clock) -> bool:
    """Leave the entry for the next tick: beyond this one's look-ahead."""
    due = -(-(clock() + LOOKAHEAD + SECOND) // MINUTE) * MINUTE
    later = replace(entry, due=due, failures=0)
    return later.key != entry.key and later.key in services.agenda.put([later])
