"""The SDK's listing of the backfills of all schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from quarterjack.arguments import checked_limit
from quarterjack.domain.policies import word
from quarterjack.domain.tenants.access import Verb
from quarterjack.owner.backfill import index
from quarterjack.owner.backfill.advance import read_backfill
from quarterjack.owner.backfill.index import BackfillLine
from quarterjack.sdk.backfills import backfill_view
from quarterjack.sdk.base import SchedulerBase
from quarterjack.sdk.cursors import Listing
from quarterjack.sdk.views import Page
from quarterjack.state.backfill import BackfillState, BackfillStateWord, StoredBackfill

_AT_ONCE = 8  # reads
_MOST_READ = 100  # backfills that one call looks at


class BackfillListMethods(SchedulerBase):
    def backfills(self, *, state: BackfillStateWord | None = None, limit: int = 50, cursor: str | None = None) -> Page:
        """The backfills of all schedules, of deleted ones too, the newest first; with ``state`` only those that are in it.

        One call looks at no more than 100, so a page may be short, or empty, and not the last. A backfill that was begun, and last
        paused, resumed or cancelled, more than two retentions ago is listed by ``list_backfills`` alone.
        Raises InvalidInput, Unavailable.
        """
        self._permit(Verb.READ_RUNS)
        wanted = None if state is None else word(BackfillState, "state", state)
        listing, most = Listing("backfills", self.tenant, wanted), checked_limit(limit)
        found = index.lines(self.tenant, self.session.services, after=listing.position(cursor))
        looked = list(islice(found, (_MOST_READ if wanted else min(most, _MOST_READ)) + 1))
        items, last = [], None
        for line, stored in self._backfills_at(looked[: _MOST_READ if wanted else most]):
            if stored is not None and wanted in (None, stored.state):
                items.append(backfill_view(stored))
            last = line.key
            if len(items) == most:
                break
        is_end = not looked or last == looked[-1].key
        return Page(items=items, cursor=None if is_end else listing.next(last))

    def _backfills_at(self, lines: Sequence[BackfillLine]) -> Iterator[tuple[BackfillLine, StoredBackfill | None]]:
        """Lines with the backfills that they lead to, which are read side by side."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from zip(
                lines,
                pool.map(lambda line: read_backfill(line.owner, line.id, self.session.services), lines),
                strict=True,
            )
