"""Submit: entry, run, message, in this order; dying between any two leaves something that is finished or dropped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Retry, RunState
from quarterjack.domain.run import EntryKind
from quarterjack.domain.times import SECOND
from quarterjack.errors import AlreadyExists, KeyReused, Unavailable
from quarterjack.owner.runs.submit import ORPHAN_PATIENCE
from quarterjack.testing import Crash

from tests.support.scenes.world import NOON, Faults, World, at, crash, fails

MOMENTS = ("before", "after")


def runs(world: World) -> list[tuple[float, RunState]]:
    return [((run.due - NOON) / 1000, run.state) for run in world.memory.runs()]


def test_it_runs_at_once() -> None:
    world = World()
    submitted = world.scheduler.submit("note", {"n": 1})
    assert (submitted.state, submitted.due, submitted.payload) == (RunState.QUEUED, at(0), {"n": 1})
    world.work()
    assert [start.at for start in world.started] == [NOON]
    assert world.memory.entries() == []
    assert world.scheduler.get_run(submitted.id).state is RunState.SUCCEEDED


def test_it_costs_two_writes_of_the_agenda_one_of_the_ledger_and_a_message() -> None:
    world, faults = World(), Faults()
    owner = world.owner(faults)
    owner.submit("note")
    faults.calls.clear()
    owner.submit("note")
    assert faults.verbs() == ["put", "submit", "send", "remove"]


@pytest.mark.parametrize(
    "when", [{"delay": 100}, {"delay": timedelta(seconds=100)}, {"run_at": at(100)}, {"delay": 100.0}]
)
def test_it_runs_at_its_time(when: dict[str, object]) -> None:
    world = World()
    world.scheduler.submit("note", **when)  # type: ignore[arg-type]
    world.live(120)
    assert [start.at for start in world.started] == [NOON + 100_000]


def test_beyond_the_look_ahead_it_waits_in_the_agenda() -> None:
    world = World()
    world.scheduler.submit("note", delay=timedelta(hours=5))
    assert (len(world.memory.work), len(world.entries(EntryKind.RUN))) == (0, 1)
    world.wait(5 * 3600 - 240)
    world.live(300)
    assert [start.at for start in world.started] == [NOON + 5 * 3_600_000]
    assert world.memory.entries() == []


def test_in_the_past_it_runs_now() -> None:
    world = World()
    world.scheduler.submit("note", run_at=at(-3600))
    world.work()
    assert len(world.started) == 1


# Keys.


def test_the_same_key_is_the_same_run() -> None:
    world = World()
    first = world.scheduler.submit("note", 1, idempotency_key="k")
    world.wait(7)
    second = world.scheduler.submit("note", 1, idempotency_key="k")
    assert (second.id, second.due) == (first.id, first.due)
    world.work()
    again = world.scheduler.submit("note", 1, idempotency_key="k")
    assert again.state is RunState.SUCCEEDED
    world.live(120)
    assert len(world.started) == 1
    assert world.memory.entries() == []


@pytest.mark.parametrize(
    "other",
    [
        {"payload": 2},
        {"job": "once"},
        {"retry": Retry(max_attempts=9)},
        {"delivery": "at_most_once"},
        {"payload": "x" * 500},
        {"run_at": at(60)},
    ],
)
def test_the_same_key_with_another_order_is_refused(other: dict[str, object]) -> None:
    world = World()
    world.scheduler.submit("note", 1, idempotency_key="k")
    order = {"job": "note", "payload": 1} | other
    with pytest.raises(AlreadyExists, match="use another key"):
        world.scheduler.submit(idempotency_key="k", **order)  # type: ignore[arg-type]
    world.live(120)
    assert len(world.started) == 1
    assert world.memory.entries() == []


def test_the_same_key_at_the_same_time_is_the_same_run() -> None:
    world = World()
    first = world.scheduler.submit("note", run_at=at(3600), idempotency_key="k")
    assert world.scheduler.submit("note", run_at=at(3600), idempotency_key="k").id == first.id
    assert len(world.entries(EntryKind.RUN)) == 1, "its entry is the one that it waits with"


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"delay": 60}, {"delay": 120}),
        ({"delay": 60}, {}),
        ({}, {"delay": 60}),
        ({"run_at": at(3600)}, {"delay": 60}),
        ({"delay": 60}, {"run_at": at(3600)}),
        ({"run_at": at(3600)}, {}),
    ],
)
def test_the_same_key_with_another_time_is_refused(first: dict[str, Any], other: dict[str, Any]) -> None:
    world = World()
    run = world.scheduler.submit("note", 1, idempotency_key="k", **first)
    with pytest.raises(KeyReused, match="with another d"):
        world.scheduler.submit("note", 1, idempotency_key="k", **other)
    assert world.scheduler.get_run(run.id).due == run.due
    assert len(world.entries(EntryKind.RUN)) <= 1


def test_the_same_key_with_the_same_delay_is_the_same_run_whenever_it_is_said() -> None:
    world = World()
    first = world.scheduler.submit("note", delay=60, idempotency_key="k")
    world.live(30)
    again = world.scheduler.submit("note", delay=60, idempotency_key="k")
    assert (again.id, again.due) == (first.id, first.due)
    world.live(120)
    assert len(world.started) == 1
    assert world.scheduler.submit("note", delay=60, idempotency_key="k").state is RunState.SUCCEEDED
    assert world.memory.entries() == []


def test_a_key_is_its_tenants_own() -> None:
    world = World()
    other = type(world.scheduler)("other", jobs=world.jobs, services=world.process(), clock=world.clock)
    assert world.scheduler.submit("note", idempotency_key="k").id != other.submit("note", 5, idempotency_key="k").id


def test_two_with_one_key_at_once_are_one_run() -> None:
    world = World()
    quick = world.owner()
    slow = world.owner(Faults().at("submit", before=lambda: quick.submit("note", 1, idempotency_key="k")))
    assert slow.submit("note", 1, idempotency_key="k").state is RunState.QUEUED
    world.live(60)
    assert len(world.started) == 1


# Deaths.


@pytest.mark.parametrize("delay", [0, 3600])
@pytest.mark.parametrize("payload", [1, "x" * 1_000])
@pytest.mark.parametrize(
    ("verb", "moment", "survives"),
    [
        ("put", "before", False),
        ("put", "after", False),
        ("submit", "before", False),
        ("submit", "after", True),
        ("send", "before", True),
        ("send", "after", True),
        ("remove", "before", True),
        ("remove", "after", True),
    ],
)
def test_dying_at_any_call_leaves_a_run_that_starts_once_or_nothing(
    verb: str, moment: str, survives: bool, delay: int, payload: object
) -> None:
    world = World()
    if delay and verb in ("send", "remove"):
        pytest.skip("far ahead nothing is sent yet")
    owner = world.owner(Faults().at(verb, **{moment: crash}))
    with pytest.raises(Crash):
        owner.submit("note", payload, delay=delay, idempotency_key="k")
    world.wait(max(delay - 240, 0))
    world.live(ORPHAN_PATIENCE // SECOND + 60)
    assert len(world.started) == survives
    assert world.memory.entries() == [], "an entry without a run is dropped after an hour"


def test_an_entry_without_its_run_is_kept_for_an_hour() -> None:
    world = World()
    with pytest.raises(Crash):
        world.owner(Faults().at("submit", before=crash)).submit("note")
    world.live(ORPHAN_PATIENCE // SECOND)
    assert len(world.memory.entries()) == 1
    world.live(60)
    assert world.memory.entries() == []


def test_a_submitter_that_stalls_puts_its_entry_again() -> None:
    """The ticker may have dropped it meanwhile; then the run would wait for ever."""
    world = World()

    def stall() -> None:
        world.live(ORPHAN_PATIENCE // SECOND + 60)
        assert world.memory.entries() == []

    slow = world.owner(Faults().at("submit", before=stall).at("send", before=crash))
    with pytest.raises(Crash):
        slow.submit("note")
    world.live(120)
    assert len(world.started) == 1


@pytest.mark.parametrize("verb", ["put", "submit", "send", "remove"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_answer_that_is_late_is_no_second_run(verb: str, moment: str) -> None:
    world = World()
    world.owner(Faults().at(verb, **{moment: fails})).submit("note", "x" * 1_000)
    world.live(120)
    assert len(world.started) == 1
    assert world.memory.entries() == []


@pytest.mark.parametrize("verb", ["put", "submit"])
def test_when_nothing_answers_the_caller_may_call_again(verb: str) -> None:
    world = World()
    with pytest.raises(Unavailable):
        world.owner(Faults().at(verb, before=fails, times=None)).submit("note", idempotency_key="k")
    world.wait(3)
    world.scheduler.submit("note", idempotency_key="k")
    world.live(1_200)
    assert len(world.started) == 1
    assert world.memory.entries() == []


@pytest.mark.parametrize("verb", ["send", "remove"])
def test_what_can_wait_is_left_to_the_tick(verb: str) -> None:
    world = World()
    run = world.owner(Faults().at(verb, before=fails, times=None)).submit("note")
    assert run.state is RunState.QUEUED
    world.live(120)
    assert len(world.started) == 1


def test_a_run_submitted_far_ahead_and_hastened_by_nothing_keeps_its_one_entry() -> None:
    world = World()
    world.scheduler.submit("note", delay=timedelta(days=40))
    world.tick()
    assert [entry.due for entry in world.entries(EntryKind.RUN)] == [NOON + 40 * 86_400_000]
