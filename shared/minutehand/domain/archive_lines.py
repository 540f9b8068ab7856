"""The content of an archive's object: JSON lines in order of time, compressed by gzip."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Iterable, Iterator

from minutehand.domain.transition_line import TransitionLine, line_of, parse_line
from minutehand.errors import Unreadable

log = logging.getLogger(__name__)


def pack(transitions: Iterable[TransitionLine]) -> bytes:
    """The content with these transitions: the same for the same ones, in any order."""
    lines = [f"{line_of(each)}\n" for each in sorted(transitions, key=lambda each: each.order)]
    return gzip.compress("".join(lines).encode(), mtime=0)


def unpack(content: bytes, *, tenant: str | None = None) -> Iterator[TransitionLine]:
    """The transitions in a content, ``tenant``'s or all. What cannot be read is logged and left out."""
    mark = b"" if tenant is None else f'"tenant":"{tenant}"'.encode()
    try:
        for text in gzip.GzipFile(fileobj=io.BytesIO(content)):
            if mark in text:  # most lines of the inbox are other tenants'
                yield from _parsed(text, tenant)
    except (OSError, EOFError) as problem:  # cut off, or not compressed by gzip
        log.error("archive.object_unreadable", extra={"error": str(problem), "bytes": len(content)})


def _parsed(text: bytes, tenant: str | None) -> Iterator[TransitionLine]:
    try:
        line = parse_line(text)
    except Unreadable as problem:
        log.error("archive.line_unreadable", extra={"error": str(problem)})
        return
    if tenant in (None, line.tenant):
        yield line
