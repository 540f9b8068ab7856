"""The chain of one schedule: where its agenda entry must be, and whether it is there.

An entry lies at the fire that follows all that are claimed, which its key says: one read finds it. It may lie elsewhere for a while (a
step is under way, missed fires were passed over, a fire was skipped ahead of time); where it is at none of the likely places, the
entries of its shard up to the last of these are read, as the ticker would. The next entry is put before the present one goes, so
reading upwards meets one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind, parse_entry_key
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.domain.times import stamp
from minutehand.fires.plan import LOOKAHEAD, REACH
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.timing import Timetable, timetable

FAR = 10**14  # UTC ms beyond every fire
_AT_ONCE = 25  # entries read where one should be: others of the same instant may lie between
_PAGE, _PAGES = 500, 20  # entries of one query, and queries, until the search is given up


class ChainHealth(StrEnum):
    """What is known of a chain."""

    OK = "ok"  # its entry is in the agenda
    QUARANTINED = "quarantined"  # its entry failed ten times and was moved aside
    MISSING = "missing"  # it has none: no further fire would be claimed
    UNKNOWN = "unknown"  # too many entries are due before it to look through
    NOT_NEEDED = "not needed"  # nothing of the schedule is due any more: it is paused, or complete


@dataclass(frozen=True, kw_only=True)
class ChainState:
    """A chain as it was found."""

    health: ChainHealth
    due: int | None = None  # UTC ms at which its entry is due


def check_chain(head: Head, revision: Revision, services: Services, clock: Clock) -> ChainState:
    """Whether the chain of a head's current revision goes on. Raises Unavailable."""
    table = timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)
    places = _likely(table, revision, services, clock())
    if head.state is not ScheduleState.ACTIVE or revision.active_until is not None or not places:
        return ChainState(health=ChainHealth.NOT_NEEDED)
    for due in places:
        if _lies_at(due, revision, services):
            return ChainState(health=ChainHealth.OK, due=due)
    return _search(revision, max(places), services)


def _likely(table: Timetable, revision: Revision, services: Services, now: int) -> list[int]:
    """Where the entry may be due, the likeliest first; nowhere if the expression ends."""
    claimed = claimed_upto(revision, services)
    after = (claimed, now, claimed - 1, now + LOOKAHEAD, now + REACH)
    fires = [table.next(max(moment, revision.active_from)) for moment in after]
    return [] if fires[0] is None else list(dict.fromkeys(fire for fire in fires if fire is not None))


def claimed_upto(revision: Revision, services: Services) -> int:
    """The last fire of a revision that its chain has come to (UTC ms), or where it became active."""
    for run in services.ledger.latest(revision.owner, upto=FAR):
        if run.due <= revision.active_from:
            break
        if run.revision == revision.number and run.ref.is_fire and run.backfill is None:
            return run.due
    return revision.active_from


def _lies_at(due: int, revision: Revision, services: Services) -> bool:
    before = f"{stamp(due)}#{EntryKind.CHAIN}#{revision.id[:-1]}"
    page = services.agenda.due(revision.shard, upto=due, after=before, limit=_AT_ONCE)
    return any(_is_of(entry, revision) for entry in page.entries)


def _search(revision: Revision, upto: int, services: Services) -> ChainState:
    for page in _pages(revision.shard, upto, services):
        if page is None:
            return ChainState(health=ChainHealth.UNKNOWN)
        for entry in page:
            if _is_of(entry, revision):
                return ChainState(health=ChainHealth.OK, due=entry.due)
    for key in services.agenda.quarantined(revision.shard):
        due, kind, of = parse_entry_key(key)
        if kind is EntryKind.CHAIN and of == revision.id:
            return ChainState(health=ChainHealth.QUARANTINED, due=due)
    return ChainState(health=ChainHealth.MISSING)


def _pages(shard: int, upto: int, services: Services) -> Iterator[list[AgendaEntry] | None]:
    """The entries of a shard in order of time; None where there are too many."""
    after = None
    for _ in range(_PAGES):
        page = services.agenda.due(shard, upto=upto, after=after, limit=_PAGE)
        yield list(page.entries)
        after = page.last
        if after is None:
            return
    yield None


def _is_of(entry: AgendaEntry, revision: Revision) -> bool:
    return entry.kind is EntryKind.CHAIN and entry.id == revision.id
