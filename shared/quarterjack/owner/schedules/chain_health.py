"""The chain of one schedule: where its agenda entry must be, and whether it is there.

The entry's key has the first fire that is not claimed, so one read finds it. The entry may be elsewhere for a while: the ticker is
handling it, missed fires were skipped, or the owner skipped a fire. If it is at none of the likely instants, all entries of its shard up
to the last of these are read. The next entry is put before the present one is removed, so reading upwards meets one of them.
"""

from __future__ import annotations

from enum import StrEnum

from quarterjack.domain.run import AgendaEntry, EntryKind, parse_entry_key
from quarterjack.domain.schedule import Head, Revision, ScheduleState
from quarterjack.domain.times import stamp
from quarterjack.fires.context import FAR, LOOKAHEAD, REACH, due_pages
from quarterjack.fires.plan import timetable_of
from quarterjack.ports.services import Clock, Services
from quarterjack.values import value

_AT_ONCE = 25  # entries read at a likely instant: other entries of the same instant may lie between
_PAGES = 20  # queries until the search is given up


class ChainHealth(StrEnum):
    """The state of a chain's agenda entry."""

    OK = "ok"  # its entry is in the agenda
    QUARANTINED = "quarantined"  # its entry failed ten times and was moved aside
    MISSING = "missing"  # it has no entry: no further fire would be claimed
    UNKNOWN = "unknown"  # too many entries are due before it to read them all
    NOT_NEEDED = "not needed"  # the schedule is paused or complete


@value(kw_only=True)
class ChainState:
    """A chain's health, and where its entry is."""

    health: ChainHealth
    due: int | None = None  # UTC ms at which its entry is due


def check_chain(head: Head, revision: Revision, services: Services, clock: Clock) -> ChainState:
    """Whether the chain of a head's current revision goes on. Raises Unavailable."""
    places = _likely(revision, services, clock())
    if head.state is not ScheduleState.ACTIVE or revision.active_until is not None or not places:
        return ChainState(health=ChainHealth.NOT_NEEDED)
    for due in places:
        if _is_there(revision, due, services):
            return ChainState(health=ChainHealth.OK, due=due)
    return _search(revision, max(places), services)


def entry_upto(revision: Revision, upto: int, services: Services) -> ChainState:
    """Whether the chain of a revision, ended or not, has an entry due up to an instant (UTC ms). MISSING: it has none, or a later one.

    Raises Unavailable.
    """
    return _search(revision, upto, services)


def _likely(revision: Revision, services: Services, now: int) -> list[int]:
    """Instants (UTC ms) at which the entry may be due, the likeliest first; none if the expression has ended."""
    table = timetable_of(revision)
    claimed = claimed_upto(revision, services)
    after = (claimed, now, claimed - 1, now + LOOKAHEAD, now + REACH)
    fires = [table.next(max(moment, revision.active_from)) for moment in after]
    return [] if fires[0] is None else list(dict.fromkeys(fire for fire in fires if fire is not None))


def claimed_upto(revision: Revision, services: Services) -> int:
    """The last fire (UTC ms) that a revision's chain claimed, or the instant at which the revision became active."""
    for run in services.ledger.latest(revision.owner, upto=FAR):
        if run.due <= revision.active_from:
            break
        if run.revision == revision.number and run.ref.is_fire and run.backfill is None:
            return run.due
    return revision.active_from


def _is_there(revision: Revision, due: int, services: Services) -> bool:
    """Whether the entry of a chain is due at this instant (UTC ms)."""
    before = f"{stamp(due)}#{EntryKind.CHAIN}#{revision.id[:-1]}"
    page = services.agenda.due(revision.shard, upto=due, after=before, limit=_AT_ONCE)
    return any(_is_of(entry, revision) for entry in page.entries)


def _search(revision: Revision, upto: int, services: Services) -> ChainState:
    for number, page in enumerate(due_pages(revision.shard, services, upto=upto), 1):
        for entry in page.entries:
            if _is_of(entry, revision):
                return ChainState(health=ChainHealth.OK, due=entry.due)
        if number == _PAGES and page.last is not None:
            return ChainState(health=ChainHealth.UNKNOWN)
    for key in services.agenda.quarantined(revision.shard):
        due, kind, of = parse_entry_key(key)
        if kind is EntryKind.CHAIN and of == revision.id:
            return ChainState(health=ChainHealth.QUARANTINED, due=due)
    return ChainState(health=ChainHealth.MISSING)


def _is_of(entry: AgendaEntry, revision: Revision) -> bool:
    return entry.kind is EntryKind.CHAIN and entry.id == revision.id
