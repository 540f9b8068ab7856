"""Read a book, the latest entry first, until its beginning or until a budget is spent; a later call goes on from there.

A day is read as segments: compacted hours by their index, and stretches of hours whose appended pages are read as they are.
A page is of one hour, so segments do not touch each other. Within a segment pages come by their latest place, and an entry is given out
once no page is left that reaches to its place.

``PageBudget`` bounds the cost of one page of an answer. Time alone never ends a page before it has read anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, neg

from quarterjack.domain.history.entry import Book, HistoryEntry
from quarterjack.domain.names import RunRef, parse_run_id
from quarterjack.domain.times import DAY, HOUR, SECOND
from quarterjack.ports.services import Clock
from quarterjack.state.history.codec import PageColumns
from quarterjack.state.history.entries import Merge
from quarterjack.state.history.search import Search
from quarterjack.stores.history.books import History
from quarterjack.stores.history.pages import SPAN, Day, HistoryPage, Hour, ReadMeter
from quarterjack.values import replace

# After so much a page of an answer ends. What is under way then ends within 250 units and 0.3 s where reads are fast: the pages of a
# folded part (400 KB at the most) or the first pages of each partition, and fifty rows of the ledger.
MOST_UNITS = 100  # read units
MOST_MS = 150  # by the caller's clock: some fifteen reads of DynamoDB, or one of a slow one
_GRACE = 50  # ms to give out what was read by then


class PageBudget:
    """The budget of one call; ``meter`` counts its reads.

    Units end it at once. Time ends it with the next request that is sent after it ran out, or after a moment: what was read until then
    is given out first, so that each page makes progress however slow the reads are.
    """

    def __init__(self, meter: ReadMeter, clock: Clock) -> None:
        self._meter, self._clock, self._end = meter, clock, clock() + MOST_MS
        self._found: tuple[int, int] | None = None  # when the time was found to be over: UTC ms, and requests so far

    def is_spent(self) -> bool:
        """Whether the reads have cost enough."""
        return self._meter.units >= MOST_UNITS

    def is_over(self) -> bool:
        """Whether the page ends here."""
        if self.is_spent():
            return True
        now = self._clock()
        if self._found is None:
            self._found = (now, self._meter.requests) if now >= self._end else None
            return False
        at, requests = self._found
        return self._meter.requests > requests or now >= at + _GRACE


WINDOW = 1_000  # entries of a folded part that are made at a time
_LATECOMERS = SECOND  # ms before a position from which pages that were added meanwhile are read, too


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a reading goes on: with the entries behind ``(at, run)``, in descending order of ``at``, ascending order of ``run``."""

    at: int  # UTC ms
    run: RunRef | None = None  # None: before all entries of that time
    begin: int = 0  # UTC ms: pages that reach to here may hold such entries

    def __str__(self) -> str:
        return f"{self.at}~{self.begin}~{self.run or ''}"

    def is_before(self, entry: HistoryEntry) -> bool:
        return entry.at < self.at or (entry.at == self.at and (self.run is None or entry.run > self.run))


def parse_position(text: str) -> Position:
    """The reverse of ``str``. Raises ValueError."""
    at, begin, run = text.split("~", 2)
    return Position(at=int(at), begin=int(begin), run=parse_run_id(run) if run else None)


@dataclass(frozen=True)
class _Segment:
    """Hours of one day that are read together; places in ``[first, last]``."""

    day: Day
    first: int
    last: int
    index: Hour | None = None  # of a folded hour
    appended: bool = True  # whether its appended pages are read


@dataclass(frozen=True)
class _Slice:
    """A page, or of a page that was read already the entries at places in ``[first, last]``."""

    page: HistoryPage
    last: int
    first: int = 0
    columns: PageColumns | None = None


class Reading:
    """One call's reading of a book: ``entries``, then ``position`` to go on from (None: at the end) and ``searched``.

    ``after`` and ``upto`` (UTC ms) are bounds of the places: ``(after, upto]``. ``is_over`` is asked before each page but the first ones
    whether to stop. ``whole``: withdrawals are given out, too. ``appended``: of folded hours the appended pages are read, too.
    """

    def __init__(
        self,
        history: History,
        tenant: str,
        book: Book,
        search: Search,
        *,
        after: int,
        upto: int,
        meter: ReadMeter,
        is_over: Callable[[], bool] = lambda: False,
        whole: bool = False,
        appended: bool = False,
    ) -> None:
        self._whole, self._appended = whole, appended
        self._history, self._tenant, self._book, self._search = history, tenant, book, search
        self._after, self._upto, self._meter, self._is_over = after, upto, meter, is_over
        self._merge = Merge()
        self._last: HistoryEntry | None = None  # that was given out
        self._stopped: Position | None = None
        self.searched = upto  # UTC ms: all entries of a later place were given out

    def entries(self, position: Position | None = None) -> Iterator[HistoryEntry]:
        """The entries that the search wants. After each of them, and at the end, ``position`` says where to go on."""
        start = position or Position(at=self._upto, begin=min(self._upto + SPAN, self._upto // HOUR * HOUR + HOUR - 1))
        for number, segment in enumerate(self._segments(start)):
            if number and self._is_over():
                self._stop(Position(at=segment.last, begin=segment.last))
                return
            yield from self._of_segment(segment, start)
            if self._stopped is not None:
                return
            self.searched = segment.first - 1
        self.searched = self._after

    @property
    def position(self) -> Position | None:
        """Where to go on; None: from the beginning, or nowhere, if ``entries`` has ended."""
        if self._stopped is not None or self._last is None:
            return self._stopped
        return Position(at=self._last.at, run=self._last.run, begin=self._merge.reaches(self._last.at))

    def _segments(self, start: Position) -> Iterator[_Segment]:
        first, last = self._after + 1, min(start.at, self._upto)
        if first > last:
            return
        days = self._history.days(self._tenant, self._book, first=first // DAY, last=last // DAY, meter=self._meter)
        for day in days:
            hours = self._hours(day, first, last) if day.folded else iter(())
            for segment in _segments_of(day, hours, every=self._appended):
                if segment.first <= last and segment.last >= first:
                    yield replace(segment, first=max(segment.first, first))

    def _hours(self, day: Day, first: int, last: int) -> Iterator[Hour]:
        """The folded hours of a day that have places in ``[first, last]``, the latest first."""
        begin = day.number * 24
        span = {"first": max(first // HOUR - begin, 0), "last": min(last // HOUR - begin, 23)}
        return self._history.hours(self._tenant, self._book, day.number, self._meter, **span)

    def _of_segment(self, segment: _Segment, start: Position) -> Iterator[HistoryEntry]:
        streams = _Streams(self._streams(segment, start))
        merge, moved = Merge(), False
        self._merge = merge
        while (part := streams.next()) is not None:
            if moved and self._is_over():
                self._stop(Position(at=part.last, begin=merge.reaches(part.last)))
                return
            merge.add(self._wanted(segment, part, start), part.last)
            watermark = streams.watermark()
            for entry in merge.before(watermark):
                if self._whole or (not entry.withdrawn and self._search.wants(vars(entry))):
                    self._last = entry
                    yield entry
            moved = watermark is not None and watermark < start.at
        self._last = None

    def _stop(self, position: Position) -> None:
        self._stopped, self.searched = position, position.at

    def _wanted(self, segment: _Segment, part: _Slice, start: Position) -> list[HistoryEntry]:
        page, columns = part.page, part.columns
        if columns is None:
            if page.summary is not None and not page.summary.may_hold(self._search):
                return []
            columns = PageColumns(page.body if page.body is not None else self._history.bodies([page], self._meter)[0])
        found = columns.entries(
            self._tenant,
            first=max(segment.first, part.first),
            last=min(segment.last, part.last, start.at),
            wanted=self._search.wants_or_needs,
        )
        return [entry for entry in found if start.is_before(entry)]

    def _streams(self, segment: _Segment, start: Position) -> Iterator[Iterator[_Slice]]:
        if segment.index is not None:
            yield self._folded(segment.index, start)
        if segment.appended:
            reach = min(segment.last, max(start.begin, start.at + _LATECOMERS))
            day, bounds = segment.day, {"first": segment.first, "last": reach}
            found = self._history.pages(self._tenant, self._book, day.number, day.spreads, **bounds, meter=self._meter)
            for pages in found:
                yield (_Slice(page, page.last) for page in pages)

    def _folded(self, hour: Hour, start: Position) -> Iterator[_Slice]:
        """What may be wanted of the pages of a folded hour, part by part, of each part the latest entries first."""
        pages = sorted(hour.pages, key=attrgetter("part"))
        for _, part in groupby(pages, key=attrgetter("part")):
            wanted = [
                page
                for page in part
                if page.summary is not None and page.summary.first <= start.at and page.summary.may_hold(self._search)
            ]
            bodies = self._history.bodies(wanted, self._meter) if wanted else []
            columns = [PageColumns(body) for body in bodies]
            yield from _windows(list(zip(wanted, columns, strict=True)), start.at)


def _windows(pages: Sequence[tuple[HistoryPage, PageColumns]], upto: int) -> Iterator[_Slice]:
    """Slices of the pages of a part, the latest first. A page reaches over the whole part; its slices let a reading stop within it."""
    places = sorted((at for _, columns in pages for at in columns.places if at <= upto), reverse=True)
    begin = 0
    while begin < len(places):
        first, last = places[min(begin + WINDOW, len(places)) - 1], places[begin]
        slices = [
            _Slice(page, at, first, columns)
            for page, columns in pages
            if (at := columns.last_in(first, last)) is not None
        ]
        yield from sorted(slices, key=attrgetter("last"), reverse=True)
        begin = bisect_right(places, -first, key=neg)


class _Streams:
    """Pages of several sources, each by descending latest place, as one."""

    def __init__(self, sources: Iterable[Iterator[_Slice]]) -> None:
        self._heads = [(head, source) for source in sources if (head := next(source, None)) is not None]

    def next(self) -> _Slice | None:
        if not self._heads:
            return None
        place = max(range(len(self._heads)), key=lambda number: self._heads[number][0].last)
        part, source = self._heads.pop(place)
        following = next(source, None)
        if following is not None:
            self._heads.append((following, source))
        return part

    def watermark(self) -> int | None:
        """The latest place that a further page may have; None: there is none."""
        return max((head.last for head, _ in self._heads), default=None)


def _segments_of(day: Day, hours: Iterator[Hour], *, every: bool) -> Iterator[_Segment]:
    """The segments of a day, the latest first. Neighbouring hours that are read as they were appended are one segment."""
    joined: _Segment | None = None
    upcoming = next(hours, None)
    for number in range(23, -1, -1):
        begin, index = (day.number * 24 + number) * HOUR, None
        if upcoming is not None and upcoming.number == number:
            index, upcoming = upcoming, None
        is_settled = begin // HOUR + 1 <= day.folded
        folded = index.folded if index else day.folded if is_settled else 0
        appended = every or not is_settled or day.late.get(number, 0) > folded or (index is not None and index.kept)
        pages = index if index is not None and index.pages else None
        if pages is None and appended:
            joined = replace(joined, first=begin) if joined else _Segment(day, begin, begin + HOUR - 1)
        elif joined is not None:
            yield joined
            joined = None
        if pages is not None:
            yield _Segment(day, begin, begin + HOUR - 1, pages, appended)
        if index is not None:  # the next one is read once this one is done with
            upcoming = next(hours, None)
    if joined is not None:
        yield joined
