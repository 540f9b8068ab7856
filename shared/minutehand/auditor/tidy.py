"""Tidy: remove chain entries that no revision needs any more. The auditor's second half of "and nothing else has".

A paused, replaced or deleted revision leaves its last entry in the agenda until it is due, which may be months ahead. Past the
revision's end there is nothing to claim, a closed revision is never opened again, and so the entry may go at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.schedule import Revision
from minutehand.domain.times import DAY
from minutehand.fires.chain import revision_key
from minutehand.fires.withdraw import withdraw_beyond
from minutehand.ports.clock import Clock
from minutehand.ports.schedules import RevisionKey
from minutehand.ports.services import Services

log = logging.getLogger(__name__)

_PAGE = 500
FAR = 200 * 365 * DAY  # UTC ms beyond every entry


def tidy(shard: int, services: Services, clock: Clock) -> int:
    """Remove the entries of a shard that lie beyond the end of their revision; how many. Raises Unavailable."""
    removed = 0
    for page in _chains(shard, services):
        moot = _moot(page, services)
        for entry, revision in moot:
            withdraw_beyond(revision, services, clock)
            log.info("audit.tidied", extra={"entry": entry.key})
        removed += len(services.agenda.remove([entry for entry, _ in moot])) if moot else 0
    return removed


def _chains(shard: int, services: Services) -> Iterator[Sequence[AgendaEntry]]:
    after = None
    while True:
        page = services.agenda.due(shard, upto=FAR, after=after, limit=_PAGE)
        yield [entry for entry in page.entries if entry.kind is EntryKind.CHAIN]
        after = page.last
        if after is None:
            return


def _moot(entries: Sequence[AgendaEntry], services: Services) -> list[tuple[AgendaEntry, Revision]]:
    keyed = [(entry, key) for entry in entries if (key := _revision_of(entry)) is not None]
    found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
    known = [(entry, found[key]) for entry, key in keyed if key in found]
    return [
        (e, revision) for e, revision in known if revision.active_until is not None and e.due > revision.active_until
    ]


def _revision_of(entry: AgendaEntry) -> RevisionKey | None:
    """The revision that an entry is about; None for garbage, which the ticker counts and moves aside."""
    try:
        return revision_key(entry)
    except ValueError:
        return None
