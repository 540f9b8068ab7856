"""Skip the next fire: exactly one, whoever else is about to claim or start it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from quarterjack import RunState
from quarterjack.domain.times import DAY, SECOND
from quarterjack.errors import Conflict, InvalidInput, NotFound, Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, OWNER, Faults, World, at, crash, fails


def minutely(expression: str = "* * * * *", **options: Any) -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", expression, **options)
    return world


def skip(world: World) -> int:
    """The second after noon of the fire that was skipped."""
    run = world.scheduler.skip_next("s")
    assert (run.state, run.reason) == (RunState.SKIPPED, "skip_next")
    return int(run.due.timestamp()) - NOON // SECOND


def test_a_fire_that_is_queued_already_is_skipped_and_the_others_start() -> None:
    world = minutely()
    world.live(70)
    assert RunState.QUEUED is world.run(120).state
    assert skip(world) == 120
    world.live(180)
    assert world.began() == [60, 180, 240]


def test_a_fire_that_nobody_has_claimed_yet_is_skipped() -> None:
    world = minutely("0 * * * *")
    assert skip(world) == 3_600
    world.live(2 * 3_600)
    assert world.began() == [7_200]
    assert world.run(3_600).state is RunState.SKIPPED


def test_called_twice_it_skips_two() -> None:
    world = minutely()
    world.live(70)
    assert [skip(world), skip(world), skip(world)] == [120, 180, 240]
    world.live(300)
    assert world.began() == [60, 300, 360]


def test_what_has_started_is_not_skipped() -> None:
    world = minutely()
    world.live(60)
    assert skip(world) == 120
    assert world.run(60).state is RunState.SUCCEEDED


def test_nothing_else_about_the_schedule_changes() -> None:
    world = minutely("0 * * * *")
    before = world.scheduler.get_schedule("s")
    skip(world)
    assert world.scheduler.get_schedule("s") == before
    world.scheduler.update_schedule("s", payload={"n": 1})
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s")
    world.live(2 * 3_600)
    assert world.began() == [7_200], "the skip outlasts them"


def test_after_a_resume_a_fire_that_the_pause_took_back_is_skipped_for_good() -> None:
    world = minutely()
    world.live(70)
    world.scheduler.pause_schedule("s")
    world.owner(Faults().at("claim", before=fails, times=None)).resume_schedule("s")
    assert world.run(120).state is RunState.CANCELLED
    assert skip(world) == 120
    world.live(180)
    assert world.began() == [60, 180, 240]


def test_a_skip_of_next_year_is_not_forgotten_before() -> None:
    world = minutely("0 0 1 1 *")
    skip(world)
    (run,) = world.memory.runs(OWNER)
    row = world.memory.row(run.ref)
    assert row is not None
    assert row["ttl"] == (run.due + 90 * DAY) // SECOND


# Races.


@pytest.mark.parametrize("verb", ["claim", "send", "put", "remove"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_ticker_at_work_claims_it_or_finds_it_skipped(verb: str, moment: str) -> None:
    world = minutely("4 12 * * *")
    world.wait(120)
    faults = Faults().at(verb, **{moment: lambda: skip(world)})
    world.tick(world.process(faults))
    world.live(300)
    assert world.began() == []
    assert world.run(240).state is RunState.SKIPPED


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_is_about_to_lease_loses_or_wins(moment: str) -> None:
    world = minutely("4,9 12 * * *")
    world.live(239)
    skipped: list[int] = []
    worker = world.worker(Faults().at("lease", **{moment: lambda: skipped.append(skip(world))}))
    world.wait(0.5)
    world.live(2, worker=worker)
    assert (world.began(), skipped) == (([], [240]) if not skipped or skipped == [240] else ([240], [540]))
    assert len(skipped) == 1


def test_two_callers_skip_two_fires() -> None:
    world = minutely("0 * * * *")
    other: list[int] = []

    late = world.owner(Faults().at("claim", before=lambda: other.append(skip(world))))
    assert late.skip_next("s").due == at(7_200)
    assert other == [3_600]


@pytest.mark.parametrize("queued", [False, True])
def test_an_answer_that_got_lost_skips_no_second_fire(queued: bool) -> None:
    world = minutely("0 * * * *")
    if queued:
        world.live(3_500)
    lost = Faults().at("skip" if queued else "claim", after=fails)
    assert world.owner(lost).skip_next("s").due == at(3_600)
    assert [run.state for run in world.memory.runs(OWNER)] == [RunState.SKIPPED]


@pytest.mark.parametrize("verb", ["claim", "skip"])
def test_without_an_answer_the_caller_is_told(verb: str) -> None:
    world = minutely()
    world.live(70)
    with pytest.raises(Unavailable):
        world.owner(Faults().at(verb, before=fails, times=None)).skip_next("s")
    assert skip(world) == 120


@pytest.mark.parametrize("verb", ["head", "revisions", "claim", "skip"])
def test_a_caller_that_dies_skips_one_fire_or_none(verb: str) -> None:
    world = minutely()
    world.live(70)
    with suppress(Crash):
        world.owner(Faults().at(verb, after=crash)).skip_next("s")
    world.live(120)
    assert world.began() == ([60, 180] if verb == "skip" else [60, 120, 180])


# Refusals.


def test_what_is_not_about_to_start_cannot_be_skipped() -> None:
    world = minutely("at(2026-05-04T12:01:00)")
    assert skip(world) == 60, "it is COMPLETED: all it has is claimed"
    with pytest.raises(Conflict, match="no further fire"):
        world.scheduler.skip_next("s")
    world = minutely()
    world.scheduler.pause_schedule("s")
    with pytest.raises(Conflict, match="resume it first"):
        world.scheduler.skip_next("s")
    world.scheduler.delete_schedule("s")
    with pytest.raises(NotFound):
        world.scheduler.skip_next("s")
    with pytest.raises(InvalidInput, match="name="):
        world.scheduler.skip_next("a b")
