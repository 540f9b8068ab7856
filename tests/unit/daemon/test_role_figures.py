"""Ticker and undertaker as processes write the figures that their functions write."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from minutehand import Registry, Retry, Scheduler
from minutehand.clock import system_clock
from minutehand.daemon import roles
from minutehand.daemon.roles import run_ticker, run_undertaker
from minutehand.settings import Settings
from minutehand.signals.sinks import EmbeddedLines
from minutehand.testing import Memory
from minutehand.testing.process import make_worker, work_off
from minutehand.worker.delivery.receive import receive
from minutehand.worker.delivery.visibility import HIDDEN


class Lines(EmbeddedLines):
    def __init__(self, stop: threading.Event) -> None:
        self.written = list[dict[str, Any]]()
        super().__init__("it", lambda text: self.written.append(json.loads(text)), system_clock)
        self._stop = stop

    def flush(self) -> None:
        super().flush()
        self._stop.set()


def test_a_ticker_writes_each_tick() -> None:
    memory, stop = Memory(system_clock), threading.Event()
    jobs = Registry()
    jobs.job("note")(lambda ctx, payload: None)
    services = memory.connect()
    Scheduler("acme", jobs=jobs, services=services).create_schedule("s", "note", "rate(1 minute)")
    lines = Lines(stop)
    run_ticker(services, stop=stop, period=0.1, sinks=[lines])
    total = lines.written[0]
    assert (total["Ticks"], total["service"]) == ([1], "it")
    assert "BehindBy" in total


def test_an_undertaker_writes_its_burials(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, stop, jobs = Memory(system_clock), threading.Event(), Registry()
    jobs.job("bad", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    services = memory.connect()
    Scheduler("acme", jobs=jobs, services=services).submit("bad")
    worker = make_worker(services, jobs, system_clock, wait=lambda seconds: None)
    work_off(worker, receive(worker, services.work.receive(most=1, wait=0, visibility=HIDDEN)))
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    lines = Lines(stop)
    run_undertaker(Settings(metric_jobs="bad"), stop=stop, sinks=[lines])
    assert [(line["Dead"], line.get("job")) for line in lines.written] == [([1], None), ([1], "bad")]
