"""The keys and rows of the history's table: how pages, days and indexes are stored, and how they are read."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from quarterjack.domain.history.entry import Book
from quarterjack.domain.times import DAY, from_ms
from quarterjack.dynamodb.rows import reads
from quarterjack.dynamodb.tables import Row
from quarterjack.ports.history.pages import Day, HistoryPage, Hour, LateDay
from quarterjack.state.history.search import summary_from


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
