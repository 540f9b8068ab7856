"""Reschedule: a one-off that has not begun moves to another time, in one transaction; nothing of the old time starts or ends it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import RunState
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.message import DeadLetter
from quarterjack.domain.run import EntryKind
from quarterjack.errors import Conflict, InvalidInput, NotFound, Unavailable
from quarterjack.testing import Crash
from quarterjack.testing.process import bury_all

from tests.support.scenes.world import NOON, Faults, World, at, crash, fails

FAR = 5 * 3600


def starts(world: World) -> list[float]:
    return [(start.at - NOON) / 1000 for start in world.started]


def entries(world: World) -> list[tuple[float, str]]:
    return [((entry.due - NOON) / 1000, entry.id) for entry in world.entries(EntryKind.RUN)]


# Earlier and later.


@pytest.mark.parametrize("when", [{"delay": 100}, {"delay": timedelta(seconds=100)}, {"at": at(100)}])
@pytest.mark.parametrize("first", [60.0, 170.0, 500.0, FAR])
def test_it_runs_at_its_new_time_once(when: dict[str, Any], first: float) -> None:
    world = World()
    run = world.scheduler.submit("note", {"n": 1}, delay=first)
    moved = world.scheduler.reschedule(run.id, **when)
    assert (moved.state, moved.due, moved.payload, moved.revision) == (RunState.QUEUED, at(100), {"n": 1}, 1)
    world.live(120)
    assert starts(world) == [100.0]
    world.wait(max(first - 150, 0))
    world.live(240)
    assert starts(world) == [100.0]
    assert world.memory.entries() == []
    assert len(world.memory.work) == 0
    assert world.scheduler.get_run(run.id).lateness == timedelta(0)


def test_it_may_move_to_and_fro_and_out_of_reach() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=50)
    for delay in (FAR, 50, 2 * FAR, 50, FAR):
        world.scheduler.reschedule(run.id, at=at(delay))
    assert entries(world) == [(FAR, f"{run.id}#5")]
    world.live(300)
    assert starts(world) == []
    world.wait(FAR - 600)
    world.live(600)
    assert starts(world) == [FAR]
    assert world.memory.entries() == []


def test_the_moved_run_is_shown_with_a_payload_that_lies_beside_it() -> None:
    world = World()
    payload = {"text": "x" * 3_000}
    run = world.scheduler.submit("note", payload, delay=FAR)
    assert world.scheduler.reschedule(run.id, delay=500).payload == payload
    assert world.scheduler.cancel_run(run.id).payload == payload


def test_a_message_of_the_old_time_is_dropped() -> None:
    """The message is in the queue already, and comes at the old time, or early, or late."""
    world = World()
    run = world.scheduler.submit("note", delay=30)
    assert len(world.memory.work) == 1
    world.scheduler.reschedule(run.id, delay=FAR)
    world.live(60)
    assert starts(world) == []
    assert len(world.memory.work) == 0, "it is not carried along for five hours"
    assert entries(world) == [(FAR, f"{run.id}#1")]


def test_its_deadline_moves_with_it() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=30, deadline=60)
    world.scheduler.reschedule(run.id, delay=600)
    world.wait(560)
    world.live(60)
    assert starts(world) == [600.0]


@pytest.mark.parametrize("payload", [None, "x" * 1_000, "x" * 100_000])
def test_it_keeps_its_payload_and_its_submitter(payload: str | None) -> None:
    world = World()
    run = world.owner().acting_as("ada").submit("note", payload, delay=500)
    moved = world.owner().acting_as("grace").reschedule(run.id, delay=20)
    assert moved.actor == run.actor == "app:ada"
    world.live(30)
    assert [start.payload for start in world.started] == [payload]


# Who races with it.


def in_between(verb: str, action: Callable[[], Any]) -> Faults:
    """Somebody else acts before the first call of that verb of one process."""
    return Faults().at(verb, before=action)


def test_a_worker_that_read_the_old_time_does_not_start_it() -> None:
    """It waits for its instant, or stalls, between the read of the row and the lease."""
    world = World()
    run = world.scheduler.submit("note", delay=1)
    world.wait(1)
    faults = in_between("lease", lambda: world.scheduler.reschedule(run.id, delay=FAR))
    world.work(world.worker(faults))
    assert starts(world) == []
    assert world.scheduler.get_run(run.id).state is RunState.QUEUED
    world.wait(FAR - 60)
    world.live(120)
    assert len(starts(world)) == 1


def test_a_worker_that_read_the_old_time_does_not_tell_it_to_the_job() -> None:
    """Moved from now to a moment ago: the lease of the worker that read the old row would succeed by the clock."""
    world = World()
    run = world.scheduler.submit("note", delay=1)
    world.wait(1)
    faults = in_between("lease", lambda: world.scheduler.reschedule(run.id, at=at(0)))
    told: list[object] = []
    world.during = lambda ctx: told.append(ctx.scheduled_at)
    world.work(world.worker(faults))
    world.work()
    assert told == [at(0)]
    assert world.scheduler.get_run(run.id).due == at(0)


def test_a_worker_that_read_the_old_deadline_does_not_end_it() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=1, deadline=5)
    world.wait(60)
    faults = in_between("expire", lambda: world.scheduler.reschedule(run.id, delay=100))
    world.work(world.worker(faults))
    assert world.scheduler.get_run(run.id).state is RunState.QUEUED
    world.live(120)
    assert len(starts(world)) == 1


def test_a_letter_about_the_old_time_does_not_end_it() -> None:
    """A worker that gives a run up, because nobody knows its job, sends its letter first."""
    world = World()
    run = world.scheduler.submit("note", delay=30)
    (stored,) = world.memory.work
    world.scheduler.reschedule(run.id, delay=FAR)
    world.services.dead.send(DeadLetter(body=stored.body, reason="unknown job"))
    bury_all(world.process(), world.clock)
    assert world.scheduler.get_run(run.id).state is RunState.QUEUED


def test_a_ticker_that_read_the_old_entry_loses_nothing() -> None:
    """It reads the entry of the old time, and stalls until the run has been moved away and back."""
    world = World()
    run = world.scheduler.submit("note", delay=400)
    world.wait(300)

    def move() -> None:
        world.scheduler.reschedule(run.id, delay=FAR)

    def back() -> None:
        world.owner(Faults().at("send", before=fails, times=None)).reschedule(run.id, at=at(400))

    faults = in_between("look", move).at("put", before=back)
    world.tick(world.process(faults))
    world.live(180)
    assert starts(world) == [400.0]
    assert world.memory.entries() == [] or world.clock() < NOON + FAR * 1000


def test_of_two_calls_each_moves_it_and_the_later_one_holds() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=500)
    faults = in_between("reschedule", lambda: world.scheduler.reschedule(run.id, delay=FAR))
    moved = world.owner(faults).reschedule(run.id, delay=20)
    assert (moved.revision, moved.due) == (2, at(20))
    world.live(60)
    assert starts(world) == [20.0]
    world.wait(FAR)
    world.live(120)
    assert starts(world) == [20.0]


def test_a_call_that_races_with_the_start_is_refused() -> None:
    world = World()
    run = world.scheduler.submit("note")
    faults = in_between("reschedule", world.work)
    with pytest.raises(Conflict, match="it is SUCCEEDED, so it cannot be moved; replay_run"):
        world.owner(faults).reschedule(run.id, delay=20)
    world.live(60)
    assert starts(world) == [0.0]
    assert world.memory.entries() == []


# Crashes and failures.


@pytest.mark.parametrize("first", [50.0, FAR])
@pytest.mark.parametrize("second", [50.0, 100.0, FAR, 2 * FAR])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["read", "register", "reschedule", "moved", "send", "remove"])
def test_its_owner_may_die_at_every_call(verb: str, moment: str, first: float, second: float) -> None:
    world = World()
    run = world.scheduler.submit("note", delay=first)
    with suppress(Crash):
        world.owner(Faults().at(verb, **{moment: crash})).reschedule(run.id, at=at(second))
    row = world.scheduler.get_run(run.id)
    expected = first if row.due == at(first) else second
    assert (row.due, row.revision) in ((at(first), 0), (at(second), 1)) or first == second
    for _ in range(20):
        if world.started:
            break
        world.wait(max(expected - (world.clock() - NOON) / 1000 - 60, 0))
        world.live(120)
    assert starts(world) == [expected]
    world.wait(2 * FAR)
    world.live(180)
    assert starts(world) == [expected]
    assert world.memory.entries() == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["reschedule", "moved", "send", "remove"])
def test_after_a_failure_the_same_call_finishes(verb: str, moment: str) -> None:
    world = World()
    run = world.scheduler.submit("note", delay=FAR)
    faults = Faults().at(verb, **{moment: fails}, times=None)
    owner = world.owner(faults)
    with suppress(Unavailable):
        owner.reschedule(run.id, at=at(60))
    faults.rules.clear()
    owner.reschedule(run.id, at=at(60))
    assert world.scheduler.get_run(run.id).revision == 1
    world.live(120)
    assert starts(world) == [60.0]


def test_repeated_it_writes_nothing() -> None:
    world, faults = World(), Faults()
    run = world.scheduler.submit("note", delay=FAR)
    owner = world.owner(faults)
    first = owner.reschedule(run.id, at=at(60))
    faults.calls.clear()
    assert owner.reschedule(run.id, at=at(60)) == first
    assert faults.verbs() == ["read"]


def test_a_repeated_submit_finds_the_run_where_it_is() -> None:
    world = World()
    run = world.scheduler.submit("note", run_at=at(FAR), idempotency_key="k")
    world.scheduler.reschedule(run.id, at=at(60))
    assert world.scheduler.submit("note", run_at=at(FAR), idempotency_key="k").due == at(60)
    assert entries(world) == []
    world.live(90)
    assert starts(world) == [60.0]


# What is refused.


def test_only_a_one_off_that_has_not_begun_is_moved() -> None:
    world = World()
    scheduler = world.scheduler
    scheduler.create_schedule("s", "note", "rate(20 seconds)")
    world.wait(20)
    world.tick()
    fire = scheduler.list_runs("s").items[0]
    trigger = scheduler.trigger("s")
    with pytest.raises(InvalidInput, match=r"is a fire of schedule 's'; .*change the schedule"):
        scheduler.reschedule(fire.id, delay=60)
    with pytest.raises(InvalidInput, match=r"is a trigger of schedule 's'; .*starts at once"):
        scheduler.reschedule(trigger.id, delay=60)
    with pytest.raises(InvalidInput, match="at=None: says no time; give at"):
        scheduler.reschedule(fire.id)
    with pytest.raises(InvalidInput, match="delay=5: was given together with at; give one"):
        scheduler.reschedule(fire.id, at=at(0), delay=5)
    with pytest.raises(NotFound):
        scheduler.reschedule("acme/~nobody#once", delay=5)


def test_what_has_begun_or_ended_is_not_moved() -> None:
    world = World()
    scheduler = world.scheduler
    retrying, cancelled = scheduler.submit("bad"), scheduler.submit("note", delay=FAR)
    world.work()
    scheduler.cancel_run(cancelled.id)
    for run, remedy in ((retrying, r"is RETRYING; retry_run\(\)"), (cancelled, r"CANCELLED, .*replay_run\(\)")):
        with pytest.raises(Conflict, match=remedy):
            scheduler.reschedule(run.id, delay=60)

    def while_it_runs(ctx: Any) -> None:
        with pytest.raises(Conflict, match=r"it has begun, so it cannot be moved; cancel_run\(\)"):
            scheduler.reschedule(ctx.run_id, delay=60)

    world.during = while_it_runs
    scheduler.submit("note")
    world.work()


# Who did it, and what is told of it.


def test_the_audit_says_who_moved_it_from_when_to_when() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=FAR)
    world.owner().acting_as("ada", reason="the customer called").reschedule(run.id, delay=60)
    (line,) = [line for line in world.scheduler.audit().items if line.act == AuditAct.RESCHEDULE]
    assert (line.actor, line.target, line.reason) == ("app:ada", run.id, "the customer called")
    assert line.detail == {"was": at(FAR).isoformat(), "due": at(60).isoformat()}


def test_why_says_that_it_was_moved() -> None:
    world = World()
    run = world.scheduler.submit("note", delay=FAR)
    world.scheduler.reschedule(run.id, delay=600)
    world.scheduler.reschedule(run.id, delay=60)
    assert "Its owner rescheduled or requeued it 2 times" in str(world.scheduler.why_run(run.id))
    world.live(120)
    assert "Its owner rescheduled or requeued it 2 times" in str(world.scheduler.why_run(run.id))
