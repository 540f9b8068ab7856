"""Requeue: a one-off that has not begun waits in another queue or lane, in one transaction; its old message starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from quarterjack import RunState
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.policies import Overrides, Priority
from quarterjack.domain.run import EntryKind
from quarterjack.errors import Conflict, InvalidInput, KeyReused, NotFound, Unavailable
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.laned import LanedScene
from tests.support.scenes.world import Faults, World, at, crash, fails
from tests.support.units import counted

FAR = 5 * 3600
LOW = Priority.LOW


def laned() -> World:
    return World(prioritised=[None])


def lanes(world: World) -> dict[str, int]:
    found = {str(stripe.priority): len(messages) for stripe, messages in world.memory.stripes.items()}
    return {lane: number for lane, number in found.items() if number}


def priority_of(world: World, run_id: str) -> Priority | None:
    (row,) = [run for run in world.memory.runs() if str(run.ref) == run_id]
    return Overrides.parse(row.overrides).priority


# Where it goes.


def test_it_is_sent_to_the_lane_of_its_new_priority_and_starts_once() -> None:
    world = laned()
    run = world.scheduler.submit("note", {"n": 1}, delay=30, priority="low")
    assert lanes(world) == {"low": 1}
    moved = world.scheduler.requeue(run.id, priority="high")
    assert (moved.state, moved.due, moved.payload, moved.revision) == (RunState.QUEUED, run.due, {"n": 1}, 1)
    assert lanes(world) == {"low": 1, "high": 1}
    world.wait(30)
    world.work()
    world.live(120)
    assert [start.at for start in world.started] == [world.memory.runs()[0].due]
    assert lanes(world) == {}
    assert world.memory.entries() == []


def test_it_is_sent_to_its_new_queue_and_the_old_message_starts_nothing() -> None:
    scene = LanedScene()
    run = scene.scheduler.submit("plain", "a", delay=30)
    scene.scheduler.requeue(run.id, queue="laned", priority="low")
    assert scene.lanes() == {"low": 1}
    assert len(scene.harness.memory.work) == 1, "the old message is in the queue, and names the old revision"
    assert len(scene.harness.advance(minutes=2)) == 1
    assert scene.ran == ["a"]
    back = scene.scheduler.submit("note", "b", delay=3_600)
    scene.scheduler.requeue(back.id, queue="default")
    assert scene.lanes() == {}
    scene.harness.advance(minutes=70)
    assert scene.ran == ["a", "b"]


def test_a_run_that_is_due_later_waits_with_one_entry_that_knows_its_lane() -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=FAR, priority="high")
    world.scheduler.requeue(run.id, priority="low")
    (entry,) = world.entries(EntryKind.RUN)
    assert (entry.id, entry.priority, entry.due) == (f"{run.id}#1", LOW, world.memory.runs()[0].due)
    world.wait(FAR - 120)
    world.tick()
    assert lanes(world) == {"low": 1}


def test_its_other_policies_stay() -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=FAR, timeout=60, deadline=600)
    world.scheduler.requeue(run.id, priority="low")
    (row,) = world.memory.runs()
    policies = Overrides.parse(row.overrides)
    assert (policies.timeout, policies.deadline, policies.priority) == (60, 600, LOW)


def test_repeated_it_writes_nothing() -> None:
    world, faults = laned(), Faults()
    run = world.scheduler.submit("note", delay=FAR)
    owner = world.owner(faults)
    first = owner.requeue(run.id, priority="low")
    faults.calls.clear()
    assert owner.requeue(run.id, priority="low") == first
    assert faults.verbs() == ["read"]


def test_it_costs_what_a_reschedule_costs() -> None:
    world = laned()
    runs = [world.scheduler.submit("note", delay=FAR) for _ in range(3)]
    world.scheduler.reschedule(runs[0].id, delay=2 * FAR)  # the day's registration of the tenant in the audit
    with counted() as moved:
        world.scheduler.reschedule(runs[1].id, delay=2 * FAR)
    with counted() as requeued:
        world.scheduler.requeue(runs[2].id, priority="low")
    assert requeued == moved == {"runs": 2, "agenda": 4, "audit": 4}


def test_a_repeated_submit_finds_the_run_where_it_is() -> None:
    world = laned()
    run = world.scheduler.submit("note", 1, run_at=at(FAR), idempotency_key="k")
    world.scheduler.requeue(run.id, priority="low")
    assert world.scheduler.submit("note", 1, run_at=at(FAR), idempotency_key="k").id == run.id
    with pytest.raises(KeyReused, match="another payload"):
        world.scheduler.submit("note", 2, run_at=at(FAR), idempotency_key="k")
    other = world.scheduler.submit("note", 1, run_at=at(FAR), idempotency_key="l")
    with pytest.raises(KeyReused, match="another overrides"):
        world.scheduler.submit("note", 1, run_at=at(FAR), idempotency_key="l", priority="high")
    assert other.revision == 0


# Who races with it, and who dies.


def in_between(verb: str, action: Callable[[], Any]) -> Faults:
    """Somebody else acts before the first call of that verb of one process."""
    return Faults().at(verb, before=action)


def test_a_worker_that_read_the_old_row_does_not_start_it() -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=1)
    world.wait(1)
    faults = in_between("lease", lambda: world.scheduler.requeue(run.id, priority="low"))
    Hand(worker=world.worker(faults)).work(most=1)
    assert priority_of(world, run.id) is LOW
    world.live(60)
    assert len(world.started) == 1


def test_of_a_move_in_time_and_one_of_the_lane_both_hold() -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=500)
    faults = in_between("requeue", lambda: world.scheduler.reschedule(run.id, at=at(20)))
    moved = world.owner(faults).requeue(run.id, priority="low")
    assert (moved.revision, moved.due, priority_of(world, run.id)) == (2, at(20), LOW)
    world.live(60)
    assert len(world.started) == 1


def test_a_call_that_races_with_the_start_is_refused() -> None:
    world = laned()
    run = world.scheduler.submit("note")
    with pytest.raises(Conflict, match="it is SUCCEEDED, so it cannot be moved; replay_run"):
        world.owner(in_between("requeue", world.work)).requeue(run.id, priority="low")
    assert len(world.started) == 1


@pytest.mark.parametrize("delay", [50.0, FAR])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["read", "register", "requeue", "moved", "send", "remove"])
def test_its_owner_may_die_at_every_call(verb: str, moment: str, delay: float) -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=delay)
    with suppress(Crash):
        world.owner(Faults().at(verb, **{moment: crash})).requeue(run.id, priority="low")
    row = world.scheduler.get_run(run.id)
    assert (row.revision, priority_of(world, run.id)) in ((0, None), (1, LOW))
    world.wait(max(delay - 120, 0))
    world.live(300)
    assert [start.at for start in world.started] == [world.memory.runs()[0].due]
    world.live(180)
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["requeue", "moved", "send", "remove"])
def test_after_a_failure_the_same_call_finishes(verb: str, moment: str) -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=60)
    faults = Faults().at(verb, **{moment: fails}, times=None)
    owner = world.owner(faults)
    with suppress(Unavailable):
        owner.requeue(run.id, priority="low")
    faults.rules.clear()
    owner.requeue(run.id, priority="low")
    assert world.scheduler.get_run(run.id).revision == 1
    world.live(240)
    assert len(world.started) == 1


# What is refused, and what is told.


def test_only_a_one_off_that_has_not_begun_is_moved() -> None:
    world = laned()
    scheduler = world.scheduler
    scheduler.create_schedule("s", "note", "rate(20 seconds)")
    world.wait(20)
    world.tick()
    fire = scheduler.list_runs("s").items[0]
    retrying, cancelled = scheduler.submit("bad"), scheduler.submit("note", delay=FAR)
    world.work()
    scheduler.cancel_run(cancelled.id)
    with pytest.raises(InvalidInput, match=r"is a fire of schedule 's'; update_schedule\(\)"):
        scheduler.requeue(fire.id, priority="low")
    for run, state in ((retrying, "RETRYING"), (cancelled, "CANCELLED")):
        with pytest.raises(Conflict, match=state):
            scheduler.requeue(run.id, priority="low")
    with pytest.raises(NotFound):
        scheduler.requeue("acme/~nobody#once", priority="low")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "queue=None: is not given, and neither is priority"),
        ({"priority": "urgent"}, "priority='urgent'"),
        ({"queue": "A b"}, "queue='A b': is not the name of a queue"),
        ({"queue": "unknown"}, "queue='unknown': is not declared"),
        ({"priority": "high"}, "priority='high': is above highest_priority='normal'"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_anything_is_written(arguments: dict[str, Any], problem: str) -> None:
    scene = LanedScene()
    scene.limit("normal")
    run = scene.scheduler.submit("note", delay=FAR)
    with counted() as written, pytest.raises(InvalidInput, match=problem):
        scene.scheduler.requeue(run.id, **arguments)
    assert written == {}


def test_the_audit_says_who_moved_it_from_where_to_where() -> None:
    world = laned()
    run = world.scheduler.submit("note", delay=FAR)
    world.owner().acting_as("ada", reason="urgent").requeue(run.id, priority="high")
    (line,) = [line for line in world.scheduler.audit().items if line.act == AuditAct.REQUEUE]
    assert (line.actor, line.target, line.reason) == ("app:ada", run.id, "urgent")
    assert line.detail == {"priority": "high", "was_queue": "default", "was_priority": "normal"}
    assert "Its owner rescheduled or requeued it 1 time" in str(world.scheduler.why_run(run.id))
