"""What the functions really write and send: metric lines, message groups, trace headers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Retry
from quarterjack.domain.times import MINUTE
from quarterjack.fires.claim import TRACED
from quarterjack.job_packages import app_version_of
from quarterjack.ports.queues import OutgoingMessage
from quarterjack.signals.catalogue import METRICS
from quarterjack.signals.measurement import Emitter
from quarterjack.sqs.queues import SqsWorkQueue
from quarterjack.testing import ManualClock
from quarterjack.ticker.tick import MEASURED
from quarterjack.worker.delivery.visibility import HIDDEN

from tests.support.builders import a_message
from tests.support.scenes.handlers import EVENTS, Stack, invoke, metric_lines

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
NOT_METRICS = {"_aws", "service", "job", "delivery", *(name for each in METRICS.values() for name in each.names)}


def _ticks(stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of a tick in a minute in which gauges are measured, four minutes from now at the earliest."""
    now = int(datetime.now(UTC).timestamp() * 1_000)
    due = (now // MINUTE // MEASURED + 2) * MEASURED
    later = ManualClock(datetime.fromtimestamp(due * 60 + 1, UTC))
    monkeypatch.setattr("functions.ticker.handler.system_clock", later)
    capsys.readouterr()
    invoke("ticker", json.loads((EVENTS / "scheduler.json").read_text()))
    return metric_lines(capsys.readouterr().out)


def test_a_tick_writes_its_lags_and_gauges(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stack = Stack(monkeypatch)
    stack.registry.job("note")(lambda ctx, payload: None)
    stack.scheduler.create_schedule("s", "note", "rate(1 minute)")
    lines = _ticks(stack, monkeypatch, capsys)
    (total,) = (line for line in lines if "Ticks" in line)
    assert len(total["SchedulingLag"]) == sum(total["Sent"]) > 0
    assert max(total["SchedulingLag"]) > 60_000, "its first fires are minutes late"
    assert 0 < sum(total["SentLate"]) < sum(total["Sent"]), "those of the look-ahead were in time"
    gauges = [line for line in lines if "QueueDepth" in line or "EntryAge" in line]
    assert {("QueueDepth" in line, line["queue"]) for line in gauges} == {(True, "default"), (False, "default")}
    assert (total["ReadyRuns"], total["ExpiredLeases"]) != ([], [])
    assert all(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]] for line in lines)


def test_a_batch_writes_its_lags_waits_and_durations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(monkeypatch)
    stack.registry.job("good")(lambda ctx, payload: None)
    stack.registry.job("bad", retry=Retry(max_attempts=2))(lambda ctx, payload: 1 / 0)
    for job in ("good", "good", "bad"):
        stack.scheduler.submit(job)
    capsys.readouterr()
    invoke("worker", stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN)))
    failing, line = sorted(metric_lines(capsys.readouterr().out), key=len)
    assert {"AttemptsFailed": [1.0], "version": app_version_of(stack.registry, None)}.items() <= failing.items()
    assert {name: len(line[name]) for name in ("StartLag", "QueueWait", "RunDuration")} == {
        "StartLag": 3,
        "QueueWait": 3,
        "RunDuration": 3,
    }
    counts = {"Started": 3, "FirstStarts": 3, "AttemptsEnded": 3, "Succeeded": 2, "Retried": 1}
    assert {name: sum(line[name]) for name in counts} == counts
    units = {each["Name"]: each["Unit"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert units == {name: METRICS[name].unit for name in units}


def test_functions_write_no_metric_that_the_catalogue_lacks_or_gives_to_another_role(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack(monkeypatch)
    stack.registry.job("good")(lambda ctx, payload: None)
    stack.registry.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    stack.scheduler.create_schedule("s", "good", "rate(1 minute)")
    written = {Emitter.TICKER: _ticks(stack, monkeypatch, capsys)}
    for job in ("good", "bad"):
        stack.scheduler.submit(job)
    batch = stack.batch(stack.services.work.receive(most=10, wait=0, visibility=HIDDEN))
    batch["Records"].append(batch["Records"][0] | {"messageId": "odd", "body": "garbage"})
    calls: list[tuple[Emitter, str, Any]] = [(Emitter.WORKER, "worker", batch), (Emitter.AUDITOR, "auditor", {})]
    for role, part, event in calls:
        invoke(part, event)
        written[role] = metric_lines(capsys.readouterr().out)
    invoke("undertaker", stack.batch(stack.services.dead.receive(most=10, wait=0)))
    written[Emitter.UNDERTAKER] = metric_lines(capsys.readouterr().out)
    for role, lines in written.items():
        names = {name.partition(".")[0] for line in lines for name in line} - NOT_METRICS
        assert names
        assert {name for name in names if role not in METRICS[name].roles} == set()


def test_one_run_in_twenty_carries_the_trace_of_its_tick_to_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", TRACE)
    stack = Stack(monkeypatch)
    stack.registry.job("note")(lambda ctx, payload: None)
    for number in range(TRACED * 5):
        stack.scheduler.create_schedule(f"s{number}", "note", "rate(1 minute)")
    later = ManualClock(datetime.now(UTC) + timedelta(minutes=1))
    monkeypatch.setattr("functions.ticker.handler.system_clock", later)
    invoke("ticker", {})
    messages = stack.memory.messages()
    traced = [message for message in messages if message.trace is not None]
    assert 0 < len(traced) < len(messages) / 4
    assert {message.trace for message in traced} == {TRACE}


class _Client:
    """Keeps the entries of SendMessageBatch."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def call(self, operation: str, **given: Any) -> dict[str, Any]:
        return {"QueueUrl": f"https://sqs.example/{given['QueueName']}"}

    def call_once(self, operation: str, **given: Any) -> dict[str, Any]:
        assert operation == "send_message_batch"
        self.entries += given["Entries"]
        return {"Successful": [{"Id": entry["Id"]} for entry in given["Entries"]]}

    def rounds(self, backoff: object) -> range:
        return range(1)


def test_sqs_is_sent_the_tenant_as_group_and_the_trace_as_header() -> None:
    client: Any = _Client()
    queue = SqsWorkQueue(client, "work", backoff=None)  # type: ignore[arg-type]
    plain = a_message()
    assert queue.send([OutgoingMessage(a_message(trace=TRACE), 0), OutgoingMessage(plain, 3)]) == [True, True]
    traced, other = client.entries
    assert traced["MessageGroupId"] == other["MessageGroupId"] == plain.run.tenant
    assert traced["MessageSystemAttributes"] == {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    assert "MessageSystemAttributes" not in other
