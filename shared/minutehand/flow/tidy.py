"""Tidy: remove chain entries that no revision needs any more. The auditor's second half of "and nothing else has".

A paused, replaced or deleted revision leaves its last entry in the agenda until it is due, which may be months ahead. Past the
revision's end there is nothing to claim, a closed revision is never opened again, and so the entry may go at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from minutehand.flow.handle import revision_key
from minutehand.flow.ports import Services
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
    keys = [revision_key(entry) for entry in entries]
    found = services.schedules.revisions(set(keys)).found if keys else {}
    ends = [found[key].active_until if key in found else None for key in keys]
    return [entry for entry, end in zip(entries, ends, strict=True) if end is not None and entry.due > end]
