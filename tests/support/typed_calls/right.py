"""The calls of ``wrong.py`` as they should be, and more that a type checker must let through. Nobody runs this file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

from quarterjack import AsyncScheduler, Context, Delivery, Retry, Scheduler, job, schedule

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


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
async def daily(ctx: Context, payload: Report) -> str:
    return payload["region"]


@job("anything")
def anything(ctx: Context, payload: Any) -> None: ...


@job("words")
def words(ctx: Context, payload: dict[str, str] | None) -> None: ...


class Mailer:
    @job("mail")
    @classmethod
    def mail(cls, ctx: Context, payload: list[Order]) -> None: ...


def calls(scheduler: Scheduler) -> None:
    report = Report(region="eu")
    scheduler.submit(place, Order("1"))
    scheduler.submit(place, Order("1", 2), start="exact", delivery=Delivery.AT_MOST_ONCE, delay=5)
    scheduler.submit(daily, Report(region="eu"))
    scheduler.create_schedule("d", daily, "0 9 * * *", payload=report)
    scheduler.update_schedule("d", job=place, payload=Order("1"))
    scheduler.create_schedule("d", daily, "0 9 * * *", payload=report, catch_up="latest")
    scheduler.upsert_schedule("d", daily, "0 9 * * *", payload=report, overlap="skip")
    scheduler.backfill("d", NOON, NOON, order="newest")
    Retry(backoff="exponential")
    # More.
    scheduler.submit("orders.place", {"id": "1"})
    scheduler.submit("orders.place")
    scheduler.submit(anything)
    scheduler.submit(anything, [1, "two"])
    scheduler.submit(words)
    scheduler.submit(words, {"a": "b"})
    scheduler.submit(Mailer.mail, [Order("1")])
    scheduler.update_schedule("d", payload={"id": "2"}, timezone="Europe/Paris")
    scheduler.list_runs(job=place, state=["DEAD", "LOST"])
    scheduler.bulk("pause", job=daily)


async def awaited_calls(scheduler: AsyncScheduler) -> None:
    await scheduler.submit(place, Order("1"), start="exact")
    await scheduler.create_schedule("d", daily, "0 9 * * *", payload=Report(region="eu"), catch_up="latest")
    await scheduler.submit("orders.place", {"id": "1"})


@schedule("0 9 * * *", delivery="at_least_once", payload=Report(region="eu"))
@job("reports.isolated", isolation="process")
def isolated(ctx: Context, payload: Report) -> None: ...
