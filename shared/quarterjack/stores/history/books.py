"""The history's books as rows.

A partition is a tenant's day of a book, or one of several where many pages are written at a time. In it ``p#`` are appended pages by
their latest place, ``b#`` the bodies of large ones, ``c#`` the indexes of folded hours. Beside it ``<tenant>#days`` says which days there
are, and ``~tenants#<book>#<day>`` which tenants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quarterjack.domain.history.entry import Book
from quarterjack.domain.times import DAY, HOUR, SECOND, stamp
from quarterjack.errors import Unavailable
from quarterjack.state.transition import Absent, Compare, any_of
from quarterjack.stores.history.pages import (
    SPREADS,
    Day,
    HistoryPage,
    Hour,
    LateDay,
    PagePut,
    ReadMeter,
    bytes_of,
    day_key,
    day_of,
    hour_of,
    hour_row,
    key_of,
    late_key,
    late_of,
    page_beside,
    page_of,
    page_row,
    partition_of,
    size_of,
    stats_key,
    stats_of,
    tenants_of,
    text_of,
    totals_key,
    totals_of,
)
from quarterjack.stores.rows import readable
from quarterjack.stores.tables import HISTORY, Row, RowQuery, RowTables, RowWrite
from quarterjack.values import replace

INLINE = 4_096  # bytes of an hour's pages that lie in its index
_FIRST_ROWS, _MOST_ROWS = 25, 100  # of one query of pages
_FIRST_HOURS = 8  # indexes of one query; of a tenant with a million runs a day these take 40 KB
_REMEMBERED = 100_000  # days, or hours
_CLOSED = ("~closed", "~")  # the row of the hours that are closed


class History:
    """Entries of all tenants. Places are UTC ms; days and hours are those of UTC. Reads add their cost to ``meter``.

    ``retention``: milliseconds for which a day is remembered.
    """

    def __init__(self, tables: RowTables, *, retention: int) -> None:
        self._tables, self._retention = tables, retention
        self._noted: dict[tuple[str, Book, int], Day] = {}  # as far as this process knows them
        self._late: dict[tuple[str, Book, int], int] = {}  # by hour: as which hour's this process has noted late pages

    # Writes.

    def append(self, pages: Sequence[PagePut]) -> None:
        """Put pages, note their days, and what is late. Raises Unavailable if not all is done; the same call again is harmless."""
        for page in pages:
            self._note(page)
        large = [page for page in pages if page.summary is not None]
        self._store("append", [page_row(page, body=True) for page in large])  # before what names them
        self._store("append", [page_row(page, body=False) for page in pages])
        self._note_late(pages)

    def _store(self, verb: str, rows: Sequence[Row]) -> None:
        stored = self._tables.store(verb, [RowWrite(table=HISTORY, row=row, kind="put") for row in rows])
        missing = len({row["key"] for row in rows} - stored)
        if missing:
            raise Unavailable(f"history: {missing} of {len(rows)} pages were not accepted; deliver the batch again")

    def _note(self, page: PagePut) -> None:
        """Note the page's day: that it is there, and how many partitions it has."""
        day = page.last // DAY
        place, spreads = (page.tenant, page.book, day), SPREADS if page.spread else 1
        known = self._noted.get(place) or self._day(*place)
        if known is None or known.spreads < spreads:
            known = self._note_day(page, day, known or Day(number=day), spreads)
        if len(self._noted) >= _REMEMBERED:
            self._noted.clear()
        self._noted[place] = known

    def _note_day(self, page: PagePut, day: int, known: Day, spreads: int) -> Day:
        expires = self._expires(page, day)
        tenant: Row = {"partition": tenants_of(page.book, day), "key": page.tenant, "ttl": expires}
        self._tables.write("note", RowWrite(table=HISTORY, row=tenant, kind="put"))
        row = day_key(page.tenant, page.book, day)
        more = {"spreads": spreads} if spreads > known.spreads else {}
        self._tables.write("note", RowWrite(table=HISTORY, row=row | more | {"ttl": expires}))
        return replace(known, spreads=max(spreads, known.spreads))

    def _expires(self, page: PagePut, day: int) -> int:
        return max(page.expires, (day + 1) * DAY + self._retention) // SECOND

    # Late pages.

    def close(self, hour: int) -> None:
        """Before hours before this one (since 1970) are folded: what is appended into them from now on is noted as late."""
        if self._closed() < hour:
            row, is_later = key_of(*_CLOSED) | {"hour": hour}, any_of(Absent("hour"), Compare("hour", "<", hour))
            self._tables.write("close", RowWrite(table=HISTORY, row=row, only_if=is_later))

    def _closed(self) -> int:
        partition, key = _CLOSED
        row = self._tables.get("closed", HISTORY, partition=partition, key=key)
        return int(row["hour"]) if row else 0

    def _note_late(self, pages: Sequence[PagePut]) -> None:
        """Note the pages, which are stored, of hours that were closed before: a fold may have passed them by.

        A fold closes hours and then reads them. So it finds these pages, or they find their hour closed: no clock decides which.
        They are noted for the next close; if that comes meanwhile, its fold may not know yet, and they are for the one after.
        """
        closed = self._closed()
        while late := [page for page in pages if page.last // HOUR < closed and self._noted_late(page) <= closed]:
            for page in late:
                if self._noted_late(page) <= closed:
                    self._note_hour(page, closed + 1)
            closed = self._closed()

    def _noted_late(self, page: PagePut) -> int:
        return self._late.get((page.tenant, page.book, page.last // HOUR), 0)

    def _note_hour(self, page: PagePut, written: int) -> None:
        day, hour = divmod(page.last // HOUR, 24)
        name, ttl = f"late{hour:02d}", {"ttl": self._expires(page, day)}
        for row, field in (
            (late_key(page.tenant, page.book, day) | ttl, "written"),
            (day_key(page.tenant, page.book, day), name),
        ):
            is_later = any_of(Absent(field), Compare(field, "<", written))
            self._tables.write("note", RowWrite(table=HISTORY, row=row | {field: written}, only_if=is_later))
        if len(self._late) >= _REMEMBERED:
            self._late.clear()
        self._late[page.tenant, page.book, page.last // HOUR] = written

    # Reads.

    def _day(self, tenant: str, book: Book, day: int) -> Day | None:
        row = self._tables.get("day", HISTORY, **day_key(tenant, book, day))
        return None if row is None else day_of(row)

    def days(self, tenant: str, book: Book, *, first: int, last: int, meter: ReadMeter) -> Sequence[Day]:
        """The days in ``[first, last]`` (since 1970) that have pages, the latest first."""
        if last < max(first, 0):
            return []
        span = [day_key(tenant, book, day)["key"] for day in (max(first, 0), last)]
        query = RowQuery(table=HISTORY, partition=f"{tenant}#days", first=span[0], last=span[1], newest_first=True)
        return list(readable(self._read("days", query, meter), day_of, "history.unreadable"))

    def hours(
        self, tenant: str, book: Book, day: int, meter: ReadMeter, *, first: int = 0, last: int = 23
    ) -> Iterator[Hour]:
        """The folded ones among these hours of a day, the latest first, read as they are asked for."""
        place = partition_of(tenant, book, day)
        query = RowQuery(
            table=HISTORY,
            partition=place,
            first=f"c#{first:02d}",
            last=f"c#{last:02d}",
            newest_first=True,
            limit=_FIRST_HOURS,
        )
        return readable(self._read("hours", query, meter), hour_of, "history.unreadable")

    def pages(
        self, tenant: str, book: Book, day: int, spreads: int, *, first: int, last: int, meter: ReadMeter
    ) -> Sequence[Iterator[HistoryPage]]:
        """Of each of so many partitions the appended pages whose latest place is in ``[first, last]``, the latest first.

        What comes first is read here, of all partitions at the same time; further pages are read as they are asked for.
        """
        if first > last:
            return ()
        begin, end = f"p#{stamp(max(first, 0))}", f"p#{stamp(last)}$"
        query = RowQuery(table=HISTORY, partition="", first=begin, last=end, newest_first=True, limit=_FIRST_ROWS)
        queries = [replace(query, partition=partition_of(tenant, book, day, spread)) for spread in range(spreads)]
        heads = self._tables.first_pages("pages", queries)
        found = [self._rest("pages", query, head, meter) for query, head in zip(queries, heads, strict=True)]
        return [readable(rows, page_of, "history.unreadable") for rows in found]

    def _read(self, verb: str, query: RowQuery, meter: ReadMeter) -> Iterator[Row]:
        return self._rest(verb, query, self._tables.page(verb, query), meter)

    def _rest(self, verb: str, query: RowQuery, head: tuple[list[Row], Any], meter: ReadMeter) -> Iterator[Row]:
        """The rows of a query from its first page on. If that has a limit, each further page has twice as many rows."""
        (rows, after), limit = head, query.limit
        while True:
            meter.add(sum(map(size_of, rows)))
            yield from rows
            if after is None:
                return
            limit = None if limit is None else min(limit * 2, _MOST_ROWS)
            rows, after = self._tables.page(verb, replace(query, after=after, limit=limit))

    def bodies(self, pages: Sequence[HistoryPage], meter: ReadMeter) -> Sequence[bytes]:
        """The bodies of pages, in their order. Raises Unavailable."""
        keys = {(page.partition, page.key): key_of(page.partition, page.key) for page in pages if page.body is None}
        rows, unread = self._tables.read("bodies", HISTORY, list(keys.values())) if keys else ([], [])
        for row in rows:
            meter.add(size_of(row))
        found = {(row["partition"], row["key"]): bytes_of(row["body"]) for row in rows}
        if unread or len(found) < len(keys):
            raise Unavailable(f"history: {len(keys) - len(found)} of {len(keys)} pages were not answered; try again")
        return [found[page.partition, page.key] if page.body is None else page.body for page in pages]

    # Folded hours.

    def put_stats(self, tenant: str, day: int, hour: int | None, parts: Sequence[bytes], folded: int) -> None:
        """Store the statistics of an hour, or of the whole day, unless later ones are stored; ``folded`` as in ``Hour``."""
        expires = ((day + 1) * DAY + self._retention) // SECOND
        is_later = any_of(Absent("folded"), Compare("folded", "<=", folded))
        for number, body in enumerate(parts):
            row = stats_key(tenant, day, hour, number) | {
                "body": body,
                "parts": len(parts),
                "folded": folded,
                "ttl": expires,
            }
            self._tables.write("put_stats", RowWrite(table=HISTORY, row=row, only_if=is_later, kind="put"))

    def put_totals(self, tenant: str, day: int, hour: int, outcomes: Mapping[str, int], folded: int) -> None:
        """Store how many runs of an hour ended in which state, unless a later count is stored; ``folded`` as in ``Hour``."""
        row = totals_key(tenant, day, hour) | {
            "outcomes": text_of(dict(sorted(outcomes.items()))),
            "folded": folded,
            "ttl": ((day + 1) * DAY + self._retention) // SECOND,
        }
        is_later = any_of(Absent("folded"), Compare("folded", "<=", folded))
        self._tables.write("put_totals", RowWrite(table=HISTORY, row=row, only_if=is_later, kind="put"))

    def totals(self, tenant: str, *, first: int, last: int, meter: ReadMeter) -> Mapping[int, Mapping[str, int]]:
        """These counts of hours in ``[first, last]`` (since 1970), of those hours that were folded and have any."""
        span = [f"t#{hour // 24:06d}#{hour % 24:02d}" for hour in (max(first, 0), last)]
        query = RowQuery(table=HISTORY, partition=f"{tenant}#stats", first=span[0], last=span[1])
        return dict(readable(self._read("totals", query, meter), totals_of, "history.unreadable"))

    def stats(
        self, tenant: str, *, first: int, last: int, hourly: bool, meter: ReadMeter
    ) -> Mapping[tuple[int, int | None], Sequence[bytes]]:
        """The statistics of days in ``[first, last]``: of their hours, or of whole days, by day and hour (None)."""
        kind = "h" if hourly else "d"
        span = (f"{kind}#{max(first, 0):06d}", f"{kind}#{last:06d}$")
        query = RowQuery(table=HISTORY, partition=f"{tenant}#stats", first=span[0], last=span[1])
        found: dict[tuple[int, int | None], list[Row]] = {}
        for row in self._read("stats", query, meter):
            found.setdefault(stats_of(row), []).append(row)
        return {
            place: [bytes_of(row["body"]) for row in rows if row["parts"] == rows[0]["parts"]]
            for place, rows in found.items()
        }

    def fold(self, tenant: str, book: Book, day: int, hour: Hour, expires: int) -> None:
        """Store an hour's folded pages, which have bodies, and then its index, which replaces the one before. Raises Unavailable."""
        place = partition_of(tenant, book, day)
        is_small = sum(len(page.body or b"") for page in hour.pages) <= INLINE
        pages = hour.pages if is_small else [page_beside(place, hour.number, page) for page in hour.pages]
        if not is_small:
            rows = [
                key_of(put.partition, put.key) | {"body": page.body, "ttl": expires // SECOND}
                for put, page in zip(pages, hour.pages, strict=True)
            ]
            self._store("fold", list({row["key"]: row for row in rows}.values()))
        row = hour_row(place, hour, pages, expires)
        # A process that folded an earlier state, and stalled, does not replace a later one.
        is_later = any_of(Absent("folded"), Compare("folded", "<=", hour.folded))
        self._tables.write("fold", RowWrite(table=HISTORY, row=row, only_if=is_later, kind="put"))

    def note_folded(self, tenant: str, book: Book, day: int, written: int) -> None:
        """Note up to which hour (since 1970) a day is folded."""
        row, is_there = day_key(tenant, book, day), Compare("partition", "=", f"{tenant}#days")
        self._tables.write("note_folded", RowWrite(table=HISTORY, row=row | {"folded": written}, only_if=is_there))

    def tenants(self, book: Book, day: int, *, begin: str = "") -> Iterator[str]:
        """The tenants that have pages of a day, in order of their names, from ``begin`` on."""
        query = RowQuery(table=HISTORY, partition=tenants_of(book, day), first=begin or " ", last="\U0010ffff")
        return (row["key"] for row in self._tables.rows("tenants", query))

    def late(self, book: Book) -> Iterator[LateDay]:
        """The days that were written to late, as long as nobody forgets them."""
        query = RowQuery(table=HISTORY, partition=f"~late#{book}", first=" ", last="\U0010ffff")
        return readable(self._tables.rows("late", query), late_of, "history.unreadable")

    def forget_late(self, late: LateDay) -> None:
        """Forget a day, unless it was written to later than that."""
        row, is_same = late_key(late.tenant, late.book, late.day), Compare("written", "<=", late.written)
        self._tables.write("forget", RowWrite(table=HISTORY, row=row, only_if=is_same, kind="delete"))
