"""Pages, days and indexes of the history, and how they are stored: the keys and rows of its table."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from typing import Any

from quarterjack.domain.history.entry import Book
from quarterjack.domain.times import DAY, MINUTE, SECOND, from_ms, stamp
from quarterjack.state.history.search import Summary, summary_from
from quarterjack.stores.rows import present, reads
from quarterjack.stores.tables import Row
from quarterjack.values import replace

SPAN = 5 * MINUTE  # ms between the first and the last place of an appended page, at the most
UNIT = 4_096  # bytes of a strong read that cost one read unit
SPREADS = 8  # partitions of a day with many pages at a time: each takes 1,000 write units a second


@dataclass
class ReadMeter:
    """What reads have cost."""

    units: float = 0.0  # read units
    requests: int = 0

    def add(self, size: int) -> None:
        """One request that read so many bytes."""
        self.spend(max(1, ceil(size / UNIT)))

    def spend(self, units: float) -> None:
        """One request that cost so many units."""
        self.requests += 1
        self.units += units


@dataclass(frozen=True, kw_only=True)
class PagePut:
    """A page to append. The same entries make the same page, so that a batch that is handled twice replaces its own pages."""

    tenant: str
    book: Book
    first: int  # UTC ms: the earliest place in it
    last: int  # UTC ms: the latest; both are in one hour
    written: int  # hours since 1970: when it is written, by the clock of who writes it; nothing rests on that
    body: bytes  # see ``state.history.codec``
    digest: str  # of tenant, book and body
    summary: (
        Summary | None
    )  # of a large page: its body has a row of its own, read only if the summary may hold what is searched
    spread: bool = False  # to one of several partitions: there are many at a time
    expires: int = 0  # UTC ms


@dataclass(frozen=True, kw_only=True)
class HistoryPage:
    """A page as it is read: with its body, or with a summary and where the body is."""

    last: int  # UTC ms: the latest place in it
    written: int = 0  # hours since 1970
    part: int = 0  # of its hour, where the hour was folded: entries of one place are in one part
    body: bytes | None = None
    summary: Summary | None = None
    partition: str = ""  # of the body, where it is not here
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Day:
    """What is known of a tenant's day without reading it."""

    number: int  # days since 1970, UTC
    spreads: int = 1  # partitions in use
    folded: int = 0  # hours since 1970: the hours before are folded; what was written into them after they were closed is noted as late
    late: Mapping[int, int] = field(
        default_factory=dict
    )  # by hour of the day: the close (an hour since 1970) whose fold finds all late writes into it


@dataclass(frozen=True, kw_only=True)
class Hour:
    """The index of an hour that was folded."""

    number: int  # 0 to 23
    folded: int  # hours since 1970: it holds what was written before the close of that name
    kept: bool = False  # its pages were large already: it was not folded, and is read as they are
    pages: Sequence[HistoryPage] = ()


@dataclass(frozen=True, kw_only=True)
class LateDay:
    """A day of a tenant that was written to late, so that it has to be folded again."""

    tenant: str
    book: Book
    day: int  # days since 1970
    written: int  # hours since 1970: the close whose fold finds all such writes


def partition_of(tenant: str, book: Book, day: int, spread: int = 0) -> str:
    """The partition of a tenant's day (since 1970, UTC). ``#`` is in no tenant's name."""
    return f"{tenant}{'' if book is Book.ENDED else f'#{book}'}#{from_ms(day * DAY).date().isoformat()}#{spread}"


def tenants_of(book: Book, day: int) -> str:
    return f"~tenants#{book}#{day:06d}"


def late_key(tenant: str, book: Book, day: int) -> Row:
    return key_of(f"~late#{book}", f"{day:06d}#{tenant}")


def day_key(tenant: str, book: Book, day: int) -> Row:
    return key_of(f"{tenant}#days", f"{book}#{day:06d}")


def stats_key(tenant: str, day: int, hour: int | None, part: int) -> Row:
    """The key of an hour's statistics, or of a day's."""
    place = f"d#{day:06d}" if hour is None else f"h#{day:06d}#{hour:02d}"
    return key_of(f"{tenant}#stats", f"{place}#{part:03d}")


def stats_of(row: Mapping[str, Any]) -> tuple[int, int | None]:
    """The day of a row of statistics, and its hour; None: it is of the whole day."""
    kind, day, *hour = row["key"].split("#")[:-1]
    return int(day), int(hour[0]) if kind == "h" else None


def totals_key(tenant: str, day: int, hour: int) -> Row:
    """The key of what an hour's runs came to, together."""
    return key_of(f"{tenant}#stats", f"t#{day:06d}#{hour:02d}")


def totals_of(row: Mapping[str, Any]) -> tuple[int, Mapping[str, int]]:
    """The hour (since 1970) of such a row, and its runs by state."""
    _, day, hour = row["key"].split("#")
    return int(day) * 24 + int(hour), {str(name): int(count) for name, count in json.loads(row["outcomes"]).items()}


def key_of(partition: str, key: str) -> Row:
    return {"partition": partition, "key": key}


def text_of(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def bytes_of(value: bytes | str) -> bytes:
    """Bytes as a driver returns them: our own requests leave them in base64."""
    return b64decode(value) if isinstance(value, str) else bytes(value)


def size_of(row: Row) -> int:
    """What DynamoDB counts, roughly: names and values; numbers as some bytes, base64 as what it stands for."""
    return sum(len(name) + _weight(name, value) for name, value in row.items())


def _weight(name: str, value: Any) -> int:
    if isinstance(value, str):
        return len(value) * 3 // 4 if name in ("body", "pages", "bodies") else len(value.encode())
    return len(value) if isinstance(value, bytes) else 6


@reads("day {partition} {key} of the history")
def day_of(row: Mapping[str, Any]) -> Day:
    late = {int(name[4:]): int(value) for name, value in row.items() if name.startswith("late")}
    number = int(row["key"].rpartition("#")[2])
    return Day(number=number, spreads=int(row.get("spreads", 1)), folded=int(row.get("folded", 0)), late=late)


@reads("late day {partition} {key} of the history")
def late_of(row: Mapping[str, Any]) -> LateDay:
    day, _, tenant = row["key"].partition("#")
    book = Book(row["partition"].rpartition("#")[2])
    return LateDay(tenant=tenant, book=book, day=int(day), written=int(row["written"]))


def page_row(page: PagePut, *, body: bool) -> Row:
    """The row of an appended page; of a large one, which has a summary, also the row of its ``body``."""
    spread = int(page.digest, 16) % SPREADS if page.spread else 0
    row: Row = {
        "partition": partition_of(page.tenant, page.book, page.last // DAY, spread),
        "key": f"{'b' if body else 'p'}#{stamp(page.last)}#{page.written:06d}#{page.digest}",
        "ttl": page.expires // SECOND,
    }
    if body or page.summary is None:
        return row | {"body": page.body}
    return row | {"summary": text_of(page.summary.as_list())}


@reads("page {partition} {key} of the history")
def page_of(row: Mapping[str, Any]) -> HistoryPage:
    _, last, written, _ = row["key"].split("#")
    summary = summary_from(json.loads(row["summary"])) if "summary" in row else None
    return HistoryPage(
        last=int(last),
        written=int(written),
        body=None if summary else bytes_of(row["body"]),
        summary=summary,
        partition=row["partition"],
        key=f"b{row['key'][1:]}",
    )


def page_beside(partition: str, hour: int, page: HistoryPage) -> HistoryPage:
    """A folded page whose body has a row of its own."""
    digest = sha256(page.body or b"").hexdigest()[:16]
    return replace(page, body=None, partition=partition, key=f"b#c#{hour:02d}#{page.part:03d}#{digest}")


def hour_row(partition: str, hour: Hour, pages: Sequence[HistoryPage], expires: int) -> Row:
    """The index of a folded hour, with the bodies of those ``pages`` that have no row of their own. ``expires`` in UTC ms."""
    index = [
        [page.summary.as_list() if page.summary else None, page.part, page.key, len(page.body or b"")] for page in pages
    ]
    row: Row = key_of(partition, f"c#{hour.number:02d}") | {
        "folded": hour.folded,
        "kept": True if hour.kept else None,
        "pages": zlib.compress(text_of(index).encode(), 9) if pages else None,
        "bodies": b"".join(page.body or b"" for page in pages) or None,
        "ttl": expires // SECOND,
    }
    return present(row)


@reads("index {partition} {key} of the history")
def hour_of(row: Mapping[str, Any]) -> Hour:
    index = json.loads(zlib.decompress(bytes_of(row["pages"]))) if "pages" in row else []
    bodies, begin, pages = bytes_of(row.get("bodies", b"")), 0, []
    for listed, part, key, length in index:
        summary = summary_from(listed)
        body = None if key else bodies[begin : begin + length]
        begin += length
        pages.append(
            HistoryPage(last=summary.last, part=part, body=body, summary=summary, partition=row["partition"], key=key)
        )
    return Hour(
        number=int(row["key"].rpartition("#")[2]),
        folded=int(row["folded"]),
        kept=bool(row.get("kept", False)),
        pages=pages,
    )
