"""Pauses that end by themselves, and resuming as if there had been none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from quarterjack import RunState, ScheduleState
from quarterjack.domain.run import EntryKind
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.errors import ExpressionError, InvalidInput, Unavailable
from quarterjack.fires.plan import timetable_of
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, OWNER, Faults, World, at, crash, fails


def paused(until: float | None = 600, expression: str = "* * * * *", after: int = 90, **options: Any) -> World:
    """A minutely schedule that is paused 90 seconds after noon."""
    world = World()
    world.scheduler.create_schedule("s", "note", expression, **options)
    world.live(after)
    world.scheduler.pause_schedule("s", until=None if until is None else at(until))
    return world


def head_of(world: World) -> Any:
    (head,) = world.memory.heads()
    return head


# Until.


def test_a_pause_with_an_end_ends_then_and_the_fire_of_that_instant_is_due() -> None:
    world = paused(600)
    assert head_of(world).resume_at == NOON + 600_000
    world.live(500)
    assert world.began() == [60]
    world.live(100)
    assert world.began() == [60, 600, 660]
    head = head_of(world)
    assert (head.state, head.revision, head.resume_at) == (ScheduleState.ACTIVE, 2, None)
    assert [start.at - NOON for start in world.started[1:]] == [600_000, 660_000]
    assert world.entries(EntryKind.RESUME) == []


def test_what_is_due_seconds_after_the_end_starts_in_time() -> None:
    world = paused(610, "rate(10 seconds)")
    world.live(560)
    assert [second for second in world.began() if second > 90] == [610, 620, 630, 640, 650], "the end itself is a fire"
    assert {start.at % 10_000 for start in world.started} == {0}


def test_nothing_starts_before_the_end_although_it_is_resumed_a_little_early() -> None:
    world = paused(640)
    world.live(500)
    world.tick()
    assert head_of(world).state is ScheduleState.ACTIVE, "50 seconds before its end"
    world.live(80)
    assert world.began() == [60, 660]


def test_a_late_ticker_makes_fires_late_and_loses_none() -> None:
    world = paused(600)
    world.wait(900)
    world.live(60)
    assert sorted(world.began()) == [60, *range(600, 1_021, 60)]


def test_an_owner_who_resumes_when_no_ticker_came_loses_nothing_of_what_was_promised() -> None:
    world = paused(600)
    world.wait(900)
    world.scheduler.resume_schedule("s")
    world.live(30)
    assert sorted(world.began()) == [60, *range(600, 1_021, 60)]
    assert world.memory.revisions(OWNER)[1].active_from == NOON + 600_000 - 1


@pytest.mark.parametrize("what", ["resume", "delete", "pause for good", "pause longer", "pause shorter", "update"])
def test_what_an_owner_does_meanwhile_decides(what: str) -> None:
    world = paused(600)
    world.live(60)
    match what:
        case "resume":
            world.scheduler.resume_schedule("s")
            world.scheduler.pause_schedule("s")
        case "delete":
            world.scheduler.delete_schedule("s")
        case "pause for good":
            world.scheduler.pause_schedule("s")
        case "pause longer":
            world.scheduler.pause_schedule("s", until=at(1_200))
        case "pause shorter":
            world.scheduler.pause_schedule("s", until=at(300))
        case "update":
            world.scheduler.update_schedule("s", payload={"n": 1})
    world.live(1_200)
    first = {"pause longer": 1_200, "pause shorter": 300, "update": 600}.get(what)
    assert world.began() == [60, *(range(first, 1_351, 60) if first else ())]
    assert world.entries(EntryKind.RESUME) == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["head", "revisions", "arm", "claim", "send", "put", "remove"])
def test_dying_at_any_call_of_the_end_of_a_pause_loses_and_repeats_nothing(verb: str, moment: str) -> None:
    world = paused(600)
    world.live(450)
    world.wait(60)
    with suppress(Crash):
        world.tick(world.process(Faults().at(verb, **{moment: crash})))
    world.live(300)
    assert world.began() == [60, *range(600, 901, 60)]
    assert len(world.memory.revisions(OWNER)) == 2


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["close", "refuse"])
def test_a_pause_whose_caller_dies_ends_or_never_was(verb: str, moment: str) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.wait(30)
    with suppress(Crash):
        world.owner(Faults().at(verb, **{moment: crash})).pause_schedule("s", until=at(600))
    world.live(700)
    was = (verb, moment) != ("close", "before")
    assert max(world.began()) == 720
    assert (540 in world.began()) is not was
    assert {600, 660, 720} <= set(world.began())


def test_pausing_again_with_the_same_end_finishes_and_writes_nothing() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    with pytest.raises(Unavailable):
        world.owner(Faults().at("refuse", before=fails, times=None)).pause_schedule("s", until=at(600))
    version = head_of(world).version
    world.scheduler.pause_schedule("s", until=at(600))
    assert head_of(world).version == version
    assert {state for _, state in world.states()} == {RunState.CANCELLED}


def test_two_tickers_resume_once() -> None:
    world = paused(600)
    world.live(450)
    world.wait(60)
    world.tick(world.process(Faults().at("arm", before=lambda: world.tick(holder="ticker"))))
    assert len(world.memory.revisions(OWNER)) == 2
    world.live(200)
    assert world.began() == [60, 600, 660, 720, 780][: len(world.began())]


def test_a_schedule_that_came_to_its_end_meanwhile_is_complete() -> None:
    world = paused(600, "at(2026-05-04T12:05:00)")
    world.live(700)
    assert (head_of(world).state, head_of(world).resume_at) == (ScheduleState.COMPLETED, None)
    assert world.entries(EntryKind.RESUME) == []


def test_the_auditor_puts_a_lost_end_again() -> None:
    world = paused(600)
    world.services.agenda.remove(world.entries(EntryKind.RESUME))
    world.audit()
    assert world.entries(EntryKind.RESUME) == [], "the pause goes on"
    world.wait(1_000)
    assert world.audit().rearmed == 1
    world.live(60)
    assert head_of(world).state is ScheduleState.ACTIVE
    assert sorted(world.began())[1:4] == [600, 660, 720]


@pytest.mark.parametrize(
    "until",
    [
        datetime(2026, 5, 4, 12, 0, tzinfo=UTC),
        datetime(2026, 5, 4, 11, 0, tzinfo=UTC),
        datetime(2026, 5, 4, 13, 0),  # noqa: DTZ001 (that is refused)
        datetime(2026, 5, 4, 13, 0, tzinfo=UTC) + timedelta(days=366 * 100),
        3_600,
        "tomorrow",
    ],
)
def test_an_end_that_is_none_is_refused_and_nothing_is_paused(until: Any) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    with pytest.raises(InvalidInput, match=r"until=") as refused:
        world.scheduler.pause_schedule("s", until=until)
    assert refused.value.field == "until"
    assert head_of(world).state is ScheduleState.ACTIVE


# The phase of a rate.


@settings(
    deadline=None, max_examples=60, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)  # shrinking takes minutes
@given(
    period=st.integers(1, 5_000),
    before=st.integers(0, 4_000),
    pauses=st.lists(
        st.tuples(st.integers(1, 9_000), st.booleans(), st.booleans(), st.integers(0, 3_000)), min_size=1, max_size=3
    ),
    automatic=st.booleans(),
)
def test_a_rate_keeps_its_phase_over_every_pause(
    period: int, before: int, pauses: list[tuple[int, bool, bool, int]], automatic: bool
) -> None:
    """Each pause has a length, an end of its own or not, an update meanwhile or not, and a time of activity after it (seconds)."""
    world = World()
    world.scheduler.create_schedule("s", "note", f"rate({period} seconds)", automatic_backfill=automatic)
    world.wait(before)
    for number, (length, ends, changes, active) in enumerate(pauses):
        until = world.now() + timedelta(seconds=length) if ends else None
        world.scheduler.pause_schedule("s", until=until)
        world.wait(length)
        if changes:
            world.scheduler.update_schedule("s", payload=number)
        resumed = world.clock()
        world.scheduler.resume_schedule("s")
        revision = world.memory.revisions(OWNER)[-1]
        fires = list(islice(_after(revision, resumed - 1), 3))
        assert [(fire - NOON) % (period * 1_000) for fire in fires] == [0, 0, 0]
        assert fires[0] - resumed < period * 1_000, "the next one, and none is left out"
        world.wait(active)


def _after(revision: Revision, after: int) -> Iterator[int]:
    table, fire = timetable_of(revision), after
    while (following := table.next(fire)) is not None:
        yield (fire := following)


def test_a_rule_that_was_changed_in_the_pause_counts_from_the_change() -> None:
    world = paused(None, "rate(100 seconds)")
    world.live(20)
    world.scheduler.update_schedule("s", expression="rate(70 seconds)")
    world.live(200)
    world.scheduler.resume_schedule("s")
    world.live(100)
    assert world.began() == [320, 390]


# Automatic backfill.


def test_the_fires_of_a_pause_are_run_when_it_ends() -> None:
    world = paused(None, automatic_backfill=True)
    world.live(600)
    world.scheduler.resume_schedule("s")
    world.live(60)
    assert sorted(world.began()) == list(range(60, 721, 60))
    missed = {run.due for run in world.memory.runs(OWNER) if run.missed}
    assert missed == {NOON + second * 1_000 for second in range(120, 601, 60)}, (
        "those claimed ahead, then taken over too"
    )


@pytest.mark.parametrize(("policy", "late"), [("latest", [3_660]), ("none", [])])
def test_they_are_missed_fires_under_the_catch_up_policy(policy: str, late: list[int]) -> None:
    world = paused(None, automatic_backfill=True, catch_up=policy)
    world.live(3_640)
    world.scheduler.resume_schedule("s")
    world.live(10)
    on_time = [3_720]
    assert sorted(world.began()) == [60, *late, *on_time]
    (gap,) = [run for run in world.memory.runs(OWNER) if run.skipped_until is not None]
    rows = {run.due for run in world.memory.runs(OWNER) if run.ref.is_fire}
    assert gap.skipped == len([s for s in range(120, 3_661, 60) if NOON + s * 1_000 not in rows])


def test_a_rate_keeps_its_phase_over_such_a_pause() -> None:
    world = paused(None, "rate(100 seconds)", automatic_backfill=True)
    world.live(500)
    world.scheduler.resume_schedule("s")
    world.live(200)
    assert sorted(world.began()) == list(range(100, 791, 100))


def test_updates_during_the_pause_do_not_shorten_it() -> None:
    world = paused(None, automatic_backfill=True)
    for number in range(3):
        world.live(120)
        world.scheduler.update_schedule("s", payload={"n": number})
    world.scheduler.resume_schedule("s")
    world.live(10)
    assert sorted(world.began()) == list(range(60, 421, 60))
    assert world.memory.revisions(OWNER)[-1].active_from == NOON + 90_000


def test_it_covers_the_pause_alone_and_no_earlier_one() -> None:
    world = paused(None)
    world.live(120)
    world.scheduler.resume_schedule("s")
    world.live(60)
    world.scheduler.update_schedule("s", automatic_backfill=True)
    world.scheduler.pause_schedule("s")
    world.live(120)
    world.scheduler.resume_schedule("s")
    world.live(10)
    assert sorted(world.began()) == [60, 240, 300, 360]


def test_a_schedule_that_was_deleted_in_a_drain_is_another_one() -> None:
    world = paused(None, automatic_backfill=True)
    world.scheduler.delete_schedule("s", drain=True)
    world.live(600)
    world.scheduler.create_schedule("s", "note", "* * * * *", automatic_backfill=True)
    world.scheduler.pause_schedule("s")
    world.live(120)
    world.scheduler.resume_schedule("s")
    world.live(1)
    assert sorted(world.began()) == [60, 720, 780]


def test_what_was_due_before_the_pause_and_had_not_started_stays_cancelled() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *", automatic_backfill=True)
    world.wait(90)
    world.scheduler.pause_schedule("s")
    world.wait(60)
    world.scheduler.resume_schedule("s")
    world.live(1)
    assert world.began() == [120]
    assert world.run(60).state is RunState.CANCELLED


def test_a_pause_with_an_end_backfills_at_its_end_and_not_before() -> None:
    world = paused(640, automatic_backfill=True)
    world.live(549)
    world.tick()
    assert world.began() == [60]
    world.live(81)
    assert sorted(world.began()) == list(range(60, 721, 60))


def test_a_schedule_without_a_further_fire_after_the_pause_runs_what_it_missed() -> None:
    world = paused(None, "at(2026-05-04T12:05:00)", automatic_backfill=True)
    world.wait(600)
    world.scheduler.resume_schedule("s")
    world.live(1)
    assert (world.began(), head_of(world).state) == ([300], ScheduleState.COMPLETED)


def test_without_it_a_pause_swallows_what_was_due_in_it() -> None:
    world = paused(None, "at(2026-05-04T12:05:00)")
    world.wait(600)
    with pytest.raises(ExpressionError):
        world.scheduler.resume_schedule("s")
    assert world.memory.revisions(OWNER)[0].closed_by is ClosedBy.PAUSED
