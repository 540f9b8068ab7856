"""An installation in memory with one of everything that a dump holds, and another, empty one, on one time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from quarterjack import Context, Registry, Rule
from quarterjack.testing import Harness

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TENANT = "acme"


def jobs() -> Registry:
    found = Registry()
    found.queue("bulk", container=True)

    @found.job("greet")
    def greet(ctx: Context, payload: object) -> object:
        return payload

    @found.job("fail")
    def fail(ctx: Context, payload: object) -> None:
        raise ValueError("as so often")

    return found


def installation() -> Harness:
    return Harness(jobs(), at=START, tenant=TENANT)


def furnish(here: Harness) -> None:
    """Schedules of all kinds, a pipeline, profiles, a freeze of another tenant, versions, and two hours of history."""
    here.tenants.create("~gold", limits={"schedules": 100})
    here.tenants.create(TENANT, tier="gold", jobs=["greet", "fail"], description="Acme", limits={"runs_per_second": 50})
    here.tenants.grant("~installation", "iam:*", "admin")
    here.tenants.grant(TENANT, "app:alice@acme", ["viewer", "submit"], jobs=["greet"])
    here.tenants.create("idle", description="without schedules")
    here.tenants.suspend("idle", reason="left")
    owner = here.scheduler
    create(owner)
    other = owner.with_tenant("globex")
    other.create_schedule("nightly", "greet", "0 2 * * *", timezone="Europe/Berlin")
    other.freeze(START + timedelta(days=2), reason="holidays")
    here.deploy("1.0")
    here.deploy("2.0", share=0.25)
    here.advance(hours=2)
    owner.submit("greet", {"to": "later"}, delay=90_000)
    here.advance(minutes=1)


def create(owner: Any) -> None:
    """The schedules of a tenant."""
    owner.create_schedule("minutely", "greet", "rate(1 minute)", payload={"n": 1}, tags={"team": "a"})
    owner.create_schedule("large", "greet", "*/30 * * * *", payload={"text": "ä" * 120_000})
    owner.create_schedule("spread", "greet", Rule(expression="*/10 * * * *", window=240), description="spread")
    owner.create_schedule("jittered", "greet", Rule(expression="*/10 * * * *", jitter=240))
    owner.create_schedule("counted", "greet", Rule(expression="*/7 * * * *", max_fires=40))
    owner.create_schedule("over", "greet", "at(2026-05-04T12:30:00)", delivery="at_most_once", retry=None)
    owner.create_schedule("failing", "fail", "0 * * * *", queue="bulk", overlap="buffer_all", buffer=3)
    owner.create_schedule("several", "greet", ["0 3 * * *", "30 4 * * MON"], timezone="America/New_York")
    owner.create_schedule("paused", "greet", "0 * * * *", automatic_backfill=True)
    owner.pause_schedule("paused", reason="broken")
    owner.create_schedule("back", "greet", "0 * * * *")
    owner.pause_schedule("back", until=START + timedelta(hours=9))
    owner.create_schedule("gone", "greet", "0 * * * *")
    owner.delete_schedule("gone")
    tasks = {
        "a": {"job": "greet", "payload": {"to": "Ada"}},
        "b": {"job": "greet", "after": ["a"], "queue": "bulk", "payload": {"of": "{{tasks.a}}"}},
    }
    owner.upsert_schedule("team/line", "pipeline:team/line", "*/20 * * * *", tasks=tasks, managed_by="acme.lines")


def dumped(here: Harness, path: Path, tenant: str | None = None, **options: Any) -> Path:
    path.write_text("".join(f"{line}\n" for line in here.tenants.dump(tenant, **options)), encoding="utf-8")
    return path


def fires(*installations: Harness) -> list[str]:
    """Ids of the fires of all schedules that have a run, sorted: one that two of them ran is there twice."""
    return sorted(str(run.ref) for each in installations for run in each.memory.runs() if run.ref.is_fire)


def together(installations: Sequence[Harness], *, minutes: float) -> None:
    for each in installations:
        each.advance(minutes=minutes)
