"""The figures of the readers of the stream: the historian, and the publisher of events."""

from __future__ import annotations

from quarterjack.historian.deliver import DeliveryReport
from quarterjack.historian.follow import FollowReport
from quarterjack.signals.measurement import Measurement, counted, measured


def of_history(report: DeliveryReport) -> list[Measurement]:
    """Of batches that the historian has delivered."""
    found = counted(
        HistorianChanges=report.changes, HistorianSetAside=report.set_aside, HistorianUnreadable=report.unreadable
    )
    return [*found, measured("HistorianDelay", report.delay)] if report.changes else found


def of_history_round(report: FollowReport) -> list[Measurement]:
    """Of one round of a historian's process."""
    return [*counted(HistorianBatches=report.batches, HistorianStopped=report.stopped), *of_history(report)]


def of_events(report: DeliveryReport) -> list[Measurement]:
    """Of batches whose events were published."""
    return counted(EventChanges=report.changes, EventsSetAside=report.set_aside)


def of_events_round(report: FollowReport) -> list[Measurement]:
    """Of one round of the process that publishes events."""
    return [*counted(EventBatches=report.batches, EventsStopped=report.stopped), *of_events(report)]
