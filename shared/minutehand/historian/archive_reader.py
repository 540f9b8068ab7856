"""Read the archive: transitions of one tenant in order of time, hour by hour, without those that were delivered twice."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from minutehand.domain.archive_keys import hour_of_key, keys_between, tenant_prefix
from minutehand.domain.names import RunRef
from minutehand.domain.transition_line import TransitionKind, TransitionLine, parse_line
from minutehand.errors import Unavailable, Unreadable
from minutehand.ports.archive import Archive

log = logging.getLogger(__name__)

_TRIES = 3  # an object that was listed may have been merged with others before it is read


@dataclass(frozen=True, kw_only=True)
class ArchiveFilter:
    """Conditions on a transition, all of which must hold. None is no condition."""

    since: int  # UTC ms
    until: int  # UTC ms, exclusive
    schedule: str | None = None
    job: str | None = None
    run: RunRef | None = None
    kind: TransitionKind | None = None

    def matches(self, line: TransitionLine) -> bool:
        return (
            self.since <= line.at < self.until
            and self.schedule in (None, line.schedule)
            and self.job in (None, line.job)
            and self.run in (None, line.ref)
            and self.kind in (None, line.kind)
        )


def read_archive(store: Archive, tenant: str, wanted: ArchiveFilter) -> Iterator[TransitionLine]:
    """The transitions that match, oldest first. It holds the compressed objects of one hour at a time.

    An object or a line that cannot be read is logged and left out. Raises Unavailable.
    """
    first, last = keys_between(tenant, wanted.since, wanted.until)
    keys = store.keys(tenant_prefix(tenant), after=first, before=last)
    for prefix, of_hour in groupby(keys, key=hour_of_key):
        previous = None
        for line in merge(*map(_lines, _objects(store, prefix, list(of_hour))), key=lambda each: each.order):
            if line.order != previous and wanted.matches(line):
                yield line
            previous = line.order


def _objects(store: Archive, prefix: str, keys: Sequence[str]) -> list[bytes]:
    """All objects of an hour, as of one moment."""
    for _ in range(_TRIES):
        found = store.get(keys)
        there = [content for content in found if content is not None]
        if len(there) == len(keys):
            return there
        keys = list(store.keys(prefix, after=prefix, before=f"{prefix}~"))
    raise Unavailable(f"{prefix}: its objects are being replaced; try again")


def _lines(content: bytes) -> Iterator[TransitionLine]:
    try:
        for text in gzip.GzipFile(fileobj=io.BytesIO(content)):
            try:
                yield parse_line(text)
            except Unreadable as problem:
                log.error("archive.line_unreadable", extra={"error": str(problem)})
    except (OSError, EOFError) as problem:  # cut off, or not compressed by gzip
        log.error("archive.object_unreadable", extra={"error": str(problem), "bytes": len(content)})
