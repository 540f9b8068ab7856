"""The historian's handler with events as Lambda gives them: records of the stream, in JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack.dynamodb.items import to_item
from quarterjack.errors import Unavailable
from quarterjack.historian import deliver
from quarterjack.historian.progress import changes_set_aside
from quarterjack.ports.services import Services
from quarterjack.stores.rows import run_row
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import NOON, a_run
from tests.support.consumers import Consumer

AT = datetime(2036, 5, 14, tzinfo=UTC)


class Context:
    function_name = "quarterjack-historian"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:quarterjack-historian"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(AT)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> Services:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Quarterjack")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "quarterjack-historian")
    found = Memory(clock).connect()
    monkeypatch.setattr("functions.historian.handler.services", lambda: found)
    monkeypatch.setattr("functions.historian.handler.system_clock", clock)
    return found


def event(*numbers: int) -> dict[str, Any]:
    """An event with the creation of a run for each number, as Lambda's JSON has it."""
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/quarterjack-runs/stream/2026-01-01T00:00:00.000"
    return {"Records": [record(number) | {"eventSourceARN": arn, "eventSource": "aws:dynamodb"} for number in numbers]}


def record(number: int) -> dict[str, Any]:
    image = to_item(run_row(a_run(NOON + number)))
    return {
        "eventID": f"id{number}",
        "eventName": "INSERT",
        "eventVersion": "1.1",
        "awsRegion": "eu-west-1",
        "dynamodb": {
            "ApproximateCreationDateTime": AT.timestamp() - 7,
            "Keys": {name: image[name] for name in ("owner", "key")},
            "NewImage": image,
            "SequenceNumber": f"{number:021d}",
            "SizeBytes": 400,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    }


def invoke(given: dict[str, Any]) -> Any:
    module = __import__("functions.historian.handler", fromlist=["handler"])
    return module.handler(given, Context())


def metrics(text: str) -> dict[str, Any]:
    (line,) = (json.loads(line) for line in text.splitlines() if '"_aws"' in line)
    return {name: value[0] for name, value in line.items() if isinstance(value, list)}


def test_a_batch_is_delivered_and_counted(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = Consumer(lambda change: ValueError("odd") if change.sequence == 2 else None)
    monkeypatch.setattr(deliver, "CONSUMERS", (consumer,))
    given = event(1, 2, 3)
    given["Records"].append({"dynamodb": {"Keys": {}}})
    assert invoke(given) == {"changes": 3, "set_aside": 1}
    assert consumer.handled == [1, 3]
    assert metrics(capsys.readouterr().out) == {
        "HistorianBatches": 1,
        "HistorianChanges": 3,
        "HistorianSetAside": 1,
        "HistorianUnreadable": 1,
        "HistorianDelay": 7_000,
    }
    assert [each["run"] for each in changes_set_aside(services)] == [str(a_run(NOON + 2).ref)]


def test_an_outage_is_waited_for_and_in_the_end_the_batch_comes_again(
    services: Services, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        clock.reach(clock() + int(seconds * 1_000))

    object.__setattr__(services, "wait", wait)
    failures = iter([Unavailable("no answer")] * 3)
    consumer = Consumer(lambda change: next(failures, None))
    monkeypatch.setattr(deliver, "CONSUMERS", (consumer,))
    assert invoke(event(1))["changes"] == 1
    assert waited == [1.0, 2.0, 4.0]
    monkeypatch.setattr(deliver, "CONSUMERS", (Consumer(lambda change: Unavailable("still no answer")),))
    waited.clear()
    with pytest.raises(Unavailable, match="still no answer"):
        invoke(event(2))
    assert 65 <= sum(waited) <= 80  # of the function's two minutes
    assert max(waited) == deliver._LONGEST_WAIT


def test_without_consumers_or_changes_nothing_is_written(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deliver, "CONSUMERS", ())
    assert invoke({"Records": []}) == {"changes": 0, "set_aside": 0}
    assert list(changes_set_aside(services)) == []
