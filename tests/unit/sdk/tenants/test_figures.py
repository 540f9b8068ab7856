"""The figures of a tenant: what its runs of the last minutes say, and what is left of its limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, Settings, Tenants
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.fires.flow.wait_queue import change_cap
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.testing import Harness

from tests.support.scenes.world import Faults

AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def harness() -> Harness:
    jobs = Registry()
    jobs.job("plain")(lambda ctx, payload: None)

    @jobs.job("fails", retry=Retry(max_attempts=1))
    def fails(ctx: Context, payload: Any) -> None:
        raise RuntimeError("no")

    return Harness(jobs, at=AT, tenant="acme")


def test_a_tenant_that_does_nothing_has_figures_too(harness: Harness) -> None:
    figures = harness.tenants.figures("nobody")
    assert (figures.tenant, figures.until - figures.since) == ("nobody", timedelta(minutes=5))
    assert (figures.outcomes, figures.started_per_minute, figures.failed_share, figures.lateness_p99) == (
        {},
        0,
        None,
        None,
    )
    assert (figures.waiting, figures.waiting_is_whole, figures.schedules_waiting) == (0, True, 0)
    assert (figures.limits, figures.tokens, figures.schedules) == ({}, {}, None)


def test_runs_of_the_last_minutes_are_counted_and_no_others(harness: Harness) -> None:
    harness.scheduler.submit("plain")
    harness.advance(minutes=10)
    for job in ("plain", "plain", "plain", "fails"):
        harness.scheduler.submit(job)
    harness.advance(minutes=1)
    figures = harness.tenants.figures("acme", minutes=2)
    assert figures.outcomes == {"SUCCEEDED": 3, "DEAD": 1}
    assert (figures.started_per_minute, figures.failed_share) == (2.0, 0.25)
    assert figures.lateness_p99 is not None
    assert harness.tenants.figures("acme", minutes=60).outcomes == {"SUCCEEDED": 4, "DEAD": 1}
    assert harness.tenants.figures("other").outcomes == {}, "of this tenant alone"


def test_what_is_due_and_has_not_started_is_its_backlog(harness: Harness) -> None:
    harness.scheduler.create_schedule("s", "plain", "* * * * *")
    harness.advance(minutes=2)
    harness.scheduler.freeze(datetime.fromtimestamp(harness.clock() / 1_000, UTC) + timedelta(minutes=5))
    harness.advance(seconds=10)  # until all processes know of it
    for _ in range(3):
        harness.scheduler.submit("plain")
    harness.scheduler.submit("plain", delay=3_600)
    harness.advance(minutes=2)
    figures = harness.tenants.figures("acme")
    assert (figures.waiting, figures.waiting_is_whole) == (3, True), "what is not due does not wait"
    assert (figures.schedules_sampled, figures.schedules_waiting) == (1, 1)
    harness.advance(minutes=10)
    figures = harness.tenants.figures("acme")
    assert (figures.waiting, figures.schedules_waiting) == (0, 0)


def test_what_is_left_of_the_limits_is_told(harness: Harness) -> None:
    limits = {"runs_per_second": 2.0, "runs_burst": 5, "schedules": 10}
    harness.tenants.create("acme", limits=limits)
    harness.scheduler.create_schedule("s", "plain", "0 * * * *")
    figures = harness.tenants.figures("acme")
    assert (figures.limits, figures.tokens) == (limits, {"runs_per_second": 5})
    assert (figures.schedules, figures.fires_per_hour) == (1, 1)
    for _ in range(5):
        harness.scheduler.submit("plain")
    assert harness.tenants.figures("acme").tokens == {"runs_per_second": 0}
    assert (harness.tenants.figures("acme").permits, harness.tenants.figures("acme").queued) == ({}, {})


def test_what_is_counted_again_and_again_is_told_as_of_the_last_count(harness: Harness) -> None:
    harness.tenants.create("acme", limits={"waiting_runs": 10, "kept_bytes": 10**6})
    assert harness.tenants.figures("acme").waiting_runs is None, "nobody has counted yet"
    for delay in (0, 0, 3_600):
        harness.scheduler.submit("plain", "x" * 100_000, delay=delay)
    figures = harness.tenants.figures("acme")
    assert (figures.waiting_runs, figures.kept_bytes) == (3, 300_006)
    assert harness.tenants.figures("other").waiting_runs is None


def test_permits_in_use_are_told_by_limit(harness: Harness) -> None:
    harness.tenants.create(
        "acme", limits={"concurrent_runs": 5, "concurrent_runs:plain": 2, "concurrent_runs:other": 1}
    )
    services, clock = harness.memory.connect(), harness.clock
    for job, number in (("*", 3), ("plain", 2)):
        cap = ConcurrencyCap(tenant="acme", job=job, most=5)
        runs = [(f"r{n}", False) for n in range(number)]
        change_cap(cap, lambda permits, runs=runs: permits.taken("w", 0, runs, 5, clock())[0], services, clock)  # type: ignore[misc]
    told = {"concurrent_runs": 3, "concurrent_runs:plain": 2, "concurrent_runs:other": 0}
    assert harness.tenants.figures("acme").permits == told
    harness.advance(minutes=2)
    assert set(harness.tenants.figures("acme").permits.values()) == {0}, "of a process that was not heard of"


def test_runs_in_queue_are_told_by_limit_as_far_as_they_were_counted(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"concurrent_runs": 9, "concurrent_runs:plain": 1, "concurrent_runs:fails": 1}
    harness.tenants.create("acme", limits=limits)
    services, clock = harness.memory.connect(), harness.clock
    for job in ("plain", "fails"):
        cap = ConcurrencyCap(tenant="acme", job=job, most=1)
        change_cap(cap, lambda permits: permits.taken("w", 0, [("r", False)], 1, clock())[0], services, clock)
        for _ in range(4):
            harness.scheduler.submit(job)
    harness.advance()  # workers receive them, and find no probe
    told = harness.tenants.figures("acme")
    assert told.queued == {"concurrent_runs": 0, "concurrent_runs:plain": 4, "concurrent_runs:fails": 4}
    assert told.queued_longer == []
    monkeypatch.setattr("quarterjack.sdk.tenants.figures._MOST_WAITING", 6)
    told = harness.tenants.figures("acme")
    assert sum(told.queued.values()) == 6
    assert len(told.queued_longer) == 1
    (longer,) = told.queued_longer
    assert told.queued[longer] == 2
    monkeypatch.setattr("quarterjack.sdk.tenants.figures._MOST_WAITING", 4)
    told = harness.tenants.figures("acme")
    assert sum(told.queued.values()) == 4
    assert len(told.queued_longer) >= 1, "of the second queue it is only known that there is one"


def test_nothing_is_written_and_little_is_read(harness: Harness) -> None:
    harness.scheduler.submit("plain")
    harness.advance(minutes=1)
    faults = Faults()
    Tenants(services=harness.memory.connect(hook=faults), clock=harness.clock).figures("acme")
    asked = [operation for operation, _ in faults.calls]
    assert set(asked) <= {"GetItem", "BatchGetItem", "Query"}
    assert len(asked) < 12


def test_what_cannot_be_told_says_why(harness: Harness) -> None:
    with pytest.raises(InvalidInput, match="minutes=61"):
        harness.tenants.figures("acme", minutes=61)
    without = Tenants(services=harness.memory.connect(), settings=Settings(history=False))
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off"):
        without.figures("acme")
