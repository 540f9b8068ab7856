"""Runs that take longer than SQS hides a message: 12 hours from its receipt, whatever the heartbeat asks for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from quarterjack import Context, RunState
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.sqs.routing import MAX_VISIBILITY
from quarterjack.state.lease import HEARTBEAT, LEASE, SKEW
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import RETURNS

from tests.support.scenes.world import NOON, Faults, World, crash


@dataclass
class Marathon(World):
    """One worker runs a job for hours, and sends its heartbeats; another takes what is visible, the ticker ticks, letters are buried."""

    hook: Hook | None = None  # of the first worker

    def __post_init__(self) -> None:
        super().__post_init__()
        self.first = self.worker(self.hook, name="first")
        self.took = Counter[str]()  # what the other worker did with the messages that it got
        self.came = list[int]()  # ms after NOON at which it got one

    def run_for(self, ms: int) -> None:
        """The first worker takes the run, whose job lasts so long."""

        def lasts(ctx: Context) -> None:
            del ctx
            self.during = lambda ctx: None
            other = self.worker(name="other")
            while self.clock() - NOON < ms:
                self.reach(self.clock() + HEARTBEAT)
                self.first.heartbeat.beat(self.clock())
                outcomes = self.work(other)
                self.took.update(f"{outcome.action} {outcome.why}" for outcome in outcomes)
                self.came += [self.clock() - NOON] * len(outcomes)
                bury_all(self.services, self.clock)
                if (self.clock() - NOON) % MINUTE == 0:
                    self.tick()

        self.during = lasts
        self.work(self.first)

    def is_at_rest(self) -> None:
        """Nothing starts again, and no message is left."""
        self.live(15 * 60)
        assert (len(self.started), len(self.memory.work), len(self.memory.dead)) == (1, 0, 0)


def test_a_run_of_more_than_twelve_hours_is_started_once() -> None:
    world = Marathon()
    run = world.scheduler.submit("note", {}).id
    world.run_for(14 * HOUR)
    assert world.came, "its message showed"
    assert min(world.came) >= MAX_VISIBILITY * SECOND - 2 * HEARTBEAT, "and not before SQS refused to hide it"
    assert {word.partition(" ")[2] for word in world.took} == {"live_lease"}
    assert len(world.started) == 1
    ended = world.scheduler.get_run(run)
    assert (ended.state, ended.attempt) == (RunState.SUCCEEDED, 1)
    world.is_at_rest()


def test_an_at_most_once_run_of_such_a_length_has_no_message_and_is_not_lost() -> None:
    world = Marathon()
    run = world.scheduler.submit("once", {}).id
    world.run_for(14 * HOUR)
    assert world.came == []
    assert world.scheduler.get_run(run).state is RunState.SUCCEEDED
    world.is_at_rest()


def test_a_worker_that_vanishes_after_thirteen_hours_is_noticed_in_the_time_of_a_lease() -> None:
    dies = Faults().at("succeed", before=crash, times=None).at("settle", before=crash, times=None)
    world = Marathon(hook=dies)
    world.scheduler.submit("note", {})
    with pytest.raises(Crash):
        world.run_for(13 * HOUR)
    vanished = world.clock()
    world.live(3 * 60)
    assert [start.attempt for start in world.started] == [1, 2]
    assert world.started[1].at - vanished <= LEASE + SKEW + 2 * HEARTBEAT


def test_a_run_whose_message_sqs_gives_up_is_not_dead_while_its_worker_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1,000 receipts SQS moves a message to the dead letters, which takes a run of four days to happen as often as here."""
    monkeypatch.setattr("quarterjack.testing.memory.queues.MAX_RECEIVES", 3)
    world = Marathon()
    run = world.scheduler.submit("note", {}).id
    world.run_for(13 * HOUR)
    assert len(world.came) > 3 * (RETURNS + 2), "it was moved more often than a message that nobody holds is sent back"
    assert len(world.started) == 1
    assert world.scheduler.get_run(run).state is RunState.SUCCEEDED
    world.is_at_rest()
