"""The figures of the readers of the stream: the historian, and the publisher of events."""

from __future__ import annotations

from minutehand.historian.deliver import DeliveryReport
from minutehand.signals.measurement import Measurement, counted, measured


def of_history(report: DeliveryReport) -> list[Measurement]:
    """Of batches that the historian has delivered."""
    found = counted(
        HistorianChanges=report.changes, HistorianSetAside=report.set_aside, HistorianUnreadable=report.unreadable
    )
    return [*found, measured("HistorianDelay", report.delay)] if report.changes else found


def of_events(report: DeliveryReport) -> list[Measurement]:
    """Of batches whose events were published."""
    return counted(EventChanges=report.changes, EventsSetAside=report.set_aside)
