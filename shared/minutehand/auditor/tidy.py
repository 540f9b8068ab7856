"""Remove chain entries that no revision needs any more.

A paused, replaced or deleted revision leaves its last entry in the agenda until the entry is due, which may be months ahead. An entry
beyond the revision's end has nothing to claim, and a closed revision is never opened again, so the entry may go at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.schedule import Revision
from minutehand.fires.agenda_entries import due_pages
from minutehand.fires.chain import revision_key
from minutehand.fires.withdraw import withdraw_beyond
from minutehand.ports.clock import Clock
from minutehand.ports.schedules import RevisionKey
from minutehand.ports.services import Services

log = logging.getLogger(__name__)


def tidy(shard: int, services: Services, clock: Clock) -> int:
    """Remove the entries of a shard that lie beyond the end of their revision; how many. Raises Unavailable."""
    removed = 0
    for page in due_pages(shard, services):
        moot = _moot([entry for entry in page.entries if entry.kind is EntryKind.CHAIN], services)
        for entry, revision in moot:
            withdraw_beyond(revision, services, clock)
            log.info("audit.tidied", extra={"entry": entry.key})
        removed += len(services.agenda.remove([entry for entry, _ in moot])) if moot else 0
    return removed


def _moot(entries: Sequence[AgendaEntry], services: Services) -> list[tuple[AgendaEntry, Revision]]:
    keyed = [(entry, key) for entry in entries if (key := _revision_of(entry)) is not None]
    found = services.schedules.revisions({key for _, key in keyed}).found if keyed else {}
    known = [(entry, found[key]) for entry, key in keyed if key in found]
    return [
        (e, revision) for e, revision in known if revision.active_until is not None and e.due > revision.active_until
    ]


def _revision_of(entry: AgendaEntry) -> RevisionKey | None:
    """The revision that an entry is about; None for a malformed id, which the ticker counts and moves aside."""
    try:
        return revision_key(entry)
    except ValueError:
        return None
