"""The harness has a historian: what it consumes is there when ``advance`` returns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack.historian import deliver as delivery
from quarterjack.jobs import Registry
from quarterjack.testing import Harness

from tests.support.consumers import Consumer


def test_when_time_has_passed_every_change_was_delivered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, jobs = Consumer(), Registry()
    monkeypatch.setattr(delivery, "CONSUMERS", (consumer,))
    jobs.job("greet")(lambda ctx, payload: None)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    harness.scheduler.create_schedule("hello", "greet", "0 * * * *")
    seen: list[int] = []
    for days in (0, 1, 3):  # a stream keeps a day
        harness.advance(days=days)
        seen += [change.sequence for change in harness.memory.changes(max(seen, default=0))]
        assert set(seen) <= set(consumer.handled)
    assert len(consumer.handled) == len(set(consumer.handled)) >= 3 * 24 * 4


@pytest.mark.parametrize("days", [3, 30])
def test_days_without_a_fire_are_no_gap_in_the_history(caplog: pytest.LogCaptureFixture, days: int) -> None:
    jobs = Registry()
    jobs.job("greet")(lambda ctx, payload: None)
    harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC), events=True)
    harness.scheduler.create_schedule("hello", "greet", "0 9 * * MON")
    for _ in range(4):
        harness.advance(days=days)
    assert "historian.gap" not in caplog.messages
