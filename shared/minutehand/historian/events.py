"""Publish ends of runs as events, at least once each, to the one target that is configured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minutehand.domain.history.run_change import RunChange
from minutehand.domain.history.run_event import RunEvent, event_of
from minutehand.historian.context import HistorianContext
from minutehand.state.history.run_changes import transition_of


def publish_events(changes: Sequence[RunChange], context: HistorianContext) -> None:
    """Send the events of a batch. Raises what the sink raises: the batch is then delivered again, and its events are sent again."""
    sink = context.services.events
    if sink is None:
        return
    events = [event for event in events_of(changes) if event.type in sink.types]
    if events:
        sink.publish(events)


def events_of(changes: Iterable[RunChange]) -> Iterable[RunEvent]:
    """The events of changes, in their order."""
    for change in changes:
        line = transition_of(change)
        event = None if line is None else event_of(line)
        if event is not None:
            yield event
