"""Entries of a request to EventBridge or SNS that fail: the others are taken, and the answer says which ones were not."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.history.outgoing_event import OutgoingEvent, parse_target
from quarterjack.errors import EventFailed
from quarterjack.historian.events import events_of
from quarterjack.settings import Settings
from quarterjack.sqs import event_sinks
from quarterjack.sqs.event_sinks import EventBridgeSink, SnsSink

from tests.support.builders import NOON, a_run
from tests.support.transitions import life

EVENTS: list[OutgoingEvent] = [event for number in range(23) for event in events_of(life(a_run(NOON + number)))]
BAD = EVENTS[13]


class Client:
    """Answers as the services do: an entry with the bad event fails with a code."""

    code, is_fault = "", False

    def __init__(self, service: str, settings: Settings) -> None:
        self.took = 0

    def call(self, operation: str, **given: Any) -> dict[str, Any]:
        if operation == "put_events":
            entries = [
                {"ErrorCode": self.code} if BAD.id in e["Detail"] else {"EventId": "1"} for e in given["Entries"]
            ]
            self.took += sum("EventId" in entry for entry in entries)
            return {"FailedEntryCount": sum("ErrorCode" in entry for entry in entries), "Entries": entries}
        asked = given["PublishBatchRequestEntries"]
        failed = [
            {"Id": e["Id"], "Code": self.code, "SenderFault": self.is_fault} for e in asked if BAD.id in e["Message"]
        ]
        self.took += len(asked) - len(failed)
        return {"Failed": failed, "Successful": []}


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(event_sinks, "Client", Client)
    return Client


@pytest.mark.parametrize(
    ("target", "code", "is_fault"),
    [
        ("eventbridge:acme", "MalformedDetail", True),
        ("eventbridge:acme", "ThrottlingException", False),
        ("sns:arn:aws:sns:eu-west-1:123456789012:runs", "InvalidParameter", True),
        ("sns:arn:aws:sns:eu-west-1:123456789012:runs", "InternalError", False),
    ],
)
def test_one_entry_that_fails_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, target: str, code: str, is_fault: bool
) -> None:
    monkeypatch.setattr(Client, "code", code)
    monkeypatch.setattr(Client, "is_fault", is_fault)
    make = EventBridgeSink if target.startswith("eventbridge") else SnsSink
    sink = make(parse_target(target), Settings())
    ((name, problem),) = sink.publish(EVENTS).items()
    assert name == BAD.id
    assert isinstance(problem, EventFailed)
    assert problem.is_outage is not is_fault
    assert code in str(problem)
    assert BAD.id in str(problem)
    assert sink._client.took == len(EVENTS) - 1  # type: ignore[attr-defined]
