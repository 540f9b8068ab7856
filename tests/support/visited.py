"""An installation with one of everything that pages name, for who goes through them."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch
from uuid import UUID

from quarterjack import Settings
from quarterjack.doctor.context import warn
from quarterjack.web import Actor

from tests.support.api import greeting_jobs
from tests.support.console import Browser, give_doctor


def furnished(actor: Actor | None = None) -> Browser:
    """The console of an operator over a tenant with schedules, runs of all kinds, dead runs, backfills and a key."""
    jobs = greeting_jobs()
    jobs.job("approve")(lambda ctx, payload: ctx.wait_for("approval"))
    browser = Browser(jobs=jobs, actor=actor or Actor(name="boss@acme", operator=True), settings=Settings())
    give_doctor(browser, lambda settings: [warn("no alarm watches the dead letters", "deploy it with alarms")])
    scheduler, now = browser.scheduler, browser.harness.clock.now()
    scheduler.create_schedule("team/good", "greet", "*/5 * * * *", payload={"to": "Ada"}, tags={"team": "a"})
    scheduler.create_schedule("team/bad", "fail", "*/10 * * * *")
    browser.harness.deploy("1.4")
    scheduler.submit("greet", {"to": "Eve"}, delay=7_200, idempotency_key="eve")
    browser.harness.deploy("1.5")
    scheduler.backfill("team/good", now - timedelta(minutes=20), now, current=True, dry_run=False)
    for _ in range(4):
        browser.harness.advance(timedelta(minutes=5))
    with patch("quarterjack.sdk.backfills.uuid.uuid4", lambda: UUID(int=1)):  # each time of the same address
        held = scheduler.backfill(
            "team/bad", now - timedelta(minutes=20), now, current=True, dry_run=False, concurrency=1
        )
    scheduler.pause_backfill("team/bad", held.id or "")
    scheduler.submit("approve", idempotency_key="approve")
    tasks = {
        "a": {"job": "fail"},
        "b": {"job": "approve"},
        "c": {"job": "greet", "after": ["b"], "payload": {"to": "Ada"}},
    }
    for name, kept in (("team/line", tasks), ("team/waits", {name: tasks[name] for name in "bc"})):
        scheduler.create_schedule(name, f"pipeline:{name}", "manual", tasks=kept)
        scheduler.trigger(name, idempotency_key=name)
    browser.harness.advance()
    browser.harness.tenants.create("default", description="Acme")
    browser.harness.tenants.grant("default", "iam:*", "admin")
    browser.harness.tenants.grant("default", "app:boss@acme", "admin")
    browser.harness.tenants.grant("~installation", "iam:*", "admin")
    browser.harness.tenants.grant("~installation", "app:boss@acme", "admin")
    browser.harness.tenants.create_key("default", "crm", ["submit"])
    return browser
