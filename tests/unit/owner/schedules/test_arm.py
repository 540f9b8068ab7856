"""Create: one transaction arms a schedule; what is due before the next tick starts at once."""

from __future__ import annotations

import itertools

import pytest
from quarterjack import RunState, ScheduleState
from quarterjack.errors import AlreadyExists, Conflict, ExpressionError, NotFound, Unavailable
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, OWNER, Faults, World, crash, fails


def test_a_schedule_due_in_five_seconds_starts_in_five_seconds() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:00:05)")
    assert world.sent() == [5]
    world.wait(5)
    world.work()
    assert [(start.at - NOON) // 1000 for start in world.started] == [5]


def test_creation_sends_what_is_due_before_the_next_tick_can_and_no_more() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/25 * * * * *")
    assert world.fires() == world.sent() == [25, 50, 60]
    assert world.chain() == [85]
    world.live(300)
    assert world.began() == sorted({*range(25, 300, 60), *range(50, 300, 60), *range(60, 301, 60)})


def test_each_act_on_a_dense_schedule_sends_seventy_five_seconds() -> None:
    """What an act sends, the next one makes stale: workers receive it for nothing."""
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * * *")
    assert len(world.sent()) == 75
    world.scheduler.update_schedule("s", payload=1)
    assert len(world.sent()) == 150
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s")
    assert len(world.sent()) == 225
    world.live(200)
    assert world.began() == list(range(1, 201)), "and no fire is left out by it"


def test_a_schedule_due_much_later_leaves_only_its_entry() -> None:
    world, faults = World(), Faults()
    world.owner(faults).create_schedule("s", "note", "0 18 * * *")
    assert (world.fires(), world.sent(), world.chain()) == ([], [], [6 * 3600])
    assert faults.verbs() == ["head", "layout", "raise_shards", "register", "arm"], "a creation is one transaction"
    assert faults.profile_reads == 1, "and a read in five seconds"


def test_the_head_says_what_was_created() -> None:
    world = World()
    made = world.scheduler.create_schedule(
        "s", "note", "0 9 * * 1-5", timezone="Europe/Berlin", description="d", tags={"a": "b"}
    )
    assert (made.state, made.revision, made.version, made.description) == (ScheduleState.ACTIVE, 1, 1, "d")
    assert made.created_at == made.updated_at == world.now()
    (revision,) = world.memory.revisions(OWNER)
    assert (revision.active_from, revision.active_until, revision.closed_by) == (NOON, None, None)


def test_a_name_is_taken_once() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    with pytest.raises(AlreadyExists, match="choose another name"):
        world.scheduler.create_schedule("s", "note", "0 * * * *")
    assert len(world.memory.revisions(OWNER)) == 1
    assert len(world.memory.entries()) == 1


def test_an_expression_that_never_fires_again_is_refused_and_leaves_nothing() -> None:
    world = World()
    with pytest.raises(ExpressionError):
        world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:00:00)")
    assert (world.memory.heads(), world.memory.revisions(OWNER), world.memory.entries()) == ([], [], [])


def test_dying_right_after_arming_costs_at_most_a_tick() -> None:
    world = World()
    owner = world.owner(Faults().at("arm", after=crash))
    with pytest.raises(Crash):
        owner.create_schedule("s", "note", "* * * * *")
    assert (world.fires(), world.chain()) == ([], [60])
    world.live(60)
    assert world.began() == [60]


def test_dying_before_arming_leaves_nothing() -> None:
    world = World()
    owner = world.owner(Faults().at("arm", before=crash))
    with pytest.raises(Crash):
        owner.create_schedule("s", "note", "* * * * *")
    assert (world.memory.heads(), world.memory.revisions(OWNER), world.memory.entries()) == ([], [], [])


@pytest.mark.parametrize("verb", ["revisions", "claim", "send", "put", "remove"])
def test_a_service_that_fails_after_arming_leaves_the_rest_to_the_tick(verb: str) -> None:
    world = World()
    owner = world.owner(Faults().at(verb, before=fails, times=None))
    made = owner.create_schedule("s", "note", "* * * * *")
    assert made.state is ScheduleState.ACTIVE
    world.live(180)
    assert world.began() == [60, 120, 180]


def test_an_answer_lost_on_the_way_is_no_failure() -> None:
    world = World()
    owner = world.owner(Faults().at("arm", after=fails))
    assert owner.create_schedule("s", "note", "* * * * *").revision == 1


def test_when_nothing_answers_the_caller_is_told() -> None:
    world = World()
    owner = world.owner(Faults().at("arm", before=fails, times=None))
    with pytest.raises(Unavailable):
        owner.create_schedule("s", "note", "* * * * *")


def test_of_two_who_create_one_is_told() -> None:
    world = World()
    quick = world.owner()
    slow = world.owner(Faults().at("arm", before=lambda: quick.create_schedule("s", "note", "0 * * * *")))
    with pytest.raises(AlreadyExists):
        slow.create_schedule("s", "note", "* * * * *")
    (head,) = world.memory.heads()
    assert head.expression == "0 * * * *"
    assert len(world.memory.revisions(OWNER)) == 1


def test_one_who_always_comes_second_is_told_of_the_conflict() -> None:
    world = World()
    quick, numbers = world.owner(), itertools.count()
    quick.create_schedule("s", "note", "0 * * * *")
    meanwhile = Faults().at("arm", before=lambda: quick.update_schedule("s", payload=next(numbers)), times=None)
    with pytest.raises(Conflict, match="others changed it 5 times"):
        world.owner(meanwhile).update_schedule("s", payload="his")
    assert world.memory.heads()[0].revision == 6


def test_only_what_exists_can_be_changed() -> None:
    world = World()
    for change in (world.scheduler.resume_schedule, world.scheduler.pause_schedule, world.scheduler.delete_schedule):
        with pytest.raises(NotFound, match="no schedule of that name"):
            change("s")
    with pytest.raises(NotFound, match="no schedule of that name"):
        world.scheduler.update_schedule("s", description="x")


def test_what_was_seen_may_be_demanded() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 * * * *")
    world.scheduler.update_schedule("s", expected_revision=1, payload="x")
    with pytest.raises(Conflict, match="saw revision 1, but revision 2 is current"):
        world.scheduler.update_schedule("s", expected_revision=1, payload="y")


def test_a_schedule_completes_when_its_last_fire_is_claimed() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:05:00)")
    world.live(180)
    assert world.scheduler.get_schedule("s").state is ScheduleState.COMPLETED
    assert world.memory.entries() == []
    world.live(120)
    assert world.states() == [(300, RunState.SUCCEEDED)]
