"""One-offs whose time comes are sent in batches, and one that is odd stops no other."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from quarterjack import Context, Retry
from quarterjack.domain.run import EntryKind, RunState
from quarterjack.testing import Crash

from tests.support.scenes.parking import Parking
from tests.support.scenes.world import Faults, World, crash

MANY = 30
LATER = 600  # seconds ahead: beyond the look-ahead


def world_of(count: int = MANY) -> World:
    """One-offs that are due after ten minutes, at the tick that sees them."""
    world = World()
    for number in range(count):
        world.scheduler.submit("note", {"n": number}, delay=float(LATER))
    assert world.memory.messages() == []
    world.wait(LATER - 60)
    return world


def finished(world: World) -> None:
    """All have run, once, and nothing is left of them in the agenda."""
    world.live(300)
    assert Counter(run.state for run in world.memory.runs()) == {RunState.SUCCEEDED: MANY}
    assert len({start.run_id for start in world.started}) == len(world.started) == MANY
    assert world.entries(EntryKind.RUN) == []


def test_many_are_sent_in_batches() -> None:
    world, faults = world_of(), Faults()
    report = world.tick(world.process(faults))
    assert (report.handled.messages.sent, report.handled.agenda.done, report.handled.agenda.left) == (MANY, MANY, 0)
    asked = Counter(detail.verb for _, detail in faults.calls)
    assert (asked["look"], asked["read"], asked["send"], asked["remove"]) == (1, 0, 3, 2)
    finished(world)


@pytest.mark.parametrize("verb", ["look", "send", "remove"])
def test_what_is_throttled_is_sent_all_the_same(verb: str) -> None:
    world = world_of()
    world.tick(world.process(Faults().at(verb, throttle=[0, 3], times=None)))
    finished(world)


@pytest.mark.parametrize("verb", ["look", "send", "remove"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_ticker_that_dies_loses_none(verb: str, moment: str) -> None:
    world = world_of()
    with pytest.raises(Crash):
        world.tick(world.process(Faults().at(verb, skip=verb != "look", **{moment: crash})), holder="unlucky")
    finished(world)


def test_one_that_has_ended_and_one_that_is_garbage_stop_no_other() -> None:
    world = world_of(4)
    cancelled, broken, *others = sorted(world.memory.runs(), key=lambda run: run.ref)
    world.scheduler.cancel_run(str(cancelled.ref))
    world.memory.put_row(broken.ref, {"owner": broken.ref.owner, "key": broken.ref.key, "state": "PURPLE", "rev": 0})
    report = world.tick()
    assert (report.handled.messages.sent, report.handled.agenda.failed) == (len(others), 1)
    assert [entry.run for entry in world.entries(EntryKind.RUN)] == [broken.ref]


def test_one_that_waits_longer_moves_on() -> None:
    world = world_of(2)
    later = world.clock() + timedelta(hours=1) // timedelta(milliseconds=1)
    (moved, _) = world.memory.runs()
    row = world.memory.row(moved.ref)
    assert row is not None
    world.memory.put_row(moved.ref, row | {"not_before": later})
    report = world.tick()
    assert report.handled.messages.sent == 1
    assert [(entry.run, entry.due) for entry in world.entries(EntryKind.RUN)] == [(moved.ref, later)]


def test_a_single_one_whose_message_is_not_accepted_stays() -> None:
    world = world_of(1)
    report = world.tick(world.process(Faults().at("send", throttle=[0], times=None), rounds=1))
    assert (report.handled.messages.send_failed, report.handled.agenda.left, report.handled.agenda.done) == (1, 1, 0)
    assert len(world.entries(EntryKind.RUN)) == 1
    world.live(300)
    assert [run.state for run in world.memory.runs()] == [RunState.SUCCEEDED]


# Of a run that is under way.


@pytest.mark.parametrize(
    ("job", "payload", "seconds"), [("ask", 120, 130), ("nap", 1_000, 1_005), ("fragile", None, 1_005)]
)
def test_a_run_comes_back_whose_worker_took_it_by_a_message_that_another_has_deleted(
    job: str, payload: int | None, seconds: int
) -> None:
    """The worker stalls with a message until the run's wait, or its pause between two attempts, is over; then it takes it, and dies."""
    world, tried = Parking(), list[str]()

    def fragile(ctx: Context, payload: object) -> str:
        tried.append(ctx.run_id)
        if len(tried) == 1:
            raise ValueError("not now")
        return "done"

    world.jobs.job("fragile", retry=Retry(base=1_000, jitter=0))(fragile)

    def stall() -> None:
        world.wait(600)
        world.work()
        assert world.entries(EntryKind.RUN)
        assert world.memory.messages() == []
        world.wait(seconds)

    run = world.scheduler.submit(job, payload)
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("receive", after=stall).at("lease", after=crash), name="slow"))
    assert world.state(run) == "RUNNING"
    world.live(900)
    assert world.row(run.id).is_terminal
    assert world.memory.entries() == []


def test_the_entry_of_a_run_that_is_under_way_rests_between_looks() -> None:
    """A signal wakes a run before its timer is due, and the slice after it takes 20 minutes."""
    world, faults = Parking(), Faults()

    def long(ctx: Context, payload: object) -> None:
        ctx.wait_for("go", timeout=600)
        for second in range(20, 1_201, 20):
            world.wait(20)
            worker.heartbeat.beat(world.clock())
            if second % 60 == 0:
                world.tick(world.process(faults))

    world.jobs.job("long")(long)
    run = world.parked("long")
    world.scheduler.signal(run.id, "go", 1)
    worker = world.worker(name="patient")
    world.work(worker)
    assert world.state(run) == "SUCCEEDED"
    assert 2 <= sum(detail.verb == "put" for _, detail in faults.calls) <= 5
    world.live(600)
    assert world.memory.entries() == []
