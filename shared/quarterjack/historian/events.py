"""Publish ends of runs and incidents of schedules as events, at least once each, to the one target that is configured.

One event that the receiver does not take must not hold up those of all tenants, and an outage of the receiver must lose none. What
tells the two apart is whether the receiver takes other events.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from quarterjack.domain.history.outgoing_event import OutgoingEvent, event_of, event_of_notice, pipeline_event_of
from quarterjack.domain.history.run_change import NoticeChange, StreamChange
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.errors import EventFailed, EventRefused, Unavailable
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.progress import failing_since, set_aside
from quarterjack.ports.receivers import EventSink
from quarterjack.state.history.run_changes import transition_of

log = logging.getLogger(__name__)

MOST = 10  # events that may fail at a time while the receiver takes none: with more of them it is an outage
TAKING = 15 * MINUTE  # for which an event is tried again while the receiver takes others of its batch
SILENT = HOUR  # the same, while it takes none
_PART = 20  # events that are sent before the first look at what has failed
_WAITS = (1.0, 4.0)  # seconds before events that failed are sent again alone, while the receiver takes others
_CONSUMER = "events"

_Failed = dict[str, EventFailed | EventRefused]  # by the events' ids


def publish_events(changes: Sequence[StreamChange], context: HistorianContext) -> int:
    """Send the events of a batch; returns how many were set aside.

    Raises Unavailable and Misconfigured: the batch is then delivered again, and its events are sent again.
    """
    sink = context.services.events
    if sink is None:
        return 0
    wanted = [(change, event) for change, event in _with_events(changes) if event.type in sink.types]
    failed = _send([event for _, event in wanted], sink, context)
    if not failed:
        return 0
    changes_of = {event.id: change for change, event in wanted if event.id in failed}
    since = {
        name: failing_since(changes_of[name], _CONSUMER, context)
        for name, problem in failed.items()
        if isinstance(problem, EventFailed)
    }
    patience = TAKING if len(failed) < len(wanted) else SILENT
    for name, at in since.items():
        if context.now - at < patience:
            raise Unavailable(f"{len(failed)} of {len(wanted)} events were not taken: {failed[name]}")
    for name, problem in failed.items():
        fields = {"run_id": str(changes_of[name].ref), "consumer": _CONSUMER, "error": str(problem)}
        log.error("historian.set_aside", extra=fields)
        set_aside(changes_of[name], _CONSUMER, problem, context)
    return len(failed)


def _send(events: Sequence[OutgoingEvent], sink: EventSink, context: HistorianContext) -> _Failed:
    """What was not taken. Raises Unavailable where the receiver takes nothing at all."""
    failed: _Failed = {}
    for start in range(0, len(events), _PART):
        failed |= sink.publish(events[start : start + _PART])
        count = min(start + _PART, len(events))
        is_end = count == len(events)
        if len(failed) == count and (any(map(_is_outage, failed.values())) or (is_end and count > MOST)):
            raise Unavailable(f"none of {count} events was taken: {next(iter(failed.values()))}")
    if 0 < len(failed) < len(events):
        failed = _send_again([event for event in events if event.id in failed], failed, sink, context)
    return failed


def _send_again(
    events: Sequence[OutgoingEvent], failed: _Failed, sink: EventSink, context: HistorianContext
) -> _Failed:
    """What was not taken again, while the receiver took other events."""
    for wait in _WAITS:
        again = [event for event in events if isinstance(failed.get(event.id), EventFailed)]
        if not 0 < len(again) <= MOST:
            break
        context.services.wait(wait)
        failed = {name: problem for name, problem in failed.items() if isinstance(problem, EventRefused)}
        failed |= sink.publish(again)
    return failed


def _is_outage(problem: EventFailed | EventRefused) -> bool:
    return isinstance(problem, EventFailed) and problem.is_outage


def events_of(changes: Iterable[StreamChange]) -> Iterator[OutgoingEvent]:
    """The events of changes, in their order."""
    return (event for _, event in _with_events(changes))


def _with_events(changes: Iterable[StreamChange]) -> Iterator[tuple[StreamChange, OutgoingEvent]]:
    for change in changes:
        yield from ((change, event) for event in _events_of(change) if event is not None)


def _events_of(change: StreamChange) -> Sequence[OutgoingEvent | None]:
    if isinstance(change, NoticeChange):
        return (event_of_notice(change.notice),)
    line = transition_of(change)
    return () if line is None else (event_of(line), pipeline_event_of(line))
