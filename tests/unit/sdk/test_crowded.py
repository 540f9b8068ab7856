"""Crowded instants: what forecast, apply and the commands say of them, and that a quiet installation is asked for nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Rule
from quarterjack.apply.plan import ApplyPlan
from quarterjack.declare import declaration
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.sdk.schedules.crowded import crowd_words
from quarterjack.state.worker_record import KEY, WorkerIdentity, WorkerKind, WorkerRow, owner_of, record_body
from quarterjack.stores.records import Record

from tests.support.scenes.world import NOON, START, Faults, World, fails

MANY = 120


def slow_worker(world: World, queue: str = "default") -> None:
    """A worker process with one slot: it starts 12 runs a second by the model."""
    who = WorkerIdentity(
        name=queue, kind=WorkerKind.PROCESS, host="h", version="1", queue=queue, concurrency=1, started_at=NOON - MINUTE
    )
    row = WorkerRow(identity=who, seen_at=NOON)
    record = Record(owner=owner_of(queue), key=KEY + queue, version=1, body=record_body(row), expires=row.expires)
    assert world.services.records.write(record)


def planned(world: World, number: int, *, window: int = 0, owner: str = "acme", **words: Any) -> ApplyPlan:
    rule = Rule.of("0 * * * *", window=window)
    found = [
        declaration(place=f"here:{each}", name=f"{owner}-{each}", job="note", expression=rule, **words)
        for each in range(number)
    ]
    return world.scheduler.compare_declared(found, managed_by=owner)


def watched(world: World) -> Faults:
    hook = Faults()
    world.scheduler = world.owner(hook)
    return hook


@pytest.fixture
def world() -> World:
    return World()


def test_a_forecast_names_its_busiest_instant_and_how_late_it_is(world: World) -> None:
    for number in range(MANY):
        world.scheduler.create_schedule(f"s{number}", "note", "0 * * * *")
    functions = world.scheduler.forecast().busiest
    assert functions is not None
    assert (functions.at, functions.fires, functions.window) == (START + timedelta(hours=1), MANY, None)
    slow_worker(world)
    found = world.scheduler.forecast().busiest
    assert found is not None
    assert found.late == pytest.approx(MANY * 0.082 + 0.2, abs=0.1)
    assert found.window == 10, "12 of them start in a second"


def test_a_quiet_forecast_asks_for_no_workers_and_names_no_instant(world: World) -> None:
    for number in range(MANY):
        world.scheduler.create_schedule(f"s{number}", "note", f"{number % 60} * * * *")
    hook = watched(world)
    assert world.scheduler.forecast().busiest is None
    quiet = len(hook.calls)
    slow_worker(world)
    world.scheduler.create_schedule("one", "note", "0 * * * *")
    assert len(hook.calls) > quiet
    assert "listed" not in hook.verbs()


def test_apply_says_how_late_the_instant_will_be_and_reads_nothing_for_it_if_it_is_quiet(world: World) -> None:
    slow_worker(world)
    (said,) = planned(world, MANY).warnings
    assert f"{MANY} fires of queue default are due at 2026-05-04 13:00:00 UTC" in said
    assert "the last of them start 10 s late; spread them by Rule(window=10) or Queue(spread=10)" in said
    assert planned(world, MANY, window=600).warnings == ()
    assert planned(world, MANY, paused=True).warnings == ()
    hook = watched(world)
    assert planned(world, 99).warnings == ()
    assert "listed" not in hook.verbs()


def test_apply_counts_what_is_there_already_and_says_nothing_where_nothing_changes(world: World) -> None:
    slow_worker(world)
    plan = planned(world, MANY)
    assert not world.scheduler.carry_out(plan).failed
    assert planned(world, MANY).warnings == (), "nothing is created or updated"
    (said,) = planned(world, 1, owner="other").warnings
    assert f"{MANY + 1} fires" in said


def test_each_queue_has_workers_and_a_crowd_of_its_own(world: World) -> None:
    world.memory.add_queue("few", stripes=1)
    world.jobs.queue("few", concurrency=2)
    slow_worker(world)
    (said,) = planned(world, MANY, queue="few").warnings
    assert f"{MANY} fires of queue few" in said, "two runs at once"
    both = [*planned(world, MANY, owner="a").warnings, *planned(world, MANY, owner="b", queue="few").warnings]
    assert len(both) == 2
    world.jobs.queue("mine", container=True)
    world.memory.add_queue("mine", stripes=1)
    assert planned(world, MANY, queue="mine").warnings == (), "its workers are not known"
    slow_worker(world, "mine")
    assert len(planned(world, MANY, queue="mine").warnings) == 1


def put(world: World, number: int, at: int) -> None:
    entries = [AgendaEntry(shard=0, due=at, kind=EntryKind.CHAIN, id=f"acme/x{each}#1") for each in range(number)]
    for first in range(0, number, 25):
        world.services.agenda.put(entries[first : first + 25])


def test_the_commands_count_an_instant_with_one_query(world: World) -> None:
    put(world, 3_000, NOON + HOUR)
    put(world, 50, NOON + 2 * HOUR)
    hook = watched(world)
    at = START + timedelta(hours=1)
    said = crowd_words(world.scheduler.session, at)
    assert said is not None
    assert "2,000 fires of queue default" in said, "as many as are read of a shard"
    hook.calls.clear()
    assert crowd_words(world.scheduler.session, START + timedelta(hours=2)) is None
    assert crowd_words(world.scheduler.session, START + timedelta(hours=3)) is None
    assert hook.verbs() == ["due", "due"]


def test_an_agenda_that_does_not_answer_fails_no_command(world: World) -> None:
    hook = watched(world)
    hook.at("due", before=fails, times=None)
    assert crowd_words(world.scheduler.session, START) is None
