"""List the dead runs of a tenant, and remove runs from the list."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from minutehand.domain.run import DeadRunRow
from minutehand.domain.times import DAY, MINUTE
from minutehand.errors import InvalidInput, Unavailable
from minutehand.ports.page import RowPage
from minutehand.ports.services import Services
from minutehand.state.transition import Absent, Compare, Condition, all_of

AHEAD = 10 * MINUTE  # a run that died by a worker's fast clock is listed too
LETTERS = 14 * DAY  # the longest that a letter can have waited for the undertaker
_REMOVED_AT_ONCE = 100  # lines
_KEY = re.compile(r"#\d{15}#[^#]+#[^#]+")


@dataclass(frozen=True, kw_only=True)
class DeadRunFilter:
    """Which dead runs; None matches all."""

    after: int  # UTC ms: those that died later
    upto: int  # UTC ms: and not later than this
    job: str | None = None
    schedule: str | None = None
    error_type: str | None = None
    redriven: bool = False  # also runs that were redriven already

    @property
    def clause(self) -> Condition | None:
        """The condition on a line of the index."""
        given = {"job": self.job, "schedule": self.schedule, "error_type": self.error_type}
        parts: list[Condition] = [Compare(name, "=", value) for name, value in given.items() if value is not None]
        if not self.redriven:
            parts.append(Absent("redriven_as"))
        return all_of(*parts) if parts else None

    @property
    def is_narrow(self) -> bool:
        """Whether most lines may not match: then a query reads as many as fit."""
        return any(value is not None for value in (self.job, self.schedule, self.error_type))


def oldest(now: int, services: Services) -> int:
    """No run that died earlier than this (UTC ms) is in the index."""
    return now - services.retention - LETTERS


def list_dead(tenant: str, wanted: DeadRunFilter, services: Services, *, limit: int, cursor: str | None) -> RowPage:
    """Dead runs, newest first. Reads as many days as it must to fill the page. Raises InvalidInput, Unavailable."""
    before = key_before(cursor, tenant)
    lines = dead_runs(tenant, wanted, services, before=before, page=None if wanted.is_narrow else limit + 1)
    taken = list(islice(lines, limit + 1))
    return RowPage(items=taken[:limit], cursor=cursor_after(taken[limit - 1]) if len(taken) > limit else None)


def dead_runs(
    tenant: str, wanted: DeadRunFilter, services: Services, *, before: str | None = None, page: int | None = None
) -> Iterator[DeadRunRow]:
    """Dead runs, newest first, read lazily; ``before`` is a key to go on from."""
    index = services.dead_index
    return index.read(tenant, after=wanted.after, upto=wanted.upto, only=wanted.clause, before=before, page=page)


def purge(tenant: str, wanted: DeadRunFilter, services: Services, *, dry_run: bool) -> int:
    """Remove dead runs from the index; how many. Their rows stay in the ledger until the retention ends."""
    lines, count = dead_runs(tenant, wanted, services), 0
    while batch := list(islice(lines, _REMOVED_AT_ONCE)):
        gone = len(batch) if dry_run else len(services.dead_index.remove(batch))
        count += gone
        if gone < len(batch):
            raise Unavailable(f"{count} dead runs are purged, the next were not accepted; call again to go on")
    return count


def cursor_after(dead: DeadRunRow) -> str:
    """The cursor after a run."""
    return base64.urlsafe_b64encode(json.dumps([dead.run.tenant, dead.key]).encode()).decode()


def key_before(cursor: str | None, tenant: str) -> str | None:
    """The key in a cursor; None: from the start. Raises InvalidInput."""
    if cursor is None:
        return None
    try:
        of, key = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if of != tenant or not _KEY.fullmatch(key):
            raise ValueError(key)
    except (ValueError, TypeError, AttributeError, RecursionError) as problem:  # binascii.Error is a ValueError
        raise InvalidInput(
            "cursor", cursor, "is not of this listing", "pass the cursor of the page before"
        ) from problem
    return str(key)
