"""Every door of a suspended tenant, and what stays open; what it has is neither changed nor lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import Registry, Retry, RunState, Scheduler
from quarterjack.errors import Forbidden, TenantSuspended
from quarterjack.testing import Harness

AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
Door = Callable[[Scheduler, dict[str, str]], object]


@pytest.fixture(scope="module")
def jobs() -> Registry:
    registry = Registry()
    registry.job("note")(lambda ctx, payload: None)
    registry.job("fails", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 / 0)
    return registry


@pytest.fixture
def harness(jobs: Registry) -> Harness:
    return Harness(jobs, at=AT, tenant="acme")


def prepared(harness: Harness) -> dict[str, str]:
    """A schedule, a paused one, a run that succeeded, a dead one, one that is to come; then the tenant is suspended."""
    on = harness.scheduler
    on.create_schedule("s", "note", "*/10 * * * *")
    on.create_schedule("paused", "note", "*/10 * * * *")
    on.pause_schedule("paused")
    ids = {"done": on.submit("note").id, "dead": on.submit("fails").id}
    harness.advance(minutes=1)
    ids["ahead"] = on.submit("note", delay=7_200).id
    harness.tenants.suspend("acme", reason="unpaid")
    return ids


SHUT: dict[str, Door] = {
    "submit": lambda on, ids: on.submit("note"),
    "create_schedule": lambda on, ids: on.create_schedule("n", "note", "0 0 * * *"),
    "update_schedule": lambda on, ids: on.update_schedule("s", description="x"),
    "upsert_schedule": lambda on, ids: on.upsert_schedule("n", "note", "0 0 * * *"),
    "resume_schedule": lambda on, ids: on.resume_schedule("paused"),
    "trigger": lambda on, ids: on.trigger("s"),
    "replay_run": lambda on, ids: on.replay_run(ids["done"]),
    "redrive": lambda on, ids: on.redrive(ids["dead"]),
    "redrive of a job": lambda on, ids: on.redrive(job="fails"),
    "reschedule": lambda on, ids: on.reschedule(ids["ahead"], delay=60),
    "backfill": lambda on, ids: on.backfill("s", AT - timedelta(hours=1), AT, dry_run=False),
    "bulk": lambda on, ids: on.bulk("trigger", prefix="s"),
}
OPEN: dict[str, Door] = {
    "pause_schedule": lambda on, ids: on.pause_schedule("s"),
    "delete_schedule": lambda on, ids: on.delete_schedule("s"),
    "cancel_run": lambda on, ids: on.cancel_run(ids["ahead"]),
    "purge": lambda on, ids: on.purge(job="fails"),
    "freeze": lambda on, ids: on.freeze(AT + timedelta(days=1)),
    "list_schedules": lambda on, ids: on.list_schedules(),
    "get_run": lambda on, ids: on.get_run(ids["done"]),
    "list_runs": lambda on, ids: on.list_runs("s"),
    "why": lambda on, ids: on.why("s", AT),
    "audit": lambda on, ids: on.audit(),
}


@pytest.mark.parametrize("door", SHUT)
def test_what_makes_new_work_is_refused(harness: Harness, door: str) -> None:
    ids = prepared(harness)
    lines, runs, heads = len(harness.memory.audit_entries()), harness.memory.runs(), harness.memory.heads()
    with pytest.raises(
        TenantSuspended, match=r"'acme' is suspended \(unpaid\); ask an operator of the installation to resume it"
    ) as refused:
        SHUT[door](harness.scheduler, ids)
    assert isinstance(refused.value, Forbidden)
    assert (len(harness.memory.audit_entries()), harness.memory.runs(), harness.memory.heads()) == (lines, runs, heads)
    harness.tenants.resume("acme")
    SHUT[door](harness.scheduler, ids)


@pytest.mark.parametrize("door", OPEN)
def test_what_looks_or_ends_is_not(harness: Harness, door: str) -> None:
    OPEN[door](harness.scheduler, prepared(harness))


def test_a_run_that_waits_says_why(harness: Harness) -> None:
    run = harness.scheduler.submit("note")
    harness.tenants.suspend("acme", reason="unpaid")
    harness.advance(hours=1)
    found = harness.scheduler.get_run(run.id)
    assert found.state is RunState.QUEUED
    assert "suspended (unpaid)" in (found.waits_because or "")
    harness.tenants.resume("acme")
    harness.advance(minutes=6)
    assert harness.run(run.id).state is RunState.SUCCEEDED


def test_another_process_learns_of_it_within_five_seconds(harness: Harness, jobs: Registry) -> None:
    other = Scheduler("acme", jobs=jobs, services=harness.memory.connect(), clock=harness.clock)
    other.submit("note")
    harness.tenants.suspend("acme")
    harness.clock.advance(timedelta(seconds=5, milliseconds=1))
    with pytest.raises(TenantSuspended):
        other.submit("note")
