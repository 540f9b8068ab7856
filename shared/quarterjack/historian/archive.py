"""Write every transition of a run to the archive, once an hour compact the archive's inbox, and read a tenant's transitions.

    batch of the stream ─► object of a tenant and hour          a busy tenant
                       └─► object in the inbox ─► compaction ─► object of a tenant and hour      all other tenants

A bucket bills each object that is written. So the transitions of small tenants of one batch share an object in the inbox. When their hour
is over, the compaction writes them to an object of each tenant and then removes the object of the inbox.

A reader gets one tenant's transitions in order of time, hour by hour, without duplicates.

The compaction copies lines byte for byte, because a later release may have written them during a deployment. It leaves an object in the
inbox that is damaged, or that has a line without tenant or time.

| the compaction dies | then |
|---|---|
| before an object of the inbox is removed | its transitions are stored twice, under the same key or another one; readers drop duplicates |
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from quarterjack.domain.history.archive_objects import (
    AFTER_ALL,
    INBOX,
    TENANTS,
    RawLine,
    by_hour,
    hour_of_key,
    hour_prefix,
    hours_of,
    inbox_key,
    keys_between,
    object_key,
    pack,
    pack_raw,
    span_of_inbox,
    tenant_of_key,
    tenant_prefix,
    unpack,
    unpack_raw,
)
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.history.transition_line import TransitionKind, TransitionLine
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import DAY, HOUR, MINUTE, SECOND, stamp
from quarterjack.errors import Misconfigured, Unavailable, Unreadable
from quarterjack.historian.context import HistorianContext
from quarterjack.ports.buckets import Archive
from quarterjack.ports.services import Clock, Services
from quarterjack.state.history.run_changes import transition_of
from quarterjack.values import replace

log = logging.getLogger(__name__)

BUSY = 200  # transitions of one tenant and hour in a batch, from which on they have an object of their own

Hours = Mapping[tuple[str, int], list[TransitionLine]]  # by tenant and beginning of the hour (UTC ms)


def archive(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Store the transitions of a batch. Raises Unavailable: call it again with the same batch."""
    store = context.services.archive
    if store.is_on:
        lines = (line for change in changes if (line := transition_of(change)) is not None)
        store.put(dict(_objects(by_hour(lines), context.batch)))


def archive_found(runs: Iterable[RunRow], services: Services) -> None:
    """Archive the states in which runs were found in the ledger, because the stream did not bring how they came there.

    It may be repeated: an equal state has an equal line. Raises Unavailable.
    """
    store = services.archive
    if store.is_on:
        lines = [line for run in runs if (line := transition_of(_found(run))) is not None]
        store.put(dict(_objects(by_hour(replace(line, kind=TransitionKind.REBUILT) for line in lines), "rebuilt")))


def _found(run: RunRow) -> RunChange:
    """As if the stream had brought the row, before everything that it will bring of it."""
    at = run.ended_at or run.leased_at or run.created_at
    return RunChange(ref=run.ref, sequence=0, at=at // SECOND * SECOND, old=None, new=run)


def _objects(hours: Hours, batch: str) -> Iterator[tuple[str, bytes]]:
    """The objects of a batch, each with its key."""
    small: dict[int, list[TransitionLine]] = defaultdict(
        list
    )  # by day: a reader of some hours should not meet those of months
    for (tenant, hour), lines in hours.items():
        if len(lines) < BUSY:
            small[hour // DAY] += lines
        else:
            content = pack(lines)
            yield object_key(tenant, hour, batch, content), content
    for lines in small.values():
        content, instants = pack(lines), [line.at for line in lines]
        yield inbox_key(min(instants), max(instants), batch, content), content


LATE = 5 * MINUTE  # after the end of an hour: most of its transitions have been delivered
_READ = 50  # objects of one request's round
_MOST = 4 * 2**20  # compressed bytes that are in memory at a time: some 80,000 transitions
_BATCH = "compacted"


@dataclass(kw_only=True)
class CompactionReport:
    """Counts of one compaction."""

    removed: int = 0  # objects of the inbox whose lines were moved
    unreadable: int = 0  # objects that were left in the inbox


def compact_archive(store: Archive, *, clock: Clock, budget: int) -> CompactionReport:
    """Move transitions of hours that are over out of the inbox, for at most about ``budget`` ms.

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


def archived_tenants(store: Archive, since: int, until: int) -> set[str]:
    """The tenants that may have transitions in ``[since, until)``: one listing for each that ever had one. Raises Unavailable."""
    inbox = (content for key in _inbox(store, since, until) for content in store.get([key]) if content is not None)
    found = {line.tenant for content in inbox for line in unpack(content)}
    after = TENANTS
    while (key := next(iter(store.keys(TENANTS, after=after, before=f"{TENANTS}{AFTER_ALL}")), None)) is not None:
        tenant = tenant_of_key(key)
        found.add(tenant)
        after = tenant_prefix(tenant) + AFTER_ALL
    return found


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
