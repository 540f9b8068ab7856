"""Move transitions from the archive's inbox to objects of their tenants, when their hour is over.

An object of the inbox is removed after its transitions are stored again. If this process dies in between, they are stored twice, under
the same key or another one; readers leave duplicates out.

Lines are moved byte for byte: while a deployment is under way, or after it was taken back, they may be of a later release. An object
that is damaged, or with a line that says no tenant or time, stays in the inbox as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from quarterjack.domain.history.archive_keys import INBOX, object_key, span_of_inbox
from quarterjack.domain.history.archive_lines import RawLine, by_hour, pack_raw, unpack_raw
from quarterjack.domain.times import HOUR, MINUTE, stamp
from quarterjack.errors import Unreadable
from quarterjack.ports.buckets import Archive
from quarterjack.ports.services import Clock

log = logging.getLogger(__name__)

LATE = 5 * MINUTE  # after the end of an hour: most of its transitions have been delivered
_READ = 50  # objects of one request's round
_MOST = 4 * 2**20  # compressed bytes that are in memory at a time: some 80,000 transitions
_BATCH = "compacted"


@dataclass(kw_only=True)
class CompactionReport:
    """What one compaction did."""

    removed: int = 0  # objects of the inbox whose lines were moved
    unreadable: int = 0  # objects that were left in the inbox


def compact_archive(store: Archive, *, clock: Clock, budget: int) -> CompactionReport:
    """Move what is in the inbox from hours that are over, for at most about ``budget`` ms.

    Raises Unavailable: the next call continues.
    """
    began, report = clock(), CompactionReport()
    before = (began - LATE) // HOUR * HOUR
    for objects in _loads(store, before):
        if clock() - began >= budget:
            break
        readable = dict(_readable(objects))
        report.unreadable += len(objects) - len(readable)
        store.put(dict(_by_tenant(line for lines in readable.values() for line in lines)))
        store.remove(list(readable))
        report.removed += len(readable)
    if report.removed:
        log.info("archive.compacted", extra={"objects": report.removed})
    return report


def _readable(objects: Mapping[str, bytes]) -> Iterator[tuple[str, list[RawLine]]]:
    """The lines of each object whose lines can all be placed, by its key."""
    for key, content in objects.items():
        try:
            yield key, unpack_raw(content)
        except Unreadable as problem:
            remedy = "repair or remove it, or finish the deployment of the release that wrote it"
            log.error("archive.object_left", extra={"key": key, "error": str(problem), "remedy": remedy})


def _by_tenant(lines: Iterable[RawLine]) -> Iterator[tuple[str, bytes]]:
    """Objects of each tenant and hour, with their keys."""
    for (tenant, hour), found in by_hour(lines).items():
        content = pack_raw(found)
        yield object_key(tenant, hour, _BATCH, content), content


def _loads(store: Archive, before: int) -> Iterator[Mapping[str, bytes]]:
    """Objects that begin before an instant (UTC ms), by their keys, as many at a time as memory should hold."""
    load: dict[str, bytes] = {}
    found = [key for key in store.keys(INBOX, after=INBOX, before=f"{INBOX}{stamp(before)}") if span_of_inbox(key)]
    for start in range(0, len(found), _READ):
        part = found[start : start + _READ]
        load |= {key: content for key, content in zip(part, store.get(part), strict=True) if content is not None}
        if sum(map(len, load.values())) >= _MOST:
            yield load
            load = {}
    if load:
        yield load
