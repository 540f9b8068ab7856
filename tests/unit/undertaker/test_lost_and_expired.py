"""What is LOST or EXPIRED is listed beside the dead, whoever dies on the way; what is LOST is repeated only on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from quarterjack import DeadRun
from quarterjack.domain.message import DeadLetter, Message, encode_letter
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunState
from quarterjack.errors import Conflict
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import bury_all
from quarterjack.undertaker.bury import bury_one

from tests.support.scenes.dead_runs import bury_again, crash_everywhere, listed
from tests.support.scenes.world import Faults, World, crash

Step = Callable[[World, Hook], None]


def tick(world: World, hook: Hook) -> None:
    world.tick(world.process(hook))


def work(world: World, hook: Hook) -> None:
    world.work(world.worker(hook))


def lost(world: World) -> str:
    """An at-most-once run whose worker vanished, so long ago that its lease is over."""
    run = world.scheduler.submit("once", {"n": 1})

    def dies(ctx: object) -> None:
        raise Crash

    world.during = dies
    with pytest.raises(Crash):
        world.work()
    world.during = lambda ctx: None
    world.wait((LEASE + 3 * SKEW) / 1_000)
    return run.id


def overdue(world: World) -> str:
    """A run whose deadline passed before a worker had time for it."""
    run = world.scheduler.submit("note", {"n": 1}, deadline=60)
    world.wait(61)
    return run.id


CASES: Sequence[tuple[Callable[[World], str], Step, RunState]] = (
    (lost, tick, RunState.LOST),
    (overdue, work, RunState.EXPIRED),
)


@pytest.mark.parametrize(("scene", "step", "state"), CASES)
def test_they_are_listed_with_their_state(scene: Callable[[World], str], step: Step, state: RunState) -> None:
    world = World()
    run_id = scene(world)
    step(world, Hook())
    bury_again(world)
    (dead,) = listed(world)
    now = world.scheduler.get_run(run_id)
    assert (dead.id, dead.state, dead.reason) == (run_id, state, now.reason)
    assert (now.state, dead.ended_at) == (state, now.ended_at)


@pytest.mark.parametrize(("scene", "step", "state"), CASES)
def test_a_crash_at_any_call_loses_none_and_lists_none_twice(
    scene: Callable[[World], str], step: Step, state: RunState
) -> None:
    def act(hook: Hook, survived: Callable[[], None]) -> None:
        world = World()
        run_id = scene(world)
        try:
            step(world, hook)
            survived()
        except Crash:
            world.wait(900)  # what was at hand is visible again
            world.live(300)
        bury_again(world)
        assert [(dead.id, dead.state) for dead in listed(world)] == [(run_id, state)]

    assert crash_everywhere(act) > 2 * 3


def test_a_watch_that_comes_after_a_worker_found_it_reports_nothing_anew() -> None:
    world = World()
    lost(world)
    world.tick()
    bury_again(world)
    before = listed(world)
    world.live(300)
    assert (listed(world), len(world.memory.dead)) == (before, 0)


def test_a_report_of_what_is_not_so_is_dropped() -> None:
    """An expired run's letter is about one revision: a later one has taken the run over before it came."""
    world = World()
    run = world.scheduler.submit("note", {"n": 1})
    ref = parse_run_id(run.id)
    order = Message(run=ref, revision=0, not_before=0)
    world.memory.dead.put(encode_letter(DeadLetter(body=order.encode(), reason="deadline passed", state="EXPIRED")))
    (letter,) = world.services.dead.receive(most=1, wait=0)
    assert bury_one(letter, world.services, world.clock).action == "dropped"
    assert listed(world) == []
    world.work()
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def dead_of_both(world: World) -> tuple[DeadRun, DeadRun]:
    lost(world)
    world.tick()
    overdue(world)
    world.work()
    bury_again(world)
    newest, oldest = listed(world)
    return oldest, newest


def test_what_expired_is_redriven_and_what_is_lost_only_on_demand() -> None:
    world = World()
    gone, late = dead_of_both(world)
    done = world.scheduler.redrive(job="note")
    assert [run.id for run in done.runs] == [late.id]
    with pytest.raises(Conflict, match="allow_repeat"):
        world.scheduler.redrive(gone.id)
    refused = world.scheduler.redrive(job="once")
    assert (refused.count, list(refused.failed)) == (0, [gone.id])
    assert world.scheduler.redrive(job="once", allow_repeat=True).count == 1
    started = len(world.started)
    world.work()
    assert len(world.started) == started + 2
    assert listed(world) == []


def test_a_dry_run_says_that_a_lost_run_needs_consent() -> None:
    world = World()
    gone, _ = dead_of_both(world)
    assert list(world.scheduler.redrive(job="once", dry_run=True).failed) == [gone.id]
    assert world.scheduler.redrive(job="once", dry_run=True, allow_repeat=True).count == 1


def test_a_purge_takes_them_off_the_list_as_well() -> None:
    world = World()
    dead_of_both(world)
    assert world.scheduler.purge(job="once") == 1
    assert [dead.state for dead in listed(world)] == [RunState.EXPIRED]


def test_a_worker_that_finds_an_abandoned_run_reports_it() -> None:
    """Its message came twice: the second worker meets a lease that is over, before the ticker's watch does."""
    world = World()
    run = world.scheduler.submit("once", {"n": 1})
    (message,) = list(world.memory.work)
    body = message.body

    def dies(ctx: object) -> None:
        raise Crash

    world.during = dies
    with pytest.raises(Crash):
        world.work()
    world.during = lambda ctx: None
    world.wait((LEASE + 3 * SKEW) / 1_000)
    world.memory.work.put(body)
    world.work()
    bury_again(world)
    assert [(dead.id, dead.state) for dead in listed(world)] == [(run.id, RunState.LOST)]


def test_a_worker_whose_clock_is_behind_reports_what_another_found_overdue_and_died() -> None:
    world = World()
    run_id = overdue(world)
    with pytest.raises(Crash):
        world.work(world.worker(Faults().at("expire", after=crash)))
    assert world.scheduler.get_run(run_id).state is RunState.EXPIRED
    assert listed(world) == []
    world.clock.advance(timedelta(seconds=100))  # its message comes back
    behind = replace(world.worker(), clock=lambda: world.clock() - 2 * LEASE)
    world.work(behind)
    bury_all(world.process(), world.clock)
    assert [line.id for line in listed(world)] == [run_id]
