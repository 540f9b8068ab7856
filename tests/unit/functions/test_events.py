"""The function that publishes events, with batches as Lambda gives them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack.domain.history.outgoing_event import EVENT_TYPES, OutgoingEvent
from quarterjack.domain.notice import BreakerNotice, notice_key
from quarterjack.dynamodb.items import to_item
from quarterjack.dynamodb.run_stream import parse_records
from quarterjack.errors import EventFailed, Unavailable
from quarterjack.historian.events import events_of
from quarterjack.ports.receivers import FailedEvents
from quarterjack.stores.records import Record, record_row
from quarterjack.stores.rows import present
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import a_notice


class Context:
    function_name = "quarterjack-events"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:quarterjack-events"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"


def invoke(event: dict[str, Any]) -> Any:
    return module().handler(event, Context())


def module() -> Any:
    return __import__(
        "functions.events.handler", fromlist=["handler"]
    )  # Powertools reads the environment as it is imported


class Sink:
    types = EVENT_TYPES

    def __init__(self) -> None:
        self.sent: list[OutgoingEvent] = []
        self.failing = False

    def publish(self, events: Any) -> FailedEvents:
        if self.failing:
            return {event.id: EventFailed("webhook: answered 503", is_outage=True) for event in events}
        self.sent += events
        return {}


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Sink:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Quarterjack")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "quarterjack-test")
    made = Sink()
    services = replace(Memory(ManualClock(datetime.now(UTC))).connect(), events=made)
    monkeypatch.setattr("functions.events.handler._publishing", lambda: services)
    return made


def records(state: str) -> dict[str, Any]:
    key = {"owner": {"S": "acme/report"}, "key": {"S": "000002094496020000"[-15:]}}
    numbers = {name: {"N": "1"} for name in ("rev", "due", "not_before", "fence", "attempt")}
    old = key | numbers | {"state": {"S": "RUNNING"}, "job": {"S": "report"}}
    content = {"Keys": key, "SequenceNumber": "100", "ApproximateCreationDateTime": 2_094_496_020}
    images = {"OldImage": old, "NewImage": old | {"state": {"S": state}}}
    return {"Records": [{"eventName": "MODIFY", "dynamodb": content | images}]}


def test_ends_are_published(sink: Sink) -> None:
    assert invoke(records("DEAD")) == {"changes": 1, "set_aside": 0}
    assert [event.type for event in sink.sent] == ["run.dead"]
    assert invoke(records("SKIPPED")) == {"changes": 1, "set_aside": 0}
    assert len(sink.sent) == 1


def put_of(owner: str, token: str, body: dict[str, Any]) -> dict[str, Any]:
    """The stream's record of a notice that was put."""
    row = present(record_row(Record(owner=owner, key=notice_key(token), version=1, body=body)))
    content = {"SequenceNumber": "101", "ApproximateCreationDateTime": 2_094_496_020, "NewImage": to_item(row)}
    content["Keys"] = to_item({name: row[name] for name in ("owner", "key")})
    return {"eventName": "INSERT", "dynamodb": content}


def test_a_circuit_breaker_is_published() -> None:
    notice = BreakerNotice(tenant="acme", job="*", opened_at="2036-05-15T08:27:00.000Z")
    closed = replace(notice, closed_at="2036-05-15T09:27:00.000Z", actor="ann")
    assert notice.token != closed.token
    bodies = [{"breaker": asdict(one)} for one in (notice, closed)]
    puts = [put_of("acme/~breakers", one.token, body) for one, body in zip((notice, closed), bodies, strict=True)]
    forged = put_of("other/~breakers", notice.token, bodies[0])
    odd = put_of("acme/~breakers", notice.token, {"breaker": {"tenant": "acme"}})
    parsed = parse_records([*puts, forged, odd])
    assert [change.notice for change in parsed.notices] == [notice, closed]
    assert parsed.unreadable == 2
    opened, ended = events_of(parsed.notices)
    assert (opened.type, opened.at, opened.about) == ("breaker.opened", notice.opened_at, "acme/~breakers")
    assert (ended.type, ended.at, ended.schedule) == ("breaker.closed", closed.closed_at, None)
    assert json.loads(ended.encode())["data"] == asdict(closed)


def test_an_incident_is_published(sink: Sink) -> None:
    notice = a_notice()
    put = put_of(notice.owner, notice.token, {"notice": notice.document()})
    assert invoke({"Records": [put, put, *records("LOST")["Records"]]}) == {"changes": 3, "set_aside": 0}
    assert [event.type for event in sink.sent] == ["run.lost", "schedule.failing", "schedule.failing"]
    assert len({event.id for event in sink.sent}) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_receiver_that_does_not_answer_fails_the_batch(sink: Sink) -> None:
    sink.failing = True
    with pytest.raises(Unavailable):
        invoke(records("DEAD"))
    sink.failing = False
    invoke(records("DEAD"))
    assert len(sink.sent) == 1


def test_without_a_target_the_services_publish_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(ManualClock(datetime.now(UTC)))
    monkeypatch.setattr(module(), "services", memory.connect)
    monkeypatch.delenv("QUARTERJACK_EVENTS", raising=False)
    module()._publishing.cache_clear()
    assert module()._publishing().events is None
    module()._publishing.cache_clear()
