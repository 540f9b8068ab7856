"""Calls that a type checker refuses, and that would otherwise fail when they are made, or later. Nobody runs this file.

What follows ``# error:`` is what mypy says of the line. docs/how-to/write-a-job.md shows some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from quarterjack import AsyncScheduler, Context, Retry, Scheduler, job, schedule

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAILY = "0 9 * * *"


@dataclass
class Order:
    id: str
    quantity: int = 1


class Report(TypedDict):
    region: str


@job("orders.place")
def place(ctx: Context, payload: Order) -> str:
    return payload.id


@job("reports.daily")
def daily(ctx: Context, payload: Report) -> str:
    return payload["region"]


def calls(scheduler: Scheduler) -> None:
    eu = Report(region="eu")
    scheduler.submit(place, {"id": "1"})  # error: Argument 1 to "submit"
    scheduler.submit(daily, Order("1"))  # error: Argument 1 to "submit"
    scheduler.create_schedule("d", place, DAILY, payload=eu)  # error: Argument 2 to "create_schedule"
    scheduler.update_schedule("d", job=place, payload=eu)  # error: Argument "job" to "update_schedule"
    scheduler.create_schedule("d", daily, DAILY, payload=eu, catch_up="lates")  # error: Argument "catch_up"
    scheduler.upsert_schedule("d", daily, DAILY, payload=eu, overlap="skipp")  # error: Argument "overlap"
    scheduler.submit(place, Order("1"), start="excat")  # error: Argument "start"
    scheduler.backfill("d", NOON, NOON, order="latest")  # error: Argument "order"
    Retry(backoff="exponentially")  # error: Argument "backoff"


@job("reports.isolated", delivery="at-least-once")  # error: Argument "delivery"
def isolated(ctx: Context, payload: Report) -> None: ...


@schedule(DAILY, name="more", start="soon")  # error: Argument "start"
@job("reports.more", isolation="processes")  # error: Argument "isolation"
def more(ctx: Context, payload: Report) -> None: ...


async def awaited_calls(scheduler: AsyncScheduler) -> None:
    await scheduler.submit(place, {"id": "1"})  # error: Argument 1
    await scheduler.submit(place, Order("1"), delivery="once")  # error: Argument "delivery"
    await scheduler.list_runs(state="FAILED")  # error: Argument "state"
    await scheduler.bulk("stop", job=place)  # error: Argument 1
