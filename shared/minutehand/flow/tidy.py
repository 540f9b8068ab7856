"""Tidy: remove chain entries that no revision needs any more. The auditor's second half of "and nothing else has".

A paused, replaced or deleted revision leaves its last entry in the agenda until it is due, which may be months ahead. Past the
revision's end there is nothing to claim, a closed revision is never opened again, and so the entry may go at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from minutehand.flow.handle import revision_key
from minutehand.flow.ports import RevisionKey, Services
from minutehand.model.entry import Entry, EntryKind
from minutehand.model.moment import DAY

log = logging.getLogger(__name__)

_PAGE = 500
FAR = 200 * 365 * DAY  # UTC ms beyond every entry


def tidy(shard: int, services: Services) -> int:
    """Remove the entries of a shard that lie beyond the end of their revision; how many."""
    removed = 0
    for page in _chains(shard, services):
        moot = _moot(page, services)
        for entry in moot:
            log.info("audit.tidied", extra={"entry": entry.key})
        removed += len(services.agenda.remove(moot)) if moot else 0
    return removed


def _chains(shard: int, services: Services) -> Iterator[Sequence[Entry]]:
    after = None
    while True:
        page = services.agenda.due(shard, upto=FAR, after=after, limit=_PAGE)
        yield [entry for entry in page.entries if entry.kind is EntryKind.CHAIN]
        after = page.last
        if after is None:
            return


def _moot(entries: Sequence[Entry], services: Services) -> list[Entry]:
    keyed = [(entry, key) for entry in entries if (key := _revision_of(entry)) is not None]
    found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
    ends = ((entry, found[key].active_until) for entry, key in keyed if key in found)
    return [entry for entry, end in ends if end is not None and entry.due > end]


def _revision_of(entry: Entry) -> RevisionKey | None:
    """The revision that an entry is about; None for garbage, which the ticker counts and moves aside."""
    try:
        return revision_key(entry)
    except ValueError:
        return None
