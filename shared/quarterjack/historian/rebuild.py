"""Rebuild the history from the ledger, for a time in which the stream was not followed. It may run beside a historian.

    correct the entries that contradict the ledger ─► add the missing entries ─► archive the found states ─► hide the filled gaps

The archive gets the present state of each run that the history lacked; its earlier transitions are lost.

An entry is ordered just after the one that was read at the run's place before the run's row was read. So a change that the stream brings
later always wins.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY
from quarterjack.errors import Misconfigured
from quarterjack.historian.archive import archive_found
from quarterjack.historian.pages import pages_of, tagged
from quarterjack.historian.progress import mark_filled
from quarterjack.history.read import Reading
from quarterjack.ports.services import Clock, Services
from quarterjack.state.history.entries import corrected, end_of, entry_of, is_open, open_place, tells, withdrawal_of
from quarterjack.state.history.search import Search
from quarterjack.stores.history.pages import ReadMeter

log = logging.getLogger(__name__)

SEGMENTS = 64  # parts of the ledger
_BATCH = 100  # runs that are read at once
_WRITTEN = 20_000  # entries that are written at once: the more, the fuller the pages


@dataclass(frozen=True, kw_only=True)
class RebuildSpec:
    """The runs to rebuild: ended ones by their ends, open ones by their due times, in ``(after, upto]`` (UTC ms)."""

    tenant: str | None  # None: all
    after: int
    upto: int
    on_progress: Callable[[int], object] = lambda done: None  # told how many runs were read
    stop: threading.Event | None = None


@dataclass
class RebuildReport:
    """Counts of one call."""

    runs: int = 0  # read from the ledger
    added: int = 0  # entries that the history lacked
    corrected: int = 0  # entries that said something else than the ledger
    stopped: bool = False  # it was told to stop: call again


def rebuild(spec: RebuildSpec, services: Services, *, clock: Clock) -> RebuildReport:
    """Correct the entries that are there, then add those that are missing. Raises Unavailable: call again, it goes on."""
    return _Rebuilding(spec, services, clock).run()


class _Rebuilding:
    def __init__(self, spec: RebuildSpec, services: Services, clock: Clock) -> None:
        self._spec, self._services, self._clock = spec, services, clock
        self._there: set[bytes] = set()  # places that have an entry
        self._made: dict[Book, list[HistoryEntry]] = {book: [] for book in Book}
        self._found: list[RunRow] = []  # runs that the stream did not bring: the archive lacks them, too
        self.report = RebuildReport()

    def run(self) -> RebuildReport:
        began = self._clock()
        for tenant in self._tenants():
            for book in Book:
                self._correct(tenant, book)
        for segment in range(SEGMENTS):
            if self._is_stopped():
                break
            self._add(segment)
        self._write(at_once=True)
        if self._spec.tenant is None and not self.report.stopped:
            try:
                # What is found missing later may be of changes that came after the ledger was read.
                mark_filled(self._services, after=self._spec.after, upto=min(self._spec.upto, began))
            except Misconfigured as problem:  # the caller may write the history, and not the table of runs
                log.warning("historian.gap_not_marked", extra={"error": str(problem)})
        return self.report

    def _is_stopped(self) -> bool:
        self.report.stopped = self._spec.stop is not None and self._spec.stop.is_set()
        return self.report.stopped

    def _tenants(self) -> Iterable[str]:
        spec = self._spec
        if spec.tenant is not None:
            return [spec.tenant]
        days = range(max(spec.after, 0) // DAY, min(spec.upto, self._clock() + DAY) // DAY + 1)
        return sorted({name for day in days for book in Book for name in self._services.history.tenants(book, day)})

    # What is there.

    def _correct(self, tenant: str, book: Book) -> None:
        spec = self._spec
        reading = Reading(
            self._services.history,
            tenant,
            book,
            Search(),
            after=spec.after,
            upto=spec.upto,
            meter=ReadMeter(),
            whole=True,
            appended=book is Book.OPEN,  # compacted pages lack its withdrawals, after which a correction must come
        )
        entries = reading.entries()
        while (batch := list(islice(entries, _BATCH))) and not self._is_stopped():
            self._there |= {_place(book, entry.run, entry.at) for entry in batch}
            answer = self._services.ledger.look([entry.run for entry in batch])  # after the entries were read
            for entry in batch:
                run = answer.found.get(entry.run)
                if run is not None and entry.run not in answer.unanswered:
                    self._compare(book, entry, run)
            self._write()

    def _compare(self, book: Book, entry: HistoryEntry, run: RunRow) -> None:
        order, is_here = corrected(entry.order), _place_of(book, run) == entry.at
        if not is_here and not entry.withdrawn:
            self._made[book].append(withdrawal_of(run, entry.at, order))
        elif is_here and (entry.withdrawn or (book is Book.ENDED and not tells(entry, run))):
            self._made[book].append(entry_of(run, entry.at, order, again=True))
        else:
            return
        self.report.corrected += 1

    # What is missing.

    def _add(self, segment: int) -> None:
        runs = self._missing(self._services.upkeep.runs(segment=segment, segments=SEGMENTS, tenant=self._spec.tenant))
        while batch := list(islice(runs, _BATCH)):
            answer = self._services.ledger.look(
                [ref for _, ref in batch]
            )  # the part was read with eventual consistency
            for book, ref in batch:
                run = answer.found.get(ref)
                at = None if run is None else self._at(book, run)
                if run is not None and at is not None and _place(book, ref, at) not in self._there:
                    self._made[book].append(entry_of(run, at, corrected(0)))
                    self._found.append(run)
                    self.report.added += 1
            self._write()

    def _missing(self, runs: Iterator[RunRow]) -> Iterator[tuple[Book, RunRef]]:
        for run in runs:
            self.report.runs += 1
            if self.report.runs % 1_000 == 0:
                self._spec.on_progress(self.report.runs)
                if self._is_stopped():
                    return
            for book in Book:
                at = self._at(book, run)
                if at is not None and _place(book, run.ref, at) not in self._there:
                    yield book, run.ref

    def _at(self, book: Book, run: RunRow) -> int | None:
        """The place that a run has to have in a book, if it is of the time that is made again."""
        at = _place_of(book, run)
        return at if at is not None and self._spec.after < at <= self._spec.upto else None

    def _write(self, *, at_once: bool = False) -> None:
        now, services = self._clock(), self._services
        for book, made in self._made.items():
            if made and (at_once or len(made) >= _WRITTEN):
                services.history.append(list(pages_of(book, tagged(made, services, now), now, services.retention)))
                made.clear()
        if len(self._found) >= (1 if at_once else _WRITTEN):
            archive_found(self._found, services)
            self._found.clear()


def _place_of(book: Book, run: RunRow) -> int | None:
    if book is Book.ENDED:
        return end_of(run)
    return open_place(run) if is_open(run) else None


def _place(book: Book, run: RunRef, at: int) -> bytes:
    return blake2b(f"{book}#{run}#{at}".encode(), digest_size=8).digest()
