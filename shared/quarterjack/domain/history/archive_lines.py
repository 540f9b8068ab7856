"""The content of an archive's object: JSON lines in order of time, compressed by gzip.

A reader parses lines. Who moves them from one object to another does not: a line of a later release is moved as it is.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from quarterjack.domain.history.transition_line import TransitionLine, line_of, ms_of, parse_line
from quarterjack.domain.message import GARBAGE, unreadable
from quarterjack.domain.names import check_tenant
from quarterjack.domain.times import HOUR, from_ms
from quarterjack.errors import InvalidInput, Unreadable

log = logging.getLogger(__name__)

_DAMAGED = (OSError, EOFError, zlib.error)  # not compressed by gzip, cut off, or changed


@dataclass(frozen=True, kw_only=True, order=True)
class RawLine:
    """A line as it was written, and what places it: it may be of any release. They sort as their transitions do."""

    at: int  # UTC ms
    sequence: str
    run: str
    tenant: str
    text: bytes  # without its end


_Line = TypeVar("_Line", TransitionLine, RawLine)


def by_hour(lines: Iterable[_Line]) -> Mapping[tuple[str, int], list[_Line]]:
    """Lines by tenant and the beginning of their hour (UTC ms)."""
    hours: dict[tuple[str, int], list[_Line]] = defaultdict(list)
    for line in lines:
        hours[line.tenant, line.at // HOUR * HOUR].append(line)
    return hours


def pack(transitions: Iterable[TransitionLine]) -> bytes:
    """The content with these transitions: the same for the same ones, in any order."""
    lines = [f"{line_of(each)}\n" for each in sorted(transitions, key=lambda each: each.order)]
    return gzip.compress("".join(lines).encode(), mtime=0)


def pack_raw(lines: Iterable[RawLine]) -> bytes:
    """The content with these lines, byte for byte; equal lines once. The same for the same ones, in any order."""
    return gzip.compress(b"".join(line.text + b"\n" for line in sorted(set(lines))), mtime=0)


def unpack_raw(content: bytes) -> list[RawLine]:
    """All lines of a content. Raises Unreadable if it is damaged, or one of its lines says no tenant or time."""
    try:
        return [_placed(text.removesuffix(b"\n")) for text in gzip.GzipFile(fileobj=io.BytesIO(content))]
    except _DAMAGED as problem:
        raise unreadable("object of the archive", problem) from problem


def _placed(text: bytes) -> RawLine:
    try:
        row = json.loads(text)
        tenant, at = check_tenant(row["tenant"]), ms_of(row["at"])
        from_ms(at)  # a key can say it
        return RawLine(at=at, sequence=str(row.get("sequence")), run=str(row.get("run")), tenant=tenant, text=text)
    except (*GARBAGE, InvalidInput) as problem:
        raise unreadable("line of the archive", problem) from problem


def unpack(content: bytes, *, tenant: str | None = None) -> Iterator[TransitionLine]:
    """The transitions in a content, ``tenant``'s or all. What cannot be read is logged and left out."""
    mark = b"" if tenant is None else f'"tenant":"{tenant}"'.encode()
    try:
        for text in gzip.GzipFile(fileobj=io.BytesIO(content)):
            if mark in text:  # most lines of the inbox are other tenants'
                yield from _parsed(text, tenant)
    except _DAMAGED as problem:
        log.error("archive.object_unreadable", extra={"error": str(problem), "bytes": len(content)})


def _parsed(text: bytes, tenant: str | None) -> Iterator[TransitionLine]:
    try:
        line = parse_line(text)
    except Unreadable as problem:
        log.error("archive.line_unreadable", extra={"error": str(problem)})
        return
    if tenant in (None, line.tenant):
        yield line
