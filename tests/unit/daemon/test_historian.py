"""The historian as a process: it follows the stream until it is told to stop, whatever stops a round."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

import pytest
from quarterjack.daemon import roles
from quarterjack.daemon.roles import run_historian
from quarterjack.errors import Misconfigured, Unavailable
from quarterjack.historian import deliver as delivery
from quarterjack.historian.follow import FollowReport
from quarterjack.settings import Settings
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import NOON, a_run
from tests.support.consumers import Consumer


def test_it_delivers_rounds_and_goes_on_after_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory, stop, reports = Memory(ManualClock(datetime(2036, 5, 14, tzinfo=UTC))), threading.Event(), []
    errors: list[Exception | None] = [Unavailable("no answer"), Misconfigured("no bucket"), None, None]
    consumer = Consumer(lambda change: errors.pop(0))
    monkeypatch.setattr(delivery, "CONSUMERS", (consumer,))
    services = memory.connect()
    services.ledger.claim([a_run()])
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    monkeypatch.setattr(stop, "wait", lambda seconds: False)

    def reported(report: FollowReport) -> None:
        reports.append(report.changes)
        if len(reports) == 1:
            services.ledger.claim([a_run(NOON + 1)])
        if len(reports) == 3:
            stop.set()

    with caplog.at_level(logging.INFO):
        run_historian(Settings(), stop=stop, report=reported)
    assert reports == [1, 1, 0]
    assert len(consumer.handled) == 2
    events = [record.message for record in caplog.records]
    assert events == ["historian.stopped", "historian.stopped", "historian.done", "historian.done"]


def test_a_defect_of_a_consumer_is_logged_and_the_batch_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    memory, stop = Memory(ManualClock(datetime(2036, 5, 14, tzinfo=UTC))), threading.Event()
    monkeypatch.setattr(delivery, "CONSUMERS", (Consumer(lambda change: KeyError("x")),))
    services = memory.connect()
    services.ledger.claim([a_run(NOON + number) for number in range(40)])
    monkeypatch.setattr(roles, "connect", lambda settings: services)
    monkeypatch.setattr(stop, "wait", lambda seconds: stop.set())
    run_historian(Settings(), stop=stop)
    assert caplog.records[-1].message == "historian.stopped"
    assert caplog.records[-1].exc_info is not None


def test_without_history_there_is_nothing_to_follow() -> None:
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off: the runs have no stream; set it to 'on'"):
        run_historian(Settings(history=False), stop=threading.Event())
