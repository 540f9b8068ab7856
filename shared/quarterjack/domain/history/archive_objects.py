"""The archive's objects: their keys in the bucket, and their content, JSON lines in order of time, compressed by gzip.

archive/inbox/<first>-<last>-<batch>-<hash>.jsonl.gz                     small tenants' transitions of one batch of the stream
archive/tenant=<tenant>/day=<YYYY-MM-DD>/<HH>-<batch>-<hash>.jsonl.gz    transitions of one tenant and hour (UTC)

The inbox sorts by time (UTC ms of the first and the last transition), the rest by tenant and time. A key follows from the batch and
from the content, so a repeated delivery overwrites its own object; and half a batch, which a stream delivers after a failure, does not
overwrite the whole.

A reader parses lines. A move from one object to another does not: a line of a later release is moved as it is.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from quarterjack.domain.history.transition_line import TransitionLine, line_of, ms_of, parse_line
from quarterjack.domain.message import GARBAGE, unreadable
from quarterjack.domain.names import check_tenant
from quarterjack.domain.times import DAY, HOUR, from_ms, stamp
from quarterjack.errors import InvalidInput, Unreadable

ARCHIVE = "archive"
INBOX = f"{ARCHIVE}/inbox/"
TENANTS = f"{ARCHIVE}/tenant="  # before the name of a tenant, in the keys of its objects
SUFFIX = ".jsonl.gz"
AFTER_ALL = "~"  # sorts after every character of a key
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_BATCH = 200  # characters
_HASH = 12  # characters
_LONGEST = DAY  # between the transitions of an object
_INBOX = re.compile(rf"{INBOX}(\d+)-(\d+)-")


def object_key(tenant: str, at: int, batch: str, content: bytes) -> str:
    """The key of the lines of a batch whose hour contains ``at`` (UTC ms)."""
    return f"{hour_prefix(tenant, at)}{_name(batch, content)}"


def inbox_key(first: int, last: int, batch: str, content: bytes) -> str:
    """The key of the lines of a batch between two instants (UTC ms), of any tenants."""
    return f"{INBOX}{stamp(first)}-{stamp(last)}-{_name(batch, content)}"


def _name(batch: str, content: bytes) -> str:
    return f"{_UNSAFE.sub('_', batch)[-_MOST_BATCH:]}-{hashlib.sha256(content).hexdigest()[:_HASH]}{SUFFIX}"


def rewritten_key(key: str, content: bytes) -> str:
    """The key of an object of the inbox whose content was replaced: of the same batch and the same instants."""
    return f"{key.removesuffix(SUFFIX).rpartition('-')[0]}-{hashlib.sha256(content).hexdigest()[:_HASH]}{SUFFIX}"


def span_of_inbox(key: str) -> tuple[int, int] | None:
    """First and last instant (UTC ms) in an object of the inbox; None for a foreign object."""
    found = _INBOX.match(key)
    first, last = (int(found[1]), int(found[2])) if found else (0, -1)
    return (first, last) if first <= last <= first + _LONGEST else None


def tenant_prefix(tenant: str) -> str:
    return f"{TENANTS}{tenant}/"


def tenant_of_key(key: str) -> str:
    """The tenant whose transitions an object has."""
    return key.removeprefix(TENANTS).partition("/")[0]


def hour_prefix(tenant: str, at: int) -> str:
    """The keys of the hour that contains ``at`` (UTC ms) begin so."""
    return f"{tenant_prefix(tenant)}day={from_ms(at):%Y-%m-%d/%H}-"


def keys_between(tenant: str, since: int, until: int) -> tuple[str, str]:
    """Bounds of the keys of all hours that meet ``[since, until)`` (UTC ms): they are greater than the first, smaller than the last."""
    return hour_prefix(tenant, since), hour_prefix(tenant, max(until - 1, since)) + AFTER_ALL


def hour_of_key(key: str) -> str:
    """What the keys of one tenant and hour have in common."""
    folder, _, name = key.rpartition("/")
    return f"{folder}/{name.partition('-')[0]}-"


def hours_of(first: int, last: int) -> range:
    """The beginnings (UTC ms) of the hours that meet ``[first, last]``."""
    return range(first // HOUR * HOUR, last + 1, HOUR)


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
