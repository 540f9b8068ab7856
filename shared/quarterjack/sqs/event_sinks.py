"""Events to an EventBridge bus or an SNS topic, ten a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from quarterjack.aws import Client
from quarterjack.domain.history.outgoing_event import SOURCE, EventTarget, OutgoingEvent
from quarterjack.errors import EventFailed
from quarterjack.ports.receivers import FailedEvents
from quarterjack.settings import Settings
from quarterjack.values import replace

_MOST = 10  # events of one request, of either service
_FIFO = ".fifo"
_OF_EVENT = ("InvalidArgument", "MalformedDetail")  # codes of an entry of EventBridge; any other is about all events


class EventBridgeSink:
    """A bus, by its name or ARN."""

    def __init__(self, target: EventTarget, settings: Settings) -> None:
        self._bus, self.types = target.address, target.types
        self._client = Client("events", settings)

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        failed: dict[str, EventFailed] = {}
        for part in _parts(events):
            answer = self._client.call("put_events", Entries=[self._entry(event) for event in part])
            if answer.get("FailedEntryCount"):
                for event, entry in zip(part, answer["Entries"], strict=True):
                    if code := entry.get("ErrorCode"):
                        is_outage = code not in _OF_EVENT
                        failed[event.id] = EventFailed(f"put_events: event {event.id}: {code}", is_outage=is_outage)
        return failed

    def _entry(self, event: OutgoingEvent) -> Mapping[str, Any]:
        return {
            "Source": SOURCE,
            "DetailType": event.type,
            "Detail": event.encode(),
            "EventBusName": self._bus,
            "Time": datetime.fromisoformat(event.at),
        }


class SnsSink:
    """A topic, by its ARN. A FIFO topic keeps the events of a tenant in order, and drops repetitions within five minutes."""

    def __init__(self, target: EventTarget, settings: Settings) -> None:
        self._topic, self.types = target.address, target.types
        self._client = Client("sns", replace(settings, region=target.address.split(":")[3]))

    def publish(self, events: Sequence[OutgoingEvent]) -> FailedEvents:
        failed: dict[str, EventFailed] = {}
        for part in _parts(events):
            entries = [self._entry(str(place), event) for place, event in enumerate(part)]
            answer = self._client.call("publish_batch", TopicArn=self._topic, PublishBatchRequestEntries=entries)
            for entry in answer.get("Failed", ()):
                name = part[int(entry["Id"])].id
                failed[name] = EventFailed(
                    f"publish_batch: event {name}: {entry.get('Code')}", is_outage=not entry.get("SenderFault")
                )
        return failed

    def _entry(self, place: str, event: OutgoingEvent) -> Mapping[str, Any]:
        fields = {"id": event.id, "type": event.type, "tenant": event.tenant, "job": event.job}
        if event.schedule is not None:
            fields["schedule"] = event.schedule
        attributes = {
            name: {"DataType": "String", "StringValue": word} for name, word in fields.items()
        }  # for filters of subscriptions
        order = {"MessageGroupId": event.tenant, "MessageDeduplicationId": event.id} if self._is_fifo else {}
        return {"Id": place, "Message": event.encode(), "MessageAttributes": attributes, **order}

    @property
    def _is_fifo(self) -> bool:
        return self._topic.endswith(_FIFO)


def _parts(events: Sequence[OutgoingEvent]) -> list[Sequence[OutgoingEvent]]:
    return [events[start : start + _MOST] for start in range(0, len(events), _MOST)]
