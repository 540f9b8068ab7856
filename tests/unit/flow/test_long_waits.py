"""Waits that last longer than ended runs are kept: what a run has recorded, and its children that have ended, wait for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from quarterjack import Context
from quarterjack.domain.names import RunRef
from quarterjack.domain.times import DAY, HOUR, SECOND
from quarterjack.state.waits.retention import must_be_kept_again, recorded_until
from quarterjack.stores.tables import RUNS

from tests.support.scenes.parking import Parking
from tests.support.scenes.world import NOON

WEEK = 7 * DAY
LARGE = "x" * 2_000  # of a result that lies beside its row


@dataclass
class Weekly(Parking):
    """Ended runs are kept for a week."""

    retention: int = WEEK

    def days(self, count: int) -> None:
        """Let days pass, on each of which the ticker and a worker do what there is to do, and what has expired goes."""
        for _ in range(count):
            self.wait(DAY // SECOND)
            self.memory.expire()
            self.tick()
            self.work()

    def days_until_end(self, run_id: str) -> int:
        """Let days pass until the run has ended; how many."""
        for day in range(1, 420):
            self.days(1)
            if self.row(run_id).is_terminal:
                return day
        raise AssertionError(self.row(run_id))

    def ttl(self, ref: RunRef) -> int | None:
        row = self.memory.row(ref)
        return None if row is None else row.get("ttl")


Waits = Callable[[Context], object]


def remembers(world: Weekly, waits: Waits, steps: list[str]) -> str:
    """A run with a step and two children of which one has ended, and which then waits."""

    def job(ctx: Context, payload: Any) -> Any:
        ctx.step("once", lambda: steps.append("once"))
        quick = ctx.submit("large", step="quick")
        (result,) = ctx.gather([quick])
        waits(ctx)
        ctx.step("twice", lambda: steps.append("twice"))
        (again,) = ctx.gather([quick])
        return [len(result), len(again)]

    world.jobs.job("large")(lambda ctx, payload: LARGE)
    world.jobs.job("remembers")(job)
    run = world.scheduler.submit("remembers")
    world.work()
    assert steps == ["once"]
    return run.id


@pytest.mark.parametrize(
    "waits",
    [
        lambda ctx: ctx.sleep(300 * DAY // SECOND),
        lambda ctx: ctx.wait_for("go", timeout=300 * DAY // SECOND),
        lambda ctx: [ctx.sleep(5 * DAY // SECOND) for _ in range(60)],
        lambda ctx: ctx.gather([ctx.submit("nap", 300 * DAY // SECOND, step="slow")]),
    ],
    ids=["sleep", "signal", "many sleeps", "children"],
)
def test_a_run_that_waits_for_most_of_a_year_loses_nothing(waits: Waits) -> None:
    world, steps = Weekly(), list[str]()

    def caught(ctx: Context) -> None:
        try:
            waits(ctx)
        except TimeoutError:
            return

    run = remembers(world, caught, steps)
    assert world.days_until_end(run) >= 300
    assert world.scheduler.get_run(run).result == [len(LARGE)] * 2
    assert steps == ["once", "twice"]


def test_a_child_that_ends_while_its_parent_sleeps_waits_for_it() -> None:
    world = Weekly()

    def job(ctx: Context, payload: Any) -> Any:
        child = ctx.submit("nap", 2 * DAY // SECOND, step="a")
        ctx.sleep(100 * DAY // SECOND)
        return ctx.gather([child])

    world.jobs.job("sleeps")(job)
    run = world.scheduler.submit("sleeps")
    world.days(102)
    assert world.scheduler.get_run(run.id).result == ["rested"]


def test_after_the_end_of_the_parent_all_of_it_goes() -> None:
    world = Weekly()
    run = remembers(world, lambda ctx: ctx.sleep(30 * DAY // SECOND), [])
    world.days(60)
    assert world.memory.runs(None) == []
    assert [row for _, key, row in world.memory._tables[RUNS] if "#step#" in key] == []
    del run


def test_a_wait_within_the_retention_writes_no_row_anew() -> None:
    world = Weekly()
    run = remembers(world, lambda ctx: ctx.sleep(DAY // SECOND), [])
    (child,) = (one for one in world.memory.runs(None) if one.parent == run)
    assert world.ttl(child.ref) == (NOON + WEEK) // SECOND
    world.days(2)
    assert world.scheduler.get_run(run).state == "SUCCEEDED"
    assert world.ttl(child.ref) == (NOON + WEEK) // SECOND


def test_when_a_record_is_kept_for_longer() -> None:
    def until(awaits: str, end: int, now: int = 0) -> int | None:
        return recorded_until(started_at=0, awaits=awaits, not_before=end, now=now, retention=9 * DAY)

    assert until("sleep", 6 * DAY) is None
    assert until("sleep", 6 * DAY + 1) == 9 * DAY + 1
    assert until("signal:go", 400 * DAY) is None  # its timer keeps it
    assert until("signal:go", 400 * DAY, now=3 * DAY) is None
    assert until("children:1", 400 * DAY, now=3 * DAY + HOUR) == 9 * DAY + HOUR
    assert not must_be_kept_again(kept_at=0, now=3 * DAY - 1, retention=9 * DAY)
    assert must_be_kept_again(kept_at=0, now=3 * DAY, retention=9 * DAY)
