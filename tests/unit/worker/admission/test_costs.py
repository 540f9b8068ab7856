"""What all limits of a tenant together cost a run, and what they cost a tenant that has none: counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.worker.context import WorkerContext

from tests.support.scenes.capped import Capped, Lasting
from tests.support.scenes.world import Faults
from tests.support.units import counted

Hand = tuple[WorkerContext, Lasting]
ALL_LIMITS = {
    "runs_per_second": 50,
    "changes_per_second": 10,
    "schedules": 100,
    "fires_per_hour": 10_000,
    "backfill_fires": 1_000,
    "breaker_percent": 90,
    "highest_priority": "high",
    "concurrent_runs": 50,
    "concurrent_runs:note": 20,
    "concurrency_strict": 1,
    "waiting_runs": 5_000,
    "kept_bytes": 10**9,
}
WARM, BATCHES, BATCH = 10, 20, 10  # a process finds within some seconds how many tokens it needs for one
Story = Callable[[Capped, Scheduler, Hand, Faults, int], None]


def submitted(world: Capped, owner: Scheduler, hand: Hand, faults: Faults, batches: int, every: float = 0.5) -> None:
    """Twenty runs a second: a batch of one worker ``every`` so many seconds."""
    del faults
    worker, jobs = hand
    for _ in range(batches):
        for number in range(BATCH):
            owner.submit("note", {"n": number})
        world.take(worker)
        jobs.end(BATCH)
        world.wait(every)


def slowly(world: Capped, owner: Scheduler, hand: Hand, faults: Faults, batches: int) -> None:
    """Ten runs a second."""
    submitted(world, owner, hand, faults, batches, every=1.0)


def fired(world: Capped, owner: Scheduler, hand: Hand, faults: Faults, batches: int) -> None:
    """Ten minutely schedules."""
    del owner
    worker, jobs = hand
    services = world.process(faults)
    for _ in range(batches):
        world.tick(services)
        world.wait(60)
        world.take_all(worker)
        jobs.end(BATCH)


def story(world: Capped, tell: Story) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Write units by table, and all requests, while runs of one tenant go from their beginning to their end."""
    faults = Faults()
    owner = Scheduler("acme", jobs=world.jobs, services=world.process(faults), clock=world.clock)
    if tell is fired:
        for number in range(BATCH):
            owner.create_schedule(f"s{number}", "note", "* * * * *")
    hand = world.hand("w", faults)
    tell(world, owner, hand, faults, WARM)
    faults.calls.clear()
    with counted() as units:
        tell(world, owner, hand, faults, BATCHES)
    assert world.ended()["SUCCEEDED"] == (WARM + BATCHES) * BATCH
    return units, [(operation, detail.verb) for operation, detail in faults.calls]


@pytest.mark.parametrize(("tell", "most"), [(submitted, 0.3), (slowly, 0.33), (fired, 0.2)])
def test_all_limits_together_cost_a_third_of_a_write_a_run_at_the_most(tell: Story, most: float) -> None:
    """Both caps share one record, which is written when ten runs begin and when they end; tokens are taken once a second."""
    without, _ = story(Capped(limits={}), tell)
    limited, _ = story(Capped(limits=ALL_LIMITS), tell)
    more = {table: units - without.get(table, 0) for table, units in limited.items()}
    assert sum(more.values()) / (BATCHES * BATCH) <= most, more
    assert {table for table, units in more.items() if units} == {"runs"}, "where records are"


@pytest.mark.parametrize("tell", [submitted, fired])
@pytest.mark.parametrize("others", [{}, {"other": ALL_LIMITS}])
def test_a_tenant_without_limits_makes_the_requests_that_it_made_before_there_were_limits(
    tell: Story, others: dict[str, Any]
) -> None:
    """Whatever others have, and although their runs wait in line. Its own profile, which is empty here, is read in any case."""
    world = Capped(limits={})
    for tenant, limits in others.items():
        world.tenants.set(tenant, limits=limits)
    units, calls = story(world, tell)
    assert (units, calls) == story(Capped(limits={}), tell)
    assert not [verb for _, verb in calls if verb in ("write_record", "lease_tokens")]
