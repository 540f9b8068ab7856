"""The example application, tested as its owner would: in memory, over days."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Registry, RunState, jobs, load
from quarterjack.testing import Harness

from examples.orders import schedules, shop, warehouse

MONDAY = datetime(2026, 5, 4, 6, tzinfo=UTC)


@pytest.fixture
def harness() -> Iterator[Harness]:
    load("examples.orders")
    known = Registry()
    for job in jobs.default_registry:
        if job.name.startswith("orders."):
            known.add(job)
    yield Harness(known, at=MONDAY)
    for memory in (warehouse.orders, warehouse.stock, warehouse.mails):
        memory.clear()


def test_an_unpaid_order_is_reminded_once(harness: Harness) -> None:
    for _ in range(2):
        shop.place_order(harness.scheduler, "A7", "ada@example.com")
    assert harness.advance(hours=47) == []
    (run,) = harness.advance(hours=1)
    assert run.result == "reminded"
    assert list(warehouse.mails.values()) == ["ada@example.com: Order A7 is waiting for you"]


def test_a_paid_order_is_not(harness: Harness) -> None:
    run = shop.place_order(harness.scheduler, "A7", "ada@example.com")
    shop.pay(harness.scheduler, "A7")
    harness.advance(days=3)
    assert harness.run(run.id).state is RunState.CANCELLED
    assert warehouse.mails == {}


def test_an_order_that_does_not_exist_is_not_tried_again(harness: Harness) -> None:
    harness.scheduler.submit("orders.remind", {"order": "A8"})
    (run,) = harness.advance()
    assert (run.state, run.attempt, run.error) == (RunState.DEAD, 1, "there is no order A8")


def test_each_region_is_counted_at_the_end_of_its_own_day(harness: Harness) -> None:
    schedules.bring_about(harness.scheduler)
    harness.advance(days=2)
    due = {run.schedule: run.due for run in harness.runs() if run.schedule in ("report-eu", "report-us")}
    assert due["report-us"] - due["report-eu"] == timedelta(hours=6)
    days = [run.result["day"] for run in harness.scheduler.list_runs("report-eu").items if run.result]
    assert days == ["2026-05-04", "2026-05-05"]


def test_the_import_reads_every_row(harness: Harness) -> None:
    schedules.bring_about(harness.scheduler)
    runs = [run for run in harness.advance(hours=1) if run.schedule == "stock"]
    assert [(run.state, run.result) for run in runs] == [(RunState.SUCCEEDED, 1_000)]


def test_bringing_about_what_is_there_changes_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        schedules.bring_about(harness.scheduler)
    assert {found.revision for found in harness.scheduler.list_schedules().items} == {1}
    monkeypatch.setitem(schedules.WANTED["stock"], "payload", {"rows": 10})
    schedules.bring_about(harness.scheduler)
    assert harness.scheduler.get_schedule("stock").payload == {"rows": 10}
    assert {found.name: found.revision for found in harness.scheduler.list_schedules().items} == {
        "report-eu": 1,
        "report-us": 1,
        "stock": 2,
    }
