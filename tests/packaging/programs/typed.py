"""The extra typed: a payload of a dataclass, and one that has to fit a schema."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Registry
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness


@dataclass
class Order:
    number: int


jobs = Registry()


@jobs.job("ship")
def ship(ctx: Context, payload: Order) -> int:
    return payload.number


@jobs.job("count", schema={"type": "integer"})
def count(ctx: Context, payload: Any) -> Any:
    return payload


harness = Harness(jobs, at=datetime(2026, 5, 4, 12, tzinfo=UTC))
taken = [harness.scheduler.submit(job, payload) for job, payload in (("ship", {"number": 7}), ("count", 8))]
harness.advance(timedelta(seconds=1))
assert [harness.scheduler.get_run(run.id).result for run in taken] == [7, 8]
for job, wrong in (("ship", {}), ("count", "eight")):
    with suppress(InvalidInput):
        harness.scheduler.submit(job, wrong)
        raise AssertionError(f"{job} took {wrong!r}")
