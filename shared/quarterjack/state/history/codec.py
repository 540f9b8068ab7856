"""Entries as compact bytes and back: a column for each field, as JSON, compressed.

A column in which all values are equal is that value, so that fields that hardly any run has cost nothing. Times are differences to a
time of the same run, texts that repeat are numbers of a table. Fires of one schedule take 10 to 20 bytes each.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from quarterjack.domain.history.entry import HistoryEntry, RunKind
from quarterjack.domain.message import GARBAGE, unreadable
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunState
from quarterjack.domain.times import STAMP_DIGITS, stamp
from quarterjack.errors import TooNew

FORM = 1  # the first byte: how the rest is encoded
_RAW, _LEVEL, _MEMORY = -15, 9, 9  # deflate without a header
_STEPS = 2  # columns of differences, which come first: place and order
_MOST = 64 * 1024 * 1024  # bytes of a page's JSON: none that Quarterjack writes comes near

Column = Any  # a list, or the one value of all


def encode(entries: Iterable[HistoryEntry]) -> bytes:
    """The bytes of some entries of one tenant. Their order is that of ``at``; equal entries give equal bytes."""
    found = sorted(entries, key=lambda entry: (entry.at, entry.run, entry.order))
    columns = [len(found), *([_pack(write(found)) for write, _ in _COLUMNS] if found else ())]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False).encode()
    squeeze = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, _MEMORY)
    return bytes([FORM]) + squeeze.compress(text) + squeeze.flush()


class PageColumns:
    """A page whose entries are made when they are asked for: making them takes ten times as long as reading their columns.

    ``places``: where its entries are (UTC ms), ascending. Raises Unreadable, TooNew.
    """

    def __init__(self, body: bytes) -> None:
        if body[:1] > bytes([FORM]):
            raise TooNew(f"a page of the history has form {body[0]}: a later release reads it; finish the deployment")
        try:
            text = zlib.decompressobj(_RAW).decompress(body[1:], _MOST)
            self._count, *self._columns = json.loads(text)
            steps = [_unpack(column, self._count) for column in self._columns[:_STEPS]] if self._count else [[], []]
            self.places, self._orders = (list(accumulate(column)) for column in steps)
        except (*GARBAGE, zlib.error, IndexError) as problem:
            raise unreadable("page of the history", problem) from problem

    def last_in(self, first: int, last: int) -> int | None:
        """The latest place in ``[first, last]``; None if there is none."""
        place = bisect_right(self.places, last) - 1
        return self.places[place] if place >= 0 and self.places[place] >= first else None

    def entries(
        self,
        tenant: str,
        *,
        first: int | None = None,
        last: int | None = None,
        wanted: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> list[HistoryEntry]:
        """The entries at places in ``[first, last]``, in ascending order; with ``wanted`` those alone whose fields meet it."""
        begin = 0 if first is None else bisect_left(self.places, first)
        end = self._count if last is None else bisect_right(self.places, last)
        if begin >= end:
            return []
        fields: dict[str, Any] = {"at": self.places[begin:end], "order": self._orders[begin:end]}
        try:
            for (_, read), column in zip(_COLUMNS[_STEPS:], self._columns[_STEPS:], strict=True):
                read(_unpack(column, self._count, begin, end), fields, tenant)
            names = tuple(fields)
            rows = (dict(zip(names, values, strict=True)) for values in zip(*fields.values(), strict=True))
            return [HistoryEntry(**row) for row in rows if wanted is None or wanted(row)]
        except (*GARBAGE, IndexError) as problem:
            raise unreadable("page of the history", problem) from problem


def decode(tenant: str, body: bytes) -> list[HistoryEntry]:
    """All entries, in ascending order of ``at``. Raises Unreadable, TooNew."""
    return PageColumns(body).entries(tenant)


# Columns.


def _pack(values: Sequence[Any]) -> Column:
    """A list as it is, as the number of its table's texts, or as the one value of all, whichever is short."""
    first = values[0]
    if all(value == first for value in values):
        return {"=": first}
    if isinstance(first, (int, type(None))) and all(isinstance(value, (int, type(None))) for value in values):
        return list(values)
    table = list(dict.fromkeys(map(_hashable, values)))
    if len(table) * 2 > len(values):
        return list(values)
    place = {value: number for number, value in enumerate(table)}
    return {"t": [json.loads(text) for text in table], "i": [place[_hashable(value)] for value in values]}


def _hashable(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _unpack(column: Column, count: int, begin: int = 0, end: int | None = None) -> list[Any]:
    """The values of the rows in ``[begin, end)``."""
    end = count if end is None else end
    if isinstance(column, dict) and "=" in column:
        return [column["="]] * (end - begin)
    values = column["i"] if isinstance(column, dict) else column
    if len(values) != count:
        raise ValueError(f"a column has {len(values)} of {count} values")
    part: list[Any] = values[begin:end]
    return [column["t"][number] for number in part] if isinstance(column, dict) else part


Entries = Sequence[HistoryEntry]
Fields = dict[str, Any]
Writer = Callable[[Entries], list[Any]]
Reader = Callable[[list[Any], Fields, str], None]  # adds a field, from a column and the fields before it, of a tenant


def _steps(name: str) -> tuple[Writer, Reader]:
    """A number, as the difference to that of the entry before. Such columns are read as a whole, before all others."""

    def write(entries: Entries) -> list[Any]:
        values = [getattr(entry, name) for entry in entries]
        return [values[0], *(after - before for before, after in pairwise(values))]

    return write, lambda column, fields, _: None


def _since(name: str, other: str) -> tuple[Writer, Reader]:
    """A number, as the difference to another one of the entry; None stays None."""

    def write(entries: Entries) -> list[Any]:
        pairs = ((getattr(entry, name), getattr(entry, other)) for entry in entries)
        return [None if value is None else value - (base or 0) for value, base in pairs]

    def read(column: list[Any], fields: Fields, _: str) -> None:
        pairs = zip(column, fields[other], strict=True)
        fields[name] = [None if value is None else value + (base or 0) for value, base in pairs]

    return write, read


def _plain(name: str, parse: Callable[[Any], Any] | None = None) -> tuple[Writer, Reader]:
    def write(entries: Entries) -> list[Any]:
        return [getattr(entry, name) for entry in entries]

    def read(column: list[Any], fields: Fields, _: str) -> None:
        fields[name] = column if parse is None else list(map(parse, column))

    return write, read


def _owners(entries: Entries) -> list[Any]:
    return [entry.run.owner.partition("/")[2] for entry in entries]


def _keys(entries: Entries) -> list[Any]:
    """The key of a fire is its due time: what follows that. Another key is written whole, after ``=``."""
    pairs = ((entry.run.key, stamp(entry.due)) for entry in entries)
    return [key[STAMP_DIGITS:] if key.startswith(due) else f"={key}" for key, due in pairs]


def _take_owners(column: list[Any], fields: Fields, tenant: str) -> None:
    fields["run"] = [f"{tenant}/{name}" for name in column]


def _take_keys(column: list[Any], fields: Fields, _: str) -> None:
    keys = (rest[1:] if rest[:1] == "=" else stamp(due) + rest for rest, due in zip(column, fields["due"], strict=True))
    fields["run"] = list(map(RunRef, fields["run"], keys))


def _tags(entries: Entries) -> list[Any]:
    return [dict(sorted(entry.tags.items())) or None for entry in entries]


def _take_tags(column: list[Any], fields: Fields, _: str) -> None:
    fields["tags"] = [tags or {} for tags in column]


_COLUMNS: tuple[tuple[Writer, Reader], ...] = (
    _steps("at"),
    _steps("order"),
    _since("due", "at"),
    (_owners, _take_owners),
    (_keys, _take_keys),
    _plain("withdrawn", bool),
    _plain("again", bool),
    _plain("state", RunState),
    _plain("job"),
    _since("not_before", "due"),
    _since("created_at", "due"),
    _since("started_at", "due"),
    _plain("attempt"),
    _since("fence", "attempt"),
    _plain("revision"),
    _plain("kind", RunKind),
    _plain("reason"),
    _plain("error_type"),
    _plain("backfill"),
    _plain("replay_of"),
    _plain("app_version"),
    _plain("skipped"),
    _since("skipped_until", "due"),
    (_tags, _take_tags),
)
