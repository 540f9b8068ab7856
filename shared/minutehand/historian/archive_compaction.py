"""Move transitions from the archive's inbox to objects of their tenants, when their hour is over.

An object of the inbox is removed after its transitions are stored again. If this process dies in between, they are stored twice, under
the same key or another one; readers leave duplicates out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from minutehand.domain.archive_keys import INBOX, object_key, span_of_inbox
from minutehand.domain.archive_lines import pack, unpack
from minutehand.domain.times import HOUR, MINUTE, stamp
from minutehand.historian.archive import by_hour
from minutehand.ports.archive import Archive
from minutehand.ports.services import Clock

log = logging.getLogger(__name__)

LATE = 5 * MINUTE  # after the end of an hour: most of its transitions have been delivered
_READ = 50  # objects of one request's round
_MOST = 4 * 2**20  # compressed bytes that are in memory at a time: some 80,000 transitions
_BATCH = "compacted"


def compact_archive(store: Archive, *, clock: Clock, budget: int) -> int:
    """Move what is in the inbox from hours that are over, for at most about ``budget`` ms; returns the number of objects removed.

    Raises Unavailable: the next call continues.
    """
    began, moved = clock(), 0
    before = (began - LATE) // HOUR * HOUR
    for keys, contents in _loads(store, before):
        if clock() - began >= budget:
            break
        hours = by_hour(chain.from_iterable(map(unpack, contents)))
        packed = [
            (tenant, hour, pack({line.order: line for line in lines}.values()))
            for (tenant, hour), lines in hours.items()
        ]
        store.put({object_key(tenant, hour, _BATCH, content): content for tenant, hour, content in packed})
        store.remove(keys)
        moved += len(keys)
    if moved:
        log.info("archive.compacted", extra={"objects": moved})
    return moved


def _loads(store: Archive, before: int) -> Iterator[tuple[Sequence[str], Sequence[bytes]]]:
    """Objects that begin before an instant (UTC ms), with their keys, as many at a time as memory should hold."""
    keys, contents = list[str](), list[bytes]()
    found = [key for key in store.keys(INBOX, after=INBOX, before=f"{INBOX}{stamp(before)}") if span_of_inbox(key)]
    for start in range(0, len(found), _READ):
        part = found[start : start + _READ]
        there = [(key, content) for key, content in zip(part, store.get(part), strict=True) if content is not None]
        keys += [key for key, _ in there]
        contents += [content for _, content in there]
        if sum(map(len, contents)) >= _MOST:
            yield keys, contents
            keys, contents = [], []
    if keys:
        yield keys, contents
