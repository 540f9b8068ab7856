"""The context in which agenda entries are handled; read the agenda page by page, and move an entry to a later time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from minutehand.concurrency.rate_limits import WriteBudget
from minutehand.domain.run import AgendaEntry
from minutehand.domain.times import DAY
from minutehand.fires.plan import REACH
from minutehand.ports.agenda import DuePage
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services


@dataclass(frozen=True, kw_only=True)
class FireContext:
    """The services, the time, and the limits of one tick or of one change by an owner."""

    services: Services
    clock: Clock
    reach: int = REACH  # ms beyond the look-ahead that a chain's plan may cover
    trace: str | None = None  # trace header that the messages carry
    write_budget: WriteBudget = field(default_factory=WriteBudget)  # write units that the claims may take


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
