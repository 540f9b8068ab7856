"""A low run that could have started a day ago takes the normal lane from then on: its retries and slices as well, a replay not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import DAY, HOUR, SECOND
from quarterjack.errors import Continue
from quarterjack.testing import Memory

from tests.support.scenes.world import World, at

HIGH, NORMAL, LOW = Priority
OLD, YOUNG = 2 * DAY, HOUR  # ms that a run waits in the low lane


@dataclass
class Aging(World):
    """The default queue has lanes. A job's first attempt ends as it is told."""

    ends: list[type[BaseException]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.memory = Memory(self.clock, prioritised=[None])
        self.services = self.memory.connect()
        self.jobs.job("low", priority="low", retry=Retry(base=60, jitter=0))(self._end)
        self.jobs.job("slow", priority="low", retry=Retry(base=1_000, jitter=0))(self._end)
        self.scheduler = self.owner()

    def _end(self, ctx: Context, payload: Any) -> None:
        self.note(ctx, payload)
        if self.ends:
            raise self.ends.pop()

    def lanes(self) -> Counter[Priority]:
        """Messages of each lane."""
        return Counter({stripe.priority: len(queue) for stripe, queue in self.memory.stripes.items() if len(queue)})


def submit(world: Aging, job: str) -> None:
    world.scheduler.submit(job)


def schedule(world: Aging, job: str) -> None:
    world.scheduler.create_schedule("s", job, "1 12 4 5 *")


@pytest.mark.parametrize(("waits", "lane"), [(OLD, NORMAL), (YOUNG, LOW)])
@pytest.mark.parametrize("end", [ConnectionError, Continue])
@pytest.mark.parametrize("begin", [submit, schedule])
def test_a_retry_and_a_slice_of_an_aged_run_take_the_normal_lane(
    begin: Callable[[Aging, str], None], end: type[BaseException], waits: int, lane: Priority
) -> None:
    world = Aging(ends=[end])
    begin(world, "low")
    assert world.lanes() == {LOW: 1}
    world.wait(waits // SECOND)
    world.work()
    assert (len(world.started), world.lanes()) == (1, {lane: 1})
    world.wait(100)
    world.work()
    assert (len(world.started), world.lanes()) == (2, {})


@pytest.mark.parametrize(("waits", "lane"), [(OLD, NORMAL), (YOUNG, LOW)])
def test_so_does_a_retry_that_waits_in_the_agenda(waits: int, lane: Priority) -> None:
    world = Aging(ends=[ConnectionError])
    submit(world, "slow")
    world.wait(waits // SECOND)
    world.work()
    assert [entry.priority for entry in world.entries(EntryKind.RUN)] == [lane]
    world.wait(1_000)
    world.tick()
    assert world.lanes() == {lane: 1}


def test_so_does_a_fire_that_is_sent_anew_without_a_start() -> None:
    world = Aging()
    schedule(world, "low")
    world.scheduler.freeze(at(5 * DAY // SECOND))
    world.wait(100)
    world.work()
    assert world.lanes() == {LOW: 1}
    world.wait(OLD // SECOND)
    world.work()
    assert (world.lanes(), world.started) == ({NORMAL: 1}, [])


def test_a_replay_and_a_backfill_begin_to_wait_anew() -> None:
    world = Aging()
    run = world.scheduler.submit("low")
    world.wait(OLD // SECOND)
    world.work()
    world.scheduler.replay_run(run.id)
    assert world.lanes() == {LOW: 1}
    world.work()
    world.scheduler.create_schedule("s", "low", "0 0 * * *")
    world.scheduler.backfill("s", world.now() - timedelta(days=9), world.now(), current=True, dry_run=False)
    assert world.lanes()[LOW] >= 1
    assert world.lanes()[NORMAL] == 0
    world.ends.append(ConnectionError)
    world.work()
    world.wait(30)
    assert world.lanes()[NORMAL] == 0, "nor does its retry"
