"""The ticker's part: once a minute it looks at the whole window of a backfill, for what crashed processes left.

    entry due: advance, or finish a stop ──► the next entry, at a whole minute ──► this one goes

Entries of one backfill that were put at different times meet again at the whole minute. A backfill that is paused or over has none.
"""

from __future__ import annotations

from dataclasses import replace

from minutehand.domain.names import shard_of
from minutehand.domain.run import AgendaEntry, EntryKind
from minutehand.domain.times import MINUTE, SECOND
from minutehand.fires.chain import TickCounts
from minutehand.fires.context import FireContext
from minutehand.fires.plan import LOOKAHEAD
from minutehand.owner.backfill.advance import BackfillMover, advance
from minutehand.owner.backfill.records import read_backfill, write_backfill
from minutehand.owner.backfill.stop import take_back
from minutehand.owner.runs.submit import ORPHAN_PATIENCE
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.backfill import ENDED, BackfillState, Readiness, StoredBackfill, readiness

BUDGET = 2 * SECOND  # of one backfill in one tick: live fires wait behind it; the rest is done a minute later
_ROUNDS = 20  # writes of one backfill in one tick


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
    backfill = advance(mover, backfill, backfill.window, rounds=_ROUNDS, until=until, looked=looked)
    over = backfill.state in ENDED and not backfill.window
    return over or _put_next(entry, services, clock)


def _put_next(entry: AgendaEntry, services: Services, clock: Clock) -> bool:
    """Leave the entry for the next tick: beyond this one's look-ahead."""
    due = -(-(clock() + LOOKAHEAD + SECOND) // MINUTE) * MINUTE
    later = replace(entry, due=due, failures=0)
    return later.key != entry.key and later.key in services.agenda.put([later])
