"""Without an extra: expressions, and a job in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Registry, next_fires
from quarterjack.testing import Harness

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

assert (
    next_fires("0 9 * * *", timezone="Europe/Paris", after=NOON, count=1)[0].isoformat() == "2026-05-05T09:00:00+02:00"
)

jobs = Registry()


@jobs.job("hello")
def hello(ctx: Any, payload: Any) -> str:
    return f"Hello {payload}"


harness = Harness(jobs, at=NOON)
harness.scheduler.create_schedule("each-hour", "hello", "0 * * * *", payload="Ada")
harness.advance(timedelta(hours=3))
assert [run.result for run in harness.runs()] == ["Hello Ada"] * 3
