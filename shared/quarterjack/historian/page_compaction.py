"""Compact the pages of hours that are over: many small pages of an hour become few large ones, which the hour's index names.

    close hours ─► hours that closed since the last call ─► hours with late entries ─► record how far all days are compacted

No page is removed or changed, so a compaction that dies at any step, or runs twice, is repeated without harm. Hours are closed before they
are read: an entry that is written into a closed hour is noted as late, and the next call compacts the hour again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.errors import QuarterjackError
from quarterjack.history.read import Reading
from quarterjack.ports.services import Clock, Services
from quarterjack.state.history.codec import encode
from quarterjack.state.history.entries import parts
from quarterjack.state.history.search import Search, summary_of
from quarterjack.state.history.stats import Stats, encode_parts, outcomes_of, total
from quarterjack.state.history.stats import decode as decode_stats
from quarterjack.stores.history.pages import Day, HistoryPage, Hour, ReadMeter
from quarterjack.stores.records import Record

log = logging.getLogger(__name__)

MARGIN = 10 * MINUTE  # after an hour; in it historians write most entries of the hour, which else was compacted twice
MOST = 1_000_000  # entries of an hour that are compacted; the pages of a busier tenant are large as they are
_READ = 100  # open runs that are read at once
_OWNER, _KEY = "~quarterjack/~history", "~folded"  # the record of how far all days are compacted


@dataclass
class PageCompactionReport:
    """Counts of one call."""

    hours: int = 0  # compacted
    kept: int = 0  # left as they are: too large
    entries: int = 0  # in compacted pages
    failed: int = 0  # days of a tenant that could not be compacted; the next call repeats them
    stopped: int = 0  # 1: its time was over


def compact_pages(services: Services, *, clock: Clock, budget: int) -> PageCompactionReport:
    """Compact the hours that are over, within ``budget`` ms. The next call goes on with the rest."""
    return _Compaction(services, clock, clock() + budget).run()


class _Compaction:
    def __init__(self, services: Services, clock: Clock, end: int) -> None:
        self._services, self._clock, self._end = services, clock, end
        self._history = services.history
        self._now = clock()
        self._closed = (self._now - MARGIN) // HOUR - 1  # hours since 1970: earlier ones are compacted
        self.report = PageCompactionReport()

    def run(self) -> PageCompactionReport:
        record = self._services.records.read(_OWNER, _KEY)
        begin = int(record.body["hour"]) if record else (self._now - self._services.retention) // HOUR
        self._history.close(self._closed)
        done = True
        for book in Book:
            done = self._days(book, begin) and self._late(book) and done
        if done and not self.report.failed and self._closed > begin:
            version = record.version + 1 if record else 1
            self._services.records.write(Record(owner=_OWNER, key=_KEY, version=version, body={"hour": self._closed}))
        return self.report

    def _is_over(self) -> bool:
        self.report.stopped = int(self._clock() >= self._end)
        return bool(self.report.stopped)

    def _days(self, book: Book, begin: int) -> bool:
        """Compact the hours that closed since the last complete call; whether all were reached."""
        for day in range(max(begin - 1, 0) // 24, self._closed // 24 + 1):
            for tenant in self._history.tenants(book, day):
                if self._is_over():
                    return False
                self._day(tenant, book, day)
        return True

    def _late(self, book: Book) -> bool:
        """Compact hours with late entries again; whether all were reached."""
        for late in list(self._history.late(book)):
            if self._is_over():
                return False
            if late.written <= self._closed and self._day(late.tenant, book, late.day):
                self._history.forget_late(late)
        return True

    def _day(self, tenant: str, book: Book, number: int) -> bool:
        try:
            for day in self._history.days(tenant, book, first=number, last=number, meter=ReadMeter()):
                self._hours(tenant, book, day)
        except QuarterjackError as problem:  # the other days are compacted all the same
            self.report.failed += 1
            log.error(
                "history.not_folded", extra={"tenant": tenant, "book": str(book), "day": number, "error": str(problem)}
            )
            return False
        return True

    def _hours(self, tenant: str, book: Book, day: Day) -> None:
        indexes = {hour.number: hour for hour in self._history.hours(tenant, book, day.number, ReadMeter())}
        closed = min(self._closed, day.number * 24 + 24)
        for number in range(24):
            hour, index = day.number * 24 + number, indexes.get(number)
            is_new = day.folded <= hour < closed
            late = day.late.get(number, 0)
            if is_new or (index.folded if index else 0) < late <= self._closed:
                self._hour(tenant, book, day, number)
        if day.folded < closed:
            if book is Book.ENDED and closed == day.number * 24 + 24:
                self._put_day(tenant, day.number)
            self._history.note_folded(tenant, book, day.number, closed)

    def _hour(self, tenant: str, book: Book, day: Day, number: int) -> None:
        begin = (day.number * 24 + number) * HOUR
        reading = Reading(
            self._history,
            tenant,
            book,
            Search(),
            after=begin - 1,
            upto=begin + HOUR - 1,
            meter=ReadMeter(),
            whole=True,
        )
        counted, pages, is_kept = _Counted(reading.entries()), list[HistoryPage](), False
        try:
            pages = list(_pages(counted if book is Book.ENDED else self._still_open(counted)))
        except _TooManyError:
            is_kept = True
        if not counted.count:
            return
        if book is Book.ENDED and not is_kept:
            self._put_stats(tenant, day, number, counted.stats)
        index = Hour(number=number, folded=self._closed, kept=is_kept, pages=pages)
        expires = max(begin + HOUR, self._now if book is Book.OPEN else 0) + self._services.retention
        self._history.fold(tenant, book, day.number, index, expires)
        self.report.hours += 1
        self.report.kept += is_kept
        self.report.entries += sum(page.summary.count for page in pages if page.summary)

    def _put_stats(self, tenant: str, day: Day, number: int, stats: Stats) -> None:
        """Before the index: a compacted hour has its statistics, and a day that is over has them for the whole day."""
        self._history.put_stats(tenant, day.number, number, encode_parts(stats), self._closed)
        self._history.put_totals(tenant, day.number, number, outcomes_of(stats), self._closed)
        if day.folded >= day.number * 24 + 24:
            self._put_day(tenant, day.number)

    def _put_day(self, tenant: str, day: int) -> None:
        hours = self._history.stats(tenant, first=day, last=day, hourly=True, meter=ReadMeter()).values()
        if hours:
            whole = total(decode_stats(body) for bodies in hours for body in bodies)
            self._history.put_stats(tenant, day, None, encode_parts(whole), self._closed)

    def _still_open(self, entries: Iterable[HistoryEntry]) -> Iterator[HistoryEntry]:
        """The open runs that the ledger knows as such. A run that it did not answer for stays."""
        left = (entry for entry in entries if not entry.withdrawn)
        while batch := list(islice(left, _READ)):
            answer = self._services.ledger.look([entry.run for entry in batch])
            for entry in batch:
                run = answer.found.get(entry.run)
                if entry.run in answer.unanswered or (run is not None and not run.is_terminal):
                    yield entry


class _TooManyError(Exception):
    """An hour has more entries than are compacted."""


class _Counted:
    """Entries as they come, counted, with their statistics."""

    def __init__(self, entries: Iterator[HistoryEntry]) -> None:
        self._entries, self.count, self.stats = entries, 0, Stats()

    def __iter__(self) -> Iterator[HistoryEntry]:
        for entry in self._entries:
            self.count += 1
            if self.count > MOST:
                raise _TooManyError
            if not entry.withdrawn:
                self.stats.add(entry)
            yield entry


def _pages(entries: Iterable[HistoryEntry]) -> Iterator[HistoryPage]:
    for number, pages in enumerate(parts(entries)):
        for page in pages:
            summary = summary_of(page)
            yield HistoryPage(last=summary.last, part=number, body=encode(page), summary=summary)
