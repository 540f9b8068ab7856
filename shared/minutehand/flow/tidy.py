"""Tidy: remove chain entries that no revision needs any more. The auditor's second half of "and nothing else has".

A paused, replaced or deleted revision leaves its last entry in the agenda until it is due, which may be months ahead. Past the
revision's end there is nothing to claim, a closed revision is never opened again, and so the entry may go at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from minutehand.flow.handle import revision_key
from minutehand.flow.ports import Clock, RevisionKey, Services
from minutehand.flow.sweep import sweep_beyond
from minutehand.model.entry import Entry, EntryKind
from minutehand.model.moment import DAY
from minutehand.model.schedule import Revision

log = logging.getLogger(__name__)

_PAGE = 500
FAR = 200 * 365 * DAY  # UTC ms beyond every entry


def tidy(shard: int, services: Services, clock: Clock) -> int:
    """Remove the entries of a shard that lie beyond the end of their revision; how many. Raises Unavailable."""
    removed = 0
    for page in _chains(shard, services):
        moot = _moot(page, services)
        for entry, revision in moot:
            sweep_beyond(revision, services, clock)
            log.info("audit.tidied", extra={"entry": entry.key})
        removed += len(services.agenda.remove([entry for entry, _ in moot])) if moot else 0
    return removed


def _chains(shard: int, services: Services) -> Iterator[Sequence[Entry]]:
    after = None
    while True:
        page = services.agenda.due(shard, upto=FAR, after=after, limit=_PAGE)
        yield [entry for entry in page.entries if entry.kind is EntryKind.CHAIN]
        after = page.last
        if after is None:
            return


def _moot(entries: Sequence[Entry], services: Services) -> list[tuple[Entry, Revision]]:
    keyed = [(entry, key) for entry in entries if (key := _revision_of(entry)) is not None]
    found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
    known = [(entry, found[key]) for entry, key in keyed if key in found]
    return [
        (e, revision) for e, revision in known if revision.active_until is not None and e.due > revision.active_until
    ]


def _revision_of(entry: Entry) -> RevisionKey | None:
    """The revision that an entry is about; None for garbage, which the ticker counts and moves aside."""
    try:
        return revision_key(entry)
    except ValueError:
        return None
