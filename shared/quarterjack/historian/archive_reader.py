"""Read the archive: transitions of one tenant in order of time, hour by hour, without duplicates."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from quarterjack.domain.history.archive_keys import (
    AFTER_ALL,
    INBOX,
    hour_of_key,
    hour_prefix,
    hours_of,
    keys_between,
    span_of_inbox,
    tenant_prefix,
)
from quarterjack.domain.history.archive_lines import unpack
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import stamp
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.ports.buckets import Archive

log = logging.getLogger(__name__)

_TRIES = 3  # an object that was listed may have been compacted before it is read


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
    # The inbox is listed first: an object that is compacted meanwhile is in one of the two listings at least.
    inbox = sorted(_by_hour(_inbox(store, wanted.since, wanted.until), tenant, wanted))
    first, last = keys_between(tenant, wanted.since, wanted.until)
    own = ((hour_of_key(key), key) for key in store.keys(tenant_prefix(tenant), after=first, before=last))
    for prefix, of_hour in groupby(merge(inbox, own), key=lambda found: found[0]):
        contents = _contents(store, prefix, [key for _, key in of_hour], wanted)
        yield from filter(wanted.matches, _merged(contents, tenant, prefix))


def _inbox(store: Archive, since: int, until: int) -> Iterator[str]:
    """Keys of the objects in the inbox that may have transitions in ``[since, until)``."""
    try:
        for key in store.keys(INBOX, after=INBOX, before=f"{INBOX}{stamp(until)}"):
            span = span_of_inbox(key)
            if span is not None and span[1] >= since:
                yield key
    except Misconfigured as problem:  # a caller with access to one tenant reads transitions after their compaction
        log.info("archive.inbox_not_read", extra={"error": str(problem)})


def _by_hour(keys: Iterable[str], tenant: str, wanted: ArchiveFilter) -> Iterator[tuple[str, str]]:
    """Keys of the inbox with the hours for which they must be read."""
    for key in keys:
        first, last = span_of_inbox(key) or (0, 0)
        for hour in hours_of(max(first, wanted.since), min(last, wanted.until)):
            yield hour_prefix(tenant, hour), key


def _contents(store: Archive, prefix: str, keys: Sequence[str], wanted: ArchiveFilter) -> list[bytes]:
    """All objects of an hour, as of one moment."""
    for _ in range(_TRIES):
        found = store.get(keys)
        there = [content for content in found if content is not None]
        if len(there) == len(keys):
            return there
        inbox = list(_inbox(store, wanted.since, wanted.until))
        keys = [*inbox, *store.keys(prefix, after=prefix, before=f"{prefix}{AFTER_ALL}")]
    raise Unavailable(f"{prefix}: its objects are being compacted; try again")


def _merged(contents: Iterable[bytes], tenant: str, prefix: str) -> Iterator[TransitionLine]:
    """The tenant's transitions of an hour in order, each once."""
    previous = None
    for line in merge(*(unpack(content, tenant=tenant) for content in contents), key=lambda line: line.order):
        if line.order != previous and hour_prefix(tenant, line.at) == prefix:
            yield line
        previous = line.order
