"""Priorities from the door to the lane: of a job, a schedule, a submission, a trigger; and as far as the tenant may."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry, Scheduler
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import DAY, HOUR
from quarterjack.errors import InvalidInput, KeyReused
from quarterjack.testing import ManualClock, Memory
from quarterjack.ticker.tick import tick

from tests.support.scenes.laned import NOON
from tests.support.scenes.laned import LanedScene as Scene

HIGH, NORMAL, LOW = Priority


def test_a_submission_says_its_priority_or_has_its_jobs() -> None:
    scene = Scene()
    scene.scheduler.submit("note")
    scene.scheduler.submit("urgent")
    scene.scheduler.submit("idle")
    assert scene.lanes() == {"high": 1, "normal": 1, "low": 1}
    scene.scheduler.submit("note", priority="low")
    scene.scheduler.submit("urgent", priority="normal")
    scene.scheduler.submit("idle", priority=HIGH)
    assert scene.lanes() == {"high": 2, "normal": 2, "low": 2}
    assert len(scene.harness.advance(minutes=1)) == 6
    assert scene.lanes() == {}


def test_a_queue_without_lanes_takes_all_the_same_way() -> None:
    scene = Scene()
    for priority in Priority:
        scene.scheduler.submit("plain", priority=priority)
    assert (len(scene.harness.memory.work), scene.lanes()) == (3, {})
    assert len(scene.harness.advance(minutes=1)) == 3


def test_the_fires_of_a_schedule_take_its_lane_and_change_with_it() -> None:
    scene = Scene()
    scene.scheduler.create_schedule("own", "note", "* * * * *", priority="high")
    scene.scheduler.create_schedule("job", "idle", "* * * * *")
    assert set(scene.lanes()) == {"high", "low"}
    found = {name: scene.policies(name) for name in ("own", "job")}
    assert found == {"own": {"priority": "high"}, "job": {"priority": "low"}}
    scene.scheduler.update_schedule("own", priority="low")
    scene.harness.advance(minutes=3)
    assert set(scene.lanes()) == {"low"}


def test_a_trigger_says_its_priority_and_keeps_the_rest_of_the_schedules_policies() -> None:
    scene = Scene()
    scene.scheduler.create_schedule("s", "note", "0 0 1 1 *", priority="low", timeout=5)
    scene.scheduler.trigger("s")
    run = scene.scheduler.trigger("s", priority="high", idempotency_key="k")
    assert scene.lanes() == {"high": 1, "low": 1}
    assert scene.scheduler.trigger("s", priority="high", idempotency_key="k").id == run.id
    with pytest.raises(KeyReused, match="overrides"):
        scene.scheduler.trigger("s", priority="low", idempotency_key="k")
    assert len(scene.harness.advance(minutes=1)) == 2
    again = scene.scheduler.replay_run(run.id)
    assert scene.lanes() == {"high": 1}
    row = next(row for row in scene.harness.memory.runs() if str(row.ref) == again.id)
    assert row.overrides == '{"priority":"high","timeout":5}'


def test_a_retry_takes_the_lane_of_its_run() -> None:
    scene = Scene()
    scene.scheduler.submit("flaky", "done")
    scene.harness.advance(seconds=10)
    assert scene.lanes() == {"low": 1}
    scene.harness.advance(minutes=2)
    assert scene.ran == ["done"]


@pytest.mark.parametrize(("late", "lane"), [(DAY - 1, LOW), (DAY, NORMAL)])
def test_what_lies_in_the_agenda_for_a_day_is_sent_as_normal(late: int, lane: Priority) -> None:
    clock = ManualClock(NOON)
    memory = Memory(clock, prioritised=[None])
    jobs = Registry()
    jobs.job("idle", priority="low")(lambda ctx, payload: None)
    scheduler = Scheduler(jobs=jobs, services=memory.connect(), clock=clock)
    scheduler.submit("idle", delay=3_600)
    scheduler.create_schedule("s", "idle", "0 13 4 5 *", automatic_backfill=True)
    assert not any(len(stripe) for stripe in memory.stripes.values()), "an hour ahead nothing is sent"
    clock.reach(clock() + HOUR + late)
    tick(memory.connect(), clock=clock, holder="ticker")
    assert {stripe.priority for stripe, found in memory.stripes.items() if len(found)} == {lane}
    assert len(memory.messages()) == 2


@pytest.mark.parametrize(("age", "lane"), [(61_000, LOW), (60_000, NORMAL)])
def test_after_how_long_is_a_setting(age: int, lane: Priority) -> None:
    clock = ManualClock(NOON)
    memory = Memory(clock, prioritised=[None], low_age=age)
    jobs = Registry()
    jobs.job("idle", priority="low")(lambda ctx, payload: None)
    Scheduler(jobs=jobs, services=memory.connect(), clock=clock).submit("idle", delay=3_600)
    clock.reach(clock() + HOUR + 60_000)
    tick(memory.connect(), clock=clock, holder="ticker")
    assert [stripe.priority for stripe, found in memory.stripes.items() if len(found)] == [lane]


# What a tenant may.


def test_what_asks_for_more_than_the_tenant_may_is_refused_by_the_limits_name() -> None:
    scene = Scene()
    scene.limit("normal")
    scene.scheduler.create_schedule("s", "note", "0 0 1 1 *", priority="low")
    for act in (
        lambda: scene.scheduler.submit("note", priority="high"),
        lambda: scene.scheduler.create_schedule("t", "note", "* * * * *", priority="high"),
        lambda: scene.scheduler.upsert_schedule("t", "note", "* * * * *", priority="high"),
        lambda: scene.scheduler.update_schedule("s", priority="high"),
        lambda: scene.scheduler.trigger("s", priority="high"),
    ):
        with pytest.raises(InvalidInput, match="priority='high': is above highest_priority='normal'") as refused:
            act()
        assert refused.value.remedy == "use 'normal', 'low', or have the limit raised"
    assert scene.lanes() == {}
    scene.scheduler.submit("note", priority="normal")
    scene.scheduler.submit("note", priority="low")
    assert scene.lanes() == {"normal": 1, "low": 1}


def test_what_a_job_has_in_excess_is_lowered() -> None:
    scene = Scene()
    scene.limit("low")
    scene.scheduler.submit("urgent")
    scene.scheduler.submit("note")
    scene.scheduler.create_schedule("s", "urgent", "0 0 1 1 *")
    assert scene.lanes() == {"low": 2}
    assert scene.policies("s") == {"priority": "low"}


def test_a_replay_has_no_more_than_the_tenant_may_by_now() -> None:
    scene = Scene()
    run = scene.scheduler.submit("urgent")
    scene.harness.advance(minutes=1)
    scene.limit("low")
    scene.harness.advance(minutes=1)
    scene.scheduler.replay_run(run.id)
    assert scene.lanes() == {"low": 1}


def test_the_limit_is_taken_back_and_the_installations_counts() -> None:
    scene = Scene()
    scene.limit("low")
    scene.limit(None)
    scene.harness.tenants.set("~installation", limits={"highest_priority": "normal"})
    with pytest.raises(InvalidInput, match="highest_priority='normal'"):
        scene.scheduler.submit("note", priority="high")
    assert scene.harness.tenants.get("default").limits == {}
    assert scene.harness.tenants.get("~installation").limits == {"highest_priority": "normal"}


@pytest.mark.parametrize("word", ["", "urgent", 1, True])
def test_a_word_that_is_none_is_refused(word: Any) -> None:
    scene = Scene()
    with pytest.raises(InvalidInput, match="priority"):
        scene.scheduler.submit("note", priority=word)
    with pytest.raises(InvalidInput, match=r"limits\.highest_priority"):
        scene.limit(word)


def test_a_day_is_a_day() -> None:
    assert Scene().harness.memory.connect().work.low_age == DAY
