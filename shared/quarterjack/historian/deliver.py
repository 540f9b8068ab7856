"""Deliver one batch of changes to each consumer of a reader.

    deliver ─► drop changes of erased tenants ─► for each consumer:  consume ─► on an error: halve ─► set one change aside

The stream has two readers, each with a position of its own: a receiver of events that does not answer must not delay the history. A batch
may be delivered again, so the effects of each consumer are repeatable.

| a consumer raises | then |
|---|---|
| Unavailable or Misconfigured | the batch stops, and is delivered again later as a whole |
| another error | the batch is halved until one change is left that fails; it is set aside for this consumer alone |
| another error for more than ten changes of a batch | the consumer has a defect: the batch stops |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar
from zlib import crc32

from quarterjack.domain.history.run_change import NoticeChange, RunChange, StreamChange
from quarterjack.domain.times import SECOND
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian.archive import archive
from quarterjack.historian.context import Consumer, EventConsumer, HistorianContext
from quarterjack.historian.events import publish_events
from quarterjack.historian.pages import write_pages
from quarterjack.historian.progress import set_aside
from quarterjack.ports.services import Clock, Services
from quarterjack.values import replace

log = logging.getLogger(__name__)

CONSUMERS: tuple[Consumer, ...] = (write_pages, archive)  # of changes of runs, in this order
EVENT_CONSUMERS: tuple[EventConsumer, ...] = (publish_events,)  # of notices, too


class StreamReader(StrEnum):
    """The readers of the stream."""

    HISTORY = "history"  # pages and archive
    EVENTS = "events"  # events, where a target is configured


MOST_ASIDE = 10  # changes that one consumer may set aside of one batch
_LONGEST_WAIT = 15.0  # seconds between two attempts

_Change = TypeVar("_Change", bound=StreamChange)


@dataclass(kw_only=True)
class DeliveryReport:
    """What became of one batch, or of several."""

    batches: int = 0
    changes: int = 0
    set_aside: int = 0
    unreadable: int = 0  # records that could not be decoded
    delay: int = 0  # ms from the oldest change to its delivery

    def add(self, other: DeliveryReport) -> None:
        """Add the counts of another report."""
        self.delay = max(self.delay, other.delay)
        for name in ("batches", "changes", "set_aside", "unreadable"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def batch_name(changes: Sequence[StreamChange]) -> str:
    """A name that a batch has again when it is delivered again. Not every reader of a stream knows the shard, but its first run does."""
    first = changes[0]
    return f"{first.sequence:040d}-{crc32(str(first.ref).encode()):08x}"


def deliver(
    changes: Sequence[RunChange],
    services: Services,
    now: int,
    *,
    notices: Sequence[NoticeChange] = (),
    unreadable: int = 0,
    reader: StreamReader = StreamReader.HISTORY,
) -> DeliveryReport:
    """Deliver a batch to the consumers of a reader, at ``now`` (UTC ms); notices are events only. Raises what stops it."""
    if reader is StreamReader.EVENTS:
        both: list[StreamChange] = [*changes, *notices]
        report = _deliver_all(EVENT_CONSUMERS, both, services, now)
    else:
        report = _deliver_all(CONSUMERS, changes, services, now)
    report.unreadable = unreadable
    return report


def _deliver_all(
    consumers: Sequence[Callable[[Sequence[_Change], HistorianContext], int | None]],
    changes: Sequence[_Change],
    services: Services,
    now: int,
) -> DeliveryReport:
    report = DeliveryReport()
    if changes:
        context = HistorianContext(services=services, now=now, batch=batch_name(changes))
        left = _without_erased_tenants(changes, services, now)
        for consume in consumers if left else ():
            report.set_aside += _feed(consume, left, context, room=MOST_ASIDE)
        report.batches, report.changes = 1, len(changes)
        report.delay = max(0, now - min(change.at for change in changes))
    return report


def _without_erased_tenants(changes: Sequence[_Change], services: Services, now: int) -> Sequence[_Change]:
    """The changes without those of erased tenants: the removal of their rows is no history. Raises Unavailable."""
    gone = services.erasures.gone(now)
    return [change for change in changes if change.ref.tenant not in gone] if gone else changes


def deliver_patiently(
    changes: Sequence[RunChange], services: Services, clock: Clock, *, budget: int, unreadable: int = 0
) -> DeliveryReport:
    """As ``deliver``, and again where a service does not answer or is not configured, for about ``budget`` ms."""
    until, wait = clock() + budget, 1.0
    while True:
        try:
            return deliver(changes, services, clock(), unreadable=unreadable)
        except (Misconfigured, Unavailable) as problem:
            if clock() + wait * SECOND > until:
                raise
            log.warning("historian.stopped", extra={"error": str(problem)})
        services.wait(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


def _feed(
    consume: Callable[[Sequence[_Change], HistorianContext], int | None],
    changes: Sequence[_Change],
    context: HistorianContext,
    *,
    room: int,
) -> int:
    """Give changes to a consumer, in halves after an error. Returns how many were set aside, at most ``room``."""
    try:
        return consume(changes, context) or 0
    except (Misconfigured, Unavailable):
        raise
    except Exception as problem:
        if len(changes) == 1:
            if not room:
                raise
            log.exception("historian.set_aside", extra={"run_id": str(changes[0].ref), "consumer": _name(consume)})
            set_aside(changes[0], _name(consume), problem, context)
            return 1
        log.warning("historian.halved", extra={"changes": len(changes), "error": repr(problem)})
    middle, count = len(changes) // 2, 0
    for half in (changes[:middle], changes[middle:]):
        named = replace(context, batch=batch_name(half))
        count += _feed(consume, half, named, room=room - count)
    return count


def _name(consume: Callable[..., object]) -> str:
    """The module of a consumer, such as ``pages``."""
    return consume.__module__.rpartition(".")[2]
