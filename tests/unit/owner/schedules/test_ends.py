"""Schedules that end: by a time, by a count, and gone afterwards if their owner wants that."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from quarterjack import Rule, RunState, ScheduleState
from quarterjack.errors import ExpressionError, NotFound
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, OWNER, Faults, World, at, crash, fails


def ending(rule: Rule | str = "at(2026-05-04T12:02:00)", **options: Any) -> World:
    world = World()
    world.scheduler.create_schedule("s", "note", rule, **options)
    return world


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [
        (Rule(expression="* * * * *", start=at(90)), list(range(120, 601, 60))),
        (Rule(expression="* * * * *", start=at(120)), list(range(120, 601, 60))),
        (Rule(expression="* * * * *", end=at(180)), [60, 120, 180]),
        (Rule(expression="* * * * *", start=at(90), end=at(200)), [120, 180]),
        (Rule(expression="* * * * *", max_fires=3), [60, 120, 180]),
        (Rule(expression="rate(90 seconds)", max_fires=2), [90, 180]),
        (Rule(expression="* * * * *", start=at(200), max_fires=2), [240, 300]),
    ],
)
def test_start_end_and_max_fires_hold(rule: Rule, seconds: list[int]) -> None:
    world = ending(rule)
    world.live(600)
    assert world.began() == seconds
    (head,) = world.memory.heads()
    unbounded = rule.end is None and rule.max_fires is None
    assert head.state is (ScheduleState.ACTIVE if unbounded else ScheduleState.COMPLETED)


def test_a_count_goes_on_over_updates_that_keep_the_rule() -> None:
    world = ending(Rule(expression="* * * * *", max_fires=3))
    world.live(70)
    world.scheduler.update_schedule("s", payload={"n": 1})
    world.live(600)
    assert world.began() == [60, 120, 180]


def test_a_rule_that_has_ended_before_it_begins_is_refused() -> None:
    with pytest.raises(ExpressionError):
        ending(Rule(expression="* * * * *", end=at(-60)))


def test_a_schedule_deletes_itself_after_its_last_fire_and_its_runs_stay() -> None:
    world = ending(Rule(expression="* * * * *", max_fires=2), delete_after_completion=True)
    world.live(300)
    assert world.began() == [60, 120]
    assert [head.state for head in world.memory.heads()] == [ScheduleState.DELETED]
    with pytest.raises(NotFound):
        world.scheduler.get_schedule("s")
    runs = world.scheduler.list_runs("s").items
    assert [world.scheduler.get_run(run.id).state for run in runs] == [RunState.SUCCEEDED] * 2
    again = world.scheduler.create_schedule("s", "note", "* * * * *")
    assert again.revision == 2


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["claim", "send", "complete", "remove"])
def test_a_ticker_that_dies_on_the_way_is_followed_by_one_that_finishes(verb: str, moment: str) -> None:
    world = World()
    with pytest.raises(Crash):
        world.owner(Faults().at("arm", after=crash)).create_schedule(
            "s", "note", "at(2026-05-04T12:02:00)", delete_after_completion=True
        )
    with suppress(Crash):
        world.tick(world.process(Faults().at(verb, **{moment: crash})))
    world.live(200)
    assert world.began() == [120]
    assert world.memory.heads()[0].state is ScheduleState.DELETED
    assert world.memory.entries() == []


def test_one_that_was_changed_meanwhile_is_not_deleted() -> None:
    world = World()
    with pytest.raises(Crash):
        world.owner(Faults().at("arm", after=crash)).create_schedule(
            "s", "note", "at(2026-05-04T12:02:00)", delete_after_completion=True
        )
    change = Faults().at("complete", before=lambda: world.scheduler.update_schedule("s", expression="0 18 * * *"))
    world.tick(world.process(change))
    assert world.memory.heads()[0].state is ScheduleState.ACTIVE


def test_the_end_of_a_pause_may_be_the_end_of_the_schedule() -> None:
    world = ending("at(2026-05-04T12:05:00)", delete_after_completion=True)
    world.scheduler.pause_schedule("s", until=at(600))
    world.live(700)
    assert world.memory.heads()[0].state is ScheduleState.DELETED
    assert world.began() == []
    assert world.memory.revisions(OWNER)[0].active_until == NOON


def test_the_auditor_finishes_what_no_chain_is_left_for() -> None:
    world = World()
    with pytest.raises(Crash):
        world.owner(Faults().at("arm", after=crash)).create_schedule(
            "s", "note", "at(2026-05-04T12:02:00)", delete_after_completion=True
        )
    world.tick(world.process(Faults().at("complete", before=fails, times=None)))
    world.services.agenda.remove(world.memory.entries())
    world.audit()
    assert world.memory.heads()[0].state is ScheduleState.DELETED
