"""The auditor compares ended runs with the history, and marks those that it lacks, so that the stream brings them again."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.auditor.history_check import BEHIND, HistoryCheck, check_history
from quarterjack.domain.history.run_change import RunChange
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.run import RunState
from quarterjack.domain.times import DAY, MINUTE, from_ms
from quarterjack.historian.context import HistorianContext
from quarterjack.historian.pages import write_pages
from quarterjack.stores.rows import run_row
from quarterjack.testing import ManualClock, Memory

from tests.support.builders import NOON, a_one_off, a_run

LATER = timedelta(days=2)


class World:
    """An installation whose historian lists what it is told to."""

    def __init__(self) -> None:
        self.clock = ManualClock(from_ms(NOON))
        self.memory = Memory(self.clock)
        self.services = self.memory.connect()
        self.owner = Scheduler("acme", services=self.services, clock=self.clock)
        self._place: str | None = None

    def end(self, *runs: Any, told: bool = True) -> None:
        for run in runs:
            self.memory.put_row(run.ref, run_row(run))
        (shard,) = self.services.stream.shards()[:1]
        page = self.services.stream.read(shard.id, self._place)
        self._place = page.position
        if told:
            self.tell(*page.changes)

    def tell(self, *changes: RunChange) -> None:
        write_pages(changes, HistorianContext(services=self.services, now=self.clock(), batch="b"))

    def check(self) -> HistoryCheck:
        found = HistoryCheck()
        for seed in range(3):  # in a small ledger, all
            one = check_history(self.services, clock=self.clock, random=Random(seed))
            found.compared += one.compared
            found.relisted += one.relisted
        return found

    def listed(self) -> set[str]:
        return {run.id for run in self.owner.list_runs(limit=1_000).items}


@pytest.fixture
def world() -> World:
    world = World()
    world.end(a_run(state=RunState.SUCCEEDED, ended_at=NOON))
    world.clock.advance(LATER)
    return world


def ended(n: int, world: World, **changes: Any) -> Any:
    at = world.clock() - n * MINUTE
    given: dict[str, Any] = {"state": RunState.SUCCEEDED, "ended_at": at, "created_at": at}
    return a_one_off(f"k{n}", due=at, **(given | changes))


def test_what_is_listed_is_left_alone(world: World) -> None:
    world.end(*(ended(n, world) for n in range(20, 60)))
    found = world.check()
    assert found.compared >= 40
    assert found.relisted == 0


def test_what_is_missing_comes_by_the_stream(world: World) -> None:
    runs = [ended(n, world) for n in range(20, 40)]
    world.end(*runs, told=False)
    assert not world.listed() & {str(run.ref) for run in runs}
    world.check()
    world.end()
    assert world.listed() >= {str(run.ref) for run in runs}
    assert world.check().relisted == 0


def test_what_is_listed_otherwise_is_listed_again(world: World) -> None:
    run = ended(30, world)
    world.end(run)
    other = ended(30, world, state=RunState.DEAD)
    world.end(other, told=False)
    assert world.check().relisted
    world.end()
    (found,) = [each for each in world.owner.list_runs().items if each.id == str(one_off_ref("acme", "k30"))]
    assert found.state is RunState.DEAD


@pytest.mark.parametrize(
    "before", [BEHIND - MINUTE, 3 * DAY], ids=["the historian may be behind", "before the history began"]
)
def test_nothing_is_expected_too_early(world: World, before: int) -> None:
    world.end(ended(before // MINUTE, world), told=False)
    assert world.check().relisted == 0
