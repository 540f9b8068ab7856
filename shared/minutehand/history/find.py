"""Find runs of a tenant, or of all tenants: those that have not ended, then those that have, each the newest first.

A call reads until it has as many runs as it was asked for, or until it may not go on. It says how far back it has searched, and where
the next call goes on. Runs that have not ended are read from the ledger again, since a book may be some seconds behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, islice

from minutehand.domain.history.entry import Book, HistoryEntry, RunKind, kind_of
from minutehand.domain.names import check_tenant, schedule_owner
from minutehand.domain.run import TERMINAL, Failure, RunRow
from minutehand.domain.times import DAY
from minutehand.history.read import Position, Reading, parse_position
from minutehand.ports.history.pages import ReadMeter
from minutehand.ports.services import Services
from minutehand.state.history.search import Search

WAITED = DAY  # ms: a schedule's waiting fires are read from the ledger as far back; older ones have been tried before, or are stuck
_FIRES = 250  # rows of one query of these
_PARTS = ("fires", "open", "ended")  # of a search, in this order


@dataclass(frozen=True, kw_only=True)
class FindSpec:
    """What is searched; ``(after, upto]`` in UTC ms: the end of ended runs, the time that others are due."""

    search: Search
    after: int
    upto: int
    limit: int


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """A run as its row, and what only the history knows of it."""

    row: RunRow
    kind: RunKind


@dataclass(frozen=True, kw_only=True)
class Found:
    """One page of an answer."""

    runs: Sequence[FoundRun]
    cursor: str | None  # None: all was searched
    searched: (
        int | None
    )  # UTC ms: of the last tenant, all ended runs that ended later were looked at; None: the search is not there yet


@dataclass
class _Call:
    """What one call has done."""

    runs: list[FoundRun] = field(default_factory=list)
    cursor: str | None = None
    searched: int | None = None


class Finder:
    """One call. ``is_over`` says whether the call has taken its time; ``meter`` counts what it reads."""

    def __init__(
        self, services: Services, spec: FindSpec, *, meter: ReadMeter, is_over: Callable[[], bool], now: int
    ) -> None:
        self._services, self._spec, self._meter, self._now = services, spec, meter, now
        self._time_is_up, self._call = is_over, _Call()

    def of_tenant(self, tenant: str, cursor: str | None) -> Found:
        """The runs of one tenant. Raises ValueError for a cursor that is none."""
        self._tenant(tenant, cursor)
        return self._found()

    def of_all(self, cursor: str | None) -> Found:
        """The runs of all tenants with pages of these days, one tenant after the other in order of their names."""
        first, _, rest = (cursor or "").partition("|")
        for tenant in self._tenants(first):
            self._tenant(tenant, rest or None if tenant == first else None)
            if self._call.cursor is not None:
                self._call.cursor = f"{tenant}|{self._call.cursor}"
                break
            if self._is_over() or len(self._call.runs) >= self._spec.limit:
                self._call.cursor = f"{tenant}|end"
                break
        return self._found()

    def _found(self) -> Found:
        return Found(runs=self._call.runs, cursor=self._call.cursor, searched=self._call.searched)

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

    def _is_over(self) -> bool:
        return self._time_is_up()

    # One tenant.

    def _tenant(self, tenant: str, cursor: str | None) -> None:
        """Search the parts from the cursor on, until the call ends in one of them."""
        if cursor == "end":
            return
        begin, _, rest = (cursor or f"{_PARTS[0]}:").partition(":")
        parts = {"fires": self._fires, "open": self._open, "ended": self._ended}
        for name in _PARTS[_PARTS.index(begin) :]:
            if name != begin and (self._is_over() or len(self._call.runs) >= self._spec.limit):
                self._call.cursor = f"{name}:"
                return
            place = parts[name](check_tenant(tenant), rest if name == begin else "")
            if place is not None:
                self._call.cursor = f"{name}:{place}"
                return

    def _left(self) -> int:
        return self._spec.limit - len(self._call.runs)

    def _fires(self, tenant: str, cursor: str) -> str | None:
        """The runs of one schedule that have not ended, from the ledger. Where to go on, None at the end."""
        spec, name = self._spec, self._spec.search.schedule
        after = max(spec.after, self._now - WAITED)
        if name is None or Book.OPEN not in self._books() or after >= spec.upto:
            return None
        owner, place = schedule_owner(tenant, name), cursor or None
        head = self._services.schedules.head(tenant, name) if spec.search.tag else None
        while True:
            page = self._services.ledger.page(
                owner, after=after, upto=spec.upto, limit=_FIRES, cursor=place, newest_first=True
            )
            self._meter.add(len(page.items) * 800)  # bytes of a row
            for run in page.items:
                if self._left() <= 0:
                    return place or ""
                self._take(run, head.tags if head else {})
                place = run.ref.key
            place = page.cursor
            if place is None or self._is_over():
                return place

    def _open(self, tenant: str, cursor: str) -> str | None:
        """The open runs of a tenant: their entries say which, the ledger how they are."""
        search, spec = self._spec.search, self._spec
        if Book.OPEN not in self._books():
            return None
        upto = (
            spec.upto if search.schedule is None else min(spec.upto, self._now - WAITED)
        )  # later ones: see ``_fires``
        reading = self._reading(tenant, Book.OPEN, search.in_any_state(), upto)
        entries = reading.entries(_position(cursor))
        while (most := self._left()) > 0:
            batch = list(islice(entries, most))
            found = self._services.ledger.look([entry.run for entry in batch]).found if batch else {}
            self._meter.units += len(batch)
            for entry in batch:
                if entry.run in found:
                    self._take(found[entry.run], entry.tags)
            if len(batch) < most or self._is_over():
                break
        return None if reading.position is None else str(reading.position)

    def _take(self, run: RunRow, tags: Mapping[str, str]) -> None:
        """Add a run that was read from the ledger, if it has not ended and is still what is searched."""
        failure, kind = run.failure, kind_of(run)
        fields = {
            **vars(run),
            "run": run.ref,
            "kind": kind,
            "tags": tags,
            "error_type": failure.kind if failure else None,
        }
        if not run.is_terminal and self._spec.search.wants(fields):
            self._call.runs.append(FoundRun(row=run, kind=kind))

    def _ended(self, tenant: str, cursor: str) -> str | None:
        spec = self._spec
        if Book.ENDED not in self._books():
            return None
        reading = self._reading(tenant, Book.ENDED, spec.search, spec.upto)
        if self._left() > 0:
            for entry in reading.entries(_position(cursor)):
                self._call.runs.append(FoundRun(row=row_of(entry), kind=entry.kind))
                if self._left() <= 0:
                    break
        self._call.searched = spec.after if reading.position is None else reading.position.at
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
            is_over=self._is_over,
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
        skipped=entry.skipped,
        skipped_until=entry.skipped_until,
    )
