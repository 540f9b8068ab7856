"""The handlers over services in memory, as Lambda calls them."""

from __future__ import annotations

import copy
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Registry, Scheduler
from quarterjack.testing import ManualClock, Memory

EVENTS = Path(__file__).parents[2] / "unit" / "functions" / "events"


class LambdaContext:
    function_name = "quarterjack-worker"
    memory_limit_in_mb = 256
    invoked_function_arn = "arn:aws:lambda:eu-west-1:123456789012:function:quarterjack-worker"
    log_stream_name = "2026/11/22/[$LATEST]0123456789abcdef0123456789abcdef"
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Stack:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, own_jobs: bool = True) -> None:
        monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Quarterjack")
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "quarterjack-test")
        self._monkeypatch, clock = monkeypatch, ManualClock(datetime.now(UTC))
        self.clock, self.memory = clock, Memory(clock, shards=2)
        self.services = self.memory.connect()
        self.registry = Registry()
        self.scheduler = Scheduler("acme", jobs=self.registry, services=self.services, clock=clock)
        for part in ("ticker", "worker", "undertaker", "auditor", "historian"):
            monkeypatch.setattr(f"functions.{part}.handler.services", lambda: self.services)
        if own_jobs:
            monkeypatch.setattr("functions.worker.handler._jobs", lambda: self.registry)
        _module("worker")._version.cache_clear()  # which a process makes once

    def logged(self) -> io.StringIO:
        """What the functions' own logger writes from now on."""
        log = io.StringIO()
        handler = __import__("functions.observe", fromlist=["logger"]).logger.registered_handler
        self._monkeypatch.setattr(handler, "stream", log)
        return log

    def hidden(self) -> list[int]:
        """Seconds until each message of the queue is visible."""
        return [(message.visible_at - self.clock()) // 1000 for message in self.memory.work]

    def batch(self, deliveries: Any) -> dict[str, Any]:
        event: dict[str, Any] = json.loads((EVENTS / "sqs.json").read_text())
        (record,) = event["Records"]
        event["Records"] = []
        for number, delivery in enumerate(deliveries):
            changed = {"messageId": str(number), "body": delivery.body, "receiptHandle": delivery.receipt}
            event["Records"].append(copy.deepcopy(record) | changed)
        return event


def _module(part: str) -> Any:
    return __import__(f"functions.{part}.handler", fromlist=["handler"])


def invoke(part: str, event: dict[str, Any]) -> Any:
    return _module(part).handler(event, LambdaContext())


def metric_lines(written: str) -> list[dict[str, Any]]:
    """The lines of CloudWatch's embedded format in what a function wrote."""
    return [json.loads(line) for line in written.splitlines() if '"_aws"' in line]
