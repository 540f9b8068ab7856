"""Read the agenda page by page, and move an entry to a later time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minutehand.domain.agenda_entry import AgendaEntry
from minutehand.domain.times import DAY
from minutehand.ports.agenda import DuePage
from minutehand.ports.services import Services

FAR = 200 * 365 * DAY  # UTC ms beyond every entry and every fire
PAGE = 500  # entries of one query: bounds memory, and fills the batches of 100 revisions and 25 claims


def due_pages(shard: int, services: Services, *, upto: int = FAR) -> Iterator[DuePage]:
    """The entries of a shard due up to an instant (UTC ms), oldest first. Raises Unavailable."""
    after = None
    while True:
        page = services.agenda.due(shard, upto=upto, after=after, limit=PAGE)
        yield page
        after = page.last
        if after is None:
            return


def postpone(entry: AgendaEntry, due: int, services: Services) -> bool:
    """Put the same entry at a later time (UTC ms); whether the agenda accepted it, so that the earlier one may go."""
    later = replace(entry, due=due, failures=0)
    return later.key in services.agenda.put([later])
