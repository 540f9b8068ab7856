"""Find runs of a tenant, or of all tenants: those that have not ended, then those that have, each the newest first.

Fires that wait or run are in no book. Those of a schedule are read from the ledger, the last day's first and the older ones at the end;
those that run, of all schedules, from the records of the workers if a search asks for them.

A call reads until it has as many runs as it was asked for, or until it may not go on. It says how far back it has searched, and where
the next call goes on. Runs that have not ended are read from the ledger again, since a book may be some seconds behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice

from quarterjack.domain.history.entry import Book, HistoryEntry, RunKind, kind_of
from quarterjack.domain.names import check_tenant, schedule_owner
from quarterjack.domain.payload import text_of_tags
from quarterjack.domain.run import TERMINAL, Failure, RunRow, RunState
from quarterjack.domain.times import DAY
from quarterjack.history.read import PageBudget, Position, Reading, parse_position
from quarterjack.ports.services import Services
from quarterjack.state.history.entries import is_open
from quarterjack.state.history.search import Search
from quarterjack.stores.history.pages import ReadMeter
from quarterjack.values import replace

WAITED = DAY  # ms: the fires of a schedule that have not ended are read from the ledger as far back first; older ones after all others
_MOST = 50  # rows of the ledger that are read at a time: of 4 KB and less each, they cost 50 units at the most
_IN_NO_BOOK = frozenset({RunState.QUEUED, RunState.RUNNING})  # of fires


@dataclass(frozen=True, kw_only=True)
class FindSpec:
    """What is searched; ``(after, upto]`` in UTC ms: the end of ended runs, the time that others are due (see ``open_place``)."""

    search: Search
    after: int
    upto: int
    limit: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """One page of an answer."""

    runs: Sequence[tuple[RunRow, RunKind]]  # the kind is known to the history alone
    cursor: str | None  # None: all was searched
    searched: (
        int | None
    )  # UTC ms: of the last tenant, all later ended runs were read; None: the search is not there yet


# Runs that workers run now: of a tenant, at most so many, from a cursor on; and the next cursor.
Running = Callable[[str, int, str | None], tuple[Sequence[RunRow], str | None]]


class Finder:
    """One call. ``budget`` says when its page ends; ``meter`` counts what it reads; ``running`` asks the workers."""

    def __init__(
        self,
        services: Services,
        spec: FindSpec,
        *,
        meter: ReadMeter,
        budget: PageBudget,
        running: Running,
        now: int,
    ) -> None:
        self._services, self._spec, self._meter, self._now = services, spec, meter, now
        self._budget, self._running_now = budget, running
        self._runs = list[tuple[RunRow, RunKind]]()  # of this call, as are the next two
        self._cursor: str | None = None
        self._searched: int | None = None
        self._cut = now - WAITED  # UTC ms: of a search that goes on, as it was at its begin

    def of_tenant(self, tenant: str, cursor: str | None) -> Found:
        """The runs of one tenant. Raises ValueError for a cursor that is none."""
        self._tenant(tenant, cursor)
        return self._found()

    def of_all(self, cursor: str | None) -> Found:
        """The runs of all tenants with pages of these days, one tenant after the other in order of their names."""
        first, _, rest = (cursor or "").partition("|")
        for tenant in self._tenants(first):
            self._tenant(tenant, rest or None if tenant == first else None)
            if self._cursor is not None:
                self._cursor = f"{tenant}|{self._cursor}"
                break
            if self._budget.is_over() or self._left() <= 0:
                self._cursor = f"{tenant}|end"
                break
        return self._found()

    def _found(self) -> Found:
        return Found(runs=self._runs, cursor=self._cursor, searched=self._searched)

    def _tenants(self, begin: str) -> Iterator[str]:
        spec, history = self._spec, self._services.history
        days = range(max(spec.after + 1, 0) // DAY, min(spec.upto, self._now + DAY) // DAY + 1)
        lists = [history.tenants(book, day, begin=begin) for book in self._books() for day in days]
        return (tenant for tenant, _ in groupby(merge(*lists)))

    def _books(self) -> Sequence[Book]:
        states = self._spec.search.states
        return [
            book
            for book, is_there in (
                (Book.OPEN, states is None or not states <= TERMINAL),
                (Book.ENDED, states is None or bool(states & TERMINAL)),
            )
            if is_there
        ]

    # One tenant.

    def _tenant(self, tenant: str, cursor: str | None) -> None:
        """Search the parts from the cursor on, until the call ends in one of them."""
        if cursor == "end":
            return
        begin, cut, rest = cursor.split(":", 2) if cursor else ("fires", self._now - WAITED, "")
        self._cut = int(cut)
        parts = {  # in this order
            "fires": self._fires,
            "running": self._running,
            "open": self._open,
            "ended": self._ended,
            "older": self._older,
        }
        names = list(parts)
        for name in filter(self._can_hold, names[names.index(begin) :]):
            place: str | None = ""
            if name == begin or self._goes_on():
                place = parts[name](check_tenant(tenant), rest if name == begin else "")
            if place is not None:
                self._cursor = f"{name}:{self._cut}:{place}"
                return

    def _can_hold(self, part: str) -> bool:
        """Whether a part can have runs that are searched: no cursor leads to one that cannot."""
        search, books = self._spec.search, self._books()
        if part in ("fires", "older") and (search.schedule is None or Book.OPEN not in books):
            return False
        if part == "older":  # fires that have neither begun nor ended, or run
            is_sought = search.states is None or bool(search.states & _IN_NO_BOOK)
            return is_sought and (search.kinds is None or RunKind.FIRE in search.kinds)
        if part == "running":
            return self._asks_workers()
        return part == "fires" or (Book.OPEN if part == "open" else Book.ENDED) in books

    def _goes_on(self) -> bool:
        """Whether this call begins the next part. While it has found nothing it does, however long the parts before took."""
        if not self._runs:
            return not self._budget.is_spent()
        return not self._budget.is_over() and self._left() > 0

    def _left(self) -> int:
        return self._spec.limit - len(self._runs)

    def _fires(self, tenant: str, cursor: str) -> str | None:
        """The runs of one schedule that have not ended and were due in the last day or are later. Where to go on, None at the end."""
        return self._from_ledger(tenant, cursor, max(self._spec.after, self._cut), self._spec.upto)

    def _older(self, tenant: str, cursor: str) -> str | None:
        """The fires of one schedule that were due earlier and have neither begun nor ended, or run."""
        return self._from_ledger(tenant, cursor, self._spec.after, min(self._spec.upto, self._cut), booked=False)

    def _from_ledger(self, tenant: str, cursor: str, after: int, upto: int, *, booked: bool = True) -> str | None:
        """Runs of the schedule that have not ended and were due in ``(after, upto]``; ``booked``: also those that are in the book."""
        name = self._spec.search.schedule
        if name is None or after >= upto:
            return None
        owner, place = schedule_owner(tenant, name), cursor or None
        head = self._services.schedules.head(tenant, name) if self._spec.search.tag else None
        while True:
            page = self._services.ledger.page(
                owner, after=after, upto=upto, limit=_MOST, cursor=place, newest_first=True
            )
            self._meter.add(len(page.items) * 800)  # bytes of a row
            for run in page.items:
                if self._left() <= 0:
                    return place or ""
                if booked or not is_open(run):
                    self._take(run, head.tags if head else {})
                place = run.ref.key
            place = page.cursor
            if place is None or self._budget.is_over():
                return place

    def _running(self, tenant: str, cursor: str) -> str | None:
        """The fires that workers run, of any schedule. A fire of one schedule is found in the ledger."""
        place = cursor or None
        while self._left() > 0:
            runs, place = self._running_now(tenant, min(self._left(), _MOST), place)
            self._meter.spend(len(runs))
            fires = [run for run in runs if not is_open(run) and self._spec.after < run.due <= self._spec.upto]
            tags = self._tags_of(fires)
            for run in fires:
                self._take(run, tags.get(run.ref.owner, {}))
            if place is None or self._budget.is_over():
                return place
        return place or ""

    def _asks_workers(self) -> bool:
        states = self._spec.search.states
        return self._spec.search.schedule is None and states is not None and RunState.RUNNING in states

    def _tags_of(self, runs: Sequence[RunRow]) -> Mapping[str, Mapping[str, str]]:
        """The tags of the runs' schedules by owner, if the search needs them."""
        names = dict.fromkeys((run.ref.tenant, run.ref.schedule or "") for run in runs) if self._spec.search.tag else ()
        heads = self._services.schedules.heads(list(names)) if names else ()
        return {schedule_owner(head.tenant, head.name): head.tags for head in heads}

    def _open(self, tenant: str, cursor: str) -> str | None:
        """The open runs of a tenant: their entries say which, the ledger how they are."""
        search = self._spec.search
        reading = self._reading(tenant, Book.OPEN, search.in_any_state(), self._spec.upto)
        entries = reading.entries(_position(cursor))
        while (most := min(self._left(), _MOST)) > 0:
            batch = list(islice(entries, most))
            found = self._services.ledger.look([entry.run for entry in batch]).found if batch else {}
            self._meter.spend(len(batch))
            for entry in batch:
                if entry.run in found and not self._is_elsewhere(found[entry.run]):
                    self._take(found[entry.run], entry.tags)
            if len(batch) < most or self._budget.is_over():
                break
        return None if reading.position is None else str(reading.position)

    def _is_elsewhere(self, run: RunRow) -> bool:
        """Whether another part of the search lists this run, which the book of open runs has, too."""
        if self._spec.search.schedule is None:
            return self._asks_workers() and run.state is RunState.RUNNING and not is_open(run)
        return not is_open(run) or max(self._spec.after, self._cut) < run.due <= self._spec.upto

    def _take(self, run: RunRow, tags: Mapping[str, str]) -> None:
        """Add a run that was read from the ledger, if it has not ended and is still what is searched."""
        if not run.is_terminal and self._spec.search.wants_run(run, tags):
            known = replace(run, tags=text_of_tags({**tags, **run.own_tags})) if tags else run
            self._runs.append((known, kind_of(run)))

    def _ended(self, tenant: str, cursor: str) -> str | None:
        spec = self._spec
        reading = self._reading(tenant, Book.ENDED, spec.search, spec.upto)
        if self._left() > 0:
            for entry in reading.entries(_position(cursor)):
                self._runs.append((row_of(entry), entry.kind))
                if self._left() <= 0:
                    break
        self._searched = spec.after if reading.position is None else reading.position.at
        return None if reading.position is None else str(reading.position)

    def _reading(self, tenant: str, book: Book, search: Search, upto: int) -> Reading:
        return Reading(
            self._services.history,
            tenant,
            book,
            search,
            after=self._spec.after,
            upto=upto,
            meter=self._meter,
            is_over=self._budget.is_over,
        )


def _position(cursor: str) -> Position | None:
    return parse_position(cursor) if cursor else None


def row_of(entry: HistoryEntry) -> RunRow:
    """An ended run as the history knows it: without its result, its error's text, its worker."""
    kind = entry.error_type
    return RunRow(
        ref=entry.run,
        state=entry.state,
        revision=entry.revision,
        job=entry.job,
        due=entry.due,
        not_before=entry.not_before,
        created_at=entry.created_at,
        fence=entry.fence,
        attempt=entry.attempt,
        started_at=entry.started_at,
        ended_at=entry.at,
        reason=entry.reason,
        failure=None if kind is None else Failure(kind=kind, message=""),
        backfill=entry.backfill,
        replay_of=entry.replay_of,
        app_version=entry.app_version,
        skipped=entry.skipped,
        skipped_until=entry.skipped_until,
        tags=text_of_tags(entry.tags),
    )
