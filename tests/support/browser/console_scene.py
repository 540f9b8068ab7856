"""A console with something on each of its pages: what the browser tests visit, and what the pictures of the docs show."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from quarterjack import Registry
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Permanent
from quarterjack.state.worker_record import KEY as WORKER
from quarterjack.state.worker_record import JobNames, WorkerIdentity, WorkerKind, WorkerRow, owner_of, record_body
from quarterjack.stores.records import Record
from quarterjack.testing.clock import ManualClock
from quarterjack.web.urls import run_in_url

from tests.support.console import KEY, Browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOME = "/console/t/default/"
BERLIN = "Europe/Berlin"
EUROPE = {"team": "data", "region": "eu"}
SCHEDULES: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("billing/invoices", "billing.invoice", "0 6 * * MON-FRI", {"team": "billing"}),
    ("billing/reminders", "billing.remind", "15 9 * * *", {"team": "billing"}),
    ("exports/hourly", "export.orders", "7 * * * *", EUROPE),
    ("exports/nightly", "export.orders", "30 2 * * *", EUROPE),
    ("mail/digest", "mail.send", "0 7 * * MON-FRI", {"team": "growth"}),
    ("search/reindex", "search.reindex", "*/20 * * * *", {"team": "search"}),
    ("sync/warehouse", "sync.warehouse", "*/10 * * * *", EUROPE),
)


FAULT = "index orders-7 is read-only: free some disk space, then unlock it"


class TimedJobs:
    """Jobs that take some time by the clock of the harness, more or less of it from run to run, of which one fails."""

    def __init__(self) -> None:
        self.registry, self._calls = Registry(), 0
        self.clock: ManualClock | None = None
        for name, seconds in (("billing.invoice", 40), ("billing.remind", 12), ("export.orders", 95), ("mail.send", 8)):
            self._add(name, seconds)
        self._add("search.reindex", 30, FAULT)
        self._add("sync.warehouse", 25)

    def _add(self, name: str, seconds: int, fault: str | None = None) -> None:
        @self.registry.job(name)
        def work(ctx: Any, payload: Any) -> Any:
            ctx.logger.info("orders read", extra={"rows": 1_200})
            self._calls += 1
            if self.clock is not None:
                self.clock.advance(timedelta(seconds=seconds * (4 + self._calls * 7 % 5) / 6))
            if fault is not None and payload["round"] == 1:
                raise Permanent(fault)
            return {"rows": 1_200}


def busy() -> Browser:
    """Two days of an installation that is used. In a thread: a browser that runs here would keep the scheduler's client from it."""
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(_made).result()


_TASKS = {
    "orders.extract": {"job": "export.orders", "payload": {"round": 2}},
    "stock.extract": {"job": "export.orders", "payload": {"round": 2}},
    "search.reindex": {"job": "search.reindex", "after": ["orders.extract"], "payload": {"round": 1}},
    "warehouse.sync": {"job": "sync.warehouse", "after": ["orders.extract", "stock.extract"], "payload": {"round": 2}},
    "mail.report": {"job": "mail.send", "after": ["search.reindex", "warehouse.sync"], "payload": {"round": 2}},
}
_ANSWER = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def _made() -> Browser:
    jobs = TimedJobs()
    browser = Browser(jobs=jobs.registry)
    jobs.clock = browser.harness.clock
    jobs.registry.job("mail.approve")(lambda ctx, payload: ctx.wait_for("approval", schema=_ANSWER))
    for name, job, expression, tags in SCHEDULES:
        browser.scheduler.acting_as("ada@acme", reason="as agreed").create_schedule(
            name, job, expression, timezone=BERLIN, payload={"round": 1}, tags=tags
        )
    browser.harness.advance(timedelta(hours=5, minutes=3))
    bob = browser.scheduler.acting_as("bob@acme", reason="the warehouse moves")
    bob.pause_schedule("exports/nightly")
    bob.update_schedule("mail/digest", expression="30 7 * * MON-FRI")
    browser.scheduler.submit("mail.send", {"round": 2}, delay=5 * 3600)
    browser.scheduler.submit("mail.approve")
    browser.scheduler.create_schedule(
        "warehouse", "pipeline:warehouse", "manual", tasks=_TASKS, on_task_failure="continue", tags=EUROPE
    )
    browser.scheduler.trigger("warehouse")
    browser.harness.advance()
    now = browser.harness.clock.now()
    bob.backfill("sync/warehouse", now - timedelta(hours=9), now - timedelta(hours=6), current=True, dry_run=False)
    _tenants(browser)
    _workers(browser)
    browser.harness.deploy("1.4")
    browser.harness.deploy("1.5", share=0.1)
    return browser


def _tenants(browser: Browser) -> None:
    tenants = browser.harness.tenants
    tenants.create("acme", description="the first customer")
    tenants.grant("acme", "iam:*", "admin")
    tenants.grant("acme", "app:bob@acme", "operator")
    tenants.create("globex", description="on trial")
    tenants.create_key("default", "crm", "submit")


def _workers(browser: Browser) -> None:
    for name in ("worker-1", "worker-2"):
        identity = WorkerIdentity(
            name=name,
            kind=WorkerKind.PROCESS,
            host=f"host-{name[-1]}",
            version="1",
            started_at=browser.harness.clock() - 90 * MINUTE,
            queue="default",
            jobs=JobNames.of(["billing.*", "export.*", "mail.send"]),
        )
        row = WorkerRow(identity=identity, seen_at=browser.harness.clock(), at_hand=0, runs=(), stopped_at=None)
        record = Record(owner=owner_of(name), key=WORKER + name, version=1, body=record_body(row), expires=row.expires)
        assert browser.harness.memory.connect().records.write(record)


def ids(browser: Browser) -> dict[str, str]:
    """What addresses of the pages name and only the scene knows: runs that failed, succeeded and are due; an API key."""
    scheduler = browser.scheduler
    return {
        "DEAD": run_in_url(scheduler.list_dead(limit=1).items[0].id),
        "GOOD": run_in_url(
            scheduler.list_runs("sync/warehouse", newest_first=True, upcoming=False, limit=1).items[0].id
        ),
        "DUE": run_in_url(
            next(run.id for run in browser.harness.runs() if run.schedule is None and run.job == "mail.send")
        ),
        "WAITS": run_in_url(next(run.id for run in browser.harness.runs() if run.job == "mail.approve")),
        "PIPELINE": run_in_url(next(run.id for run in browser.harness.runs() if run.schedule == "warehouse")),
        "BACKFILL": str(scheduler.list_backfills("sync/warehouse")[0].id),
        "APIKEY": browser.harness.tenants.keys("default")[0].id,
    }


def sign_in(page: Page, url: str) -> None:
    """Through the form, as a person does it."""
    page.goto(f"{url}/console/sign-in")
    page.fill("input[name=key]", KEY)
    page.click("main button")
