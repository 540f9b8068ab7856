"""Runs for which there is no slot go into the line without a message: from the owner's call, and from the ticker."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.domain.run import EntryKind, Failure, RunState
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.fires.marks import marked, put_mark
from quarterjack.state.ending import expire
from quarterjack.state.lease import lease, retry
from quarterjack.state.tenants.marks import Mark
from quarterjack.testing import Crash
from quarterjack.worker.context import WorkerContext

from tests.support.scenes.capped import ACME, Capped, Lasting
from tests.support.scenes.world import Faults, crash, fails

Hand = tuple[WorkerContext, Lasting]


def full(most: int = 1, **limits: Any) -> tuple[Capped, Hand]:
    """A cap whose slots are all taken, and whose worker it is."""
    world = Capped(limits={"concurrent_runs": most, **limits})
    hand = world.hand("w")
    world.submit(most)
    world.take_all(hand[0])
    assert world.live() == most
    return world, hand


def messages(faults: Faults) -> int:
    return sum(len(detail.items) for _, detail in faults.calls if detail.verb == "send")


def to_the_end(world: Capped, hand: Hand, rounds: int = 400) -> None:
    worker, jobs = hand
    for _ in range(rounds):
        jobs.end(1)
        world.take_all(worker)
        assert world.live() <= 1


def test_a_run_that_finds_no_slot_is_sent_and_received_once() -> None:
    """5,000 waited for a minute in the measurement: 1.0 sends and receives a run, not two."""
    faults, world = Faults(), Capped(limits={"concurrent_runs": 5})
    owner, (worker, jobs) = world.owner(faults), world.hand("w", faults)
    received = 0
    for _ in range(100):
        owner.submit("note")
        received += world.take(worker)
    while jobs.going:
        jobs.end(1)
        received += world.take(worker)
        assert world.live() <= 5
    assert world.ended() == {"SUCCEEDED": 100}
    assert messages(faults) <= 120
    assert received <= 120
    assert world.waiting() == 0


def test_who_joins_leaves_a_timer_for_a_line_that_begins_and_none_for_one_that_is_there() -> None:
    world, _ = full()
    faults = Faults()
    owner = world.owner(faults)
    owner.submit("note")
    assert (world.waiting(), world.timers(), marked(Mark.LINE, world.services)) == (1, 1, [ACME.id])
    first = Counter(faults.verbs())
    faults.calls.clear()
    owner.submit("note")
    assert (world.waiting(), world.timers()) == (2, 1)
    more = first - Counter(faults.verbs())
    assert (more["put"], more["write_record"]) == (1, 2), "the timer, the mark, and that there is a line"


def test_a_slot_that_comes_free_while_an_owner_joins_the_line_is_not_overlooked() -> None:
    world, hand = full()
    faults = Faults()
    faults.at("put", before=lambda: hand[1].end(1), skip=1)
    world.owner(faults).submit("note")
    world.take_all(hand[0])
    assert world.live() == 1, "without a tick"
    to_the_end(world, hand, 3)
    assert world.ended() == {"SUCCEEDED": 2}


def test_a_line_that_ends_while_an_owner_joins_it_has_a_timer_again() -> None:
    world, hand = full()
    world.submit(1)
    faults = Faults()

    def meanwhile() -> None:
        for _ in range(3):
            world.wait(60)
            world.tick()
            to_the_end(world, hand, 2)
        assert (world.waiting(), world.timers()) == (0, 0)
        world.submit(1)
        world.take_all(hand[0])

    faults.at("put", before=meanwhile, skip=1)
    world.owner(faults).submit("note")
    assert (world.waiting(), world.timers()) == (1, 1)


@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_owner_may_die_at_any_call_while_a_run_joins_the_line(number: int, moment: Any) -> None:
    world, hand = full()
    faults, strikes, key = Faults(), itertools.count(), "k"

    def strike() -> None:
        if next(strikes) == number:
            crash()

    for verb in ("record", "write_record", "put", "submit", "look", "due", "remove", "send"):
        faults.at(verb, times=None, **{moment: strike})
    try:
        world.owner(faults).submit("note", idempotency_key=key)
        accepted = True
    except Crash:
        accepted = any(run.ref.is_one_off and run.state is RunState.QUEUED for run in world.memory.runs(None))
    for _ in range(6):
        world.wait(60)
        hand[0].heartbeat.beat(world.clock())
        world.tick()
        to_the_end(world, hand, 2)
    assert world.ended() == {"SUCCEEDED": 1 + accepted}
    for _ in range(9):
        world.wait(120)
        world.tick()
    assert (world.waiting(), world.timers(), world.slots().used(), marked(Mark.LINE, world.services)) == (0, 0, 0, [])


def test_where_the_line_does_not_answer_an_owner_sends_the_message() -> None:
    world, hand = full()
    faults = Faults().at("write_record", before=fails, times=None)
    world.owner(faults).submit("note")
    assert messages(faults) == 1
    to_the_end(world, hand, 3)
    assert world.ended() == {"SUCCEEDED": 2}


def test_fires_of_a_tick_join_a_line_in_their_order_and_are_received_once() -> None:
    world, hand = full()
    world.submit(2)
    faults = Faults()
    for name in ("a", "b"):
        world.scheduler.create_schedule(name, "note", "* * * * *", catch_up="all")
    services = world.process(faults)
    for _ in range(4):
        world.tick(services)
        world.beat(hand[0], seconds=20)
        world.beat(hand[0], seconds=20)
        world.beat(hand[0], seconds=20)
        world.take_all(hand[0])
    assert messages(faults) == 0, "nothing finds a slot"
    order = []
    for _ in range(40):
        hand[1].end(1)
        world.take_all(hand[0])
        order += [each.run.due for each, _ in hand[1].going]
        assert world.live() <= 1
    assert order == sorted(order)
    assert len(order) >= 8
    due = [run for run in world.memory.runs(None) if run.due <= world.clock()]
    assert {run.state for run in due} == {RunState.SUCCEEDED}


def test_fires_that_are_not_due_when_the_line_is_empty_are_sent_in_time() -> None:
    """They keep no slot meanwhile, and nobody waits for the ticker."""
    world, hand = full()
    world.submit(1)
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.tick()
    early = world.waiting() - 1
    assert early >= 2
    faults = Faults()
    object.__setattr__(hand[0], "services", world.process(faults))
    hand[1].end(1)
    world.take_all(hand[0])
    assert (world.waiting(), messages(faults)) == (early, 1), "while somebody has the slot they may as well wait"
    hand[1].end(1)
    world.take_all(hand[0])
    assert (world.waiting(), world.slots().used(), messages(faults)) == (0, 0, 1 + early)
    for _ in range(2 * MINUTE // 1000):
        world.wait(1)
        world.take_all(hand[0])
        for each, _ in hand[1].going:
            assert world.clock() - each.run.due <= 1_000
        hand[1].end(1)
    assert world.ended()["SUCCEEDED"] >= 3


def test_a_run_that_is_due_later_is_sent_by_the_ticker_into_the_line() -> None:
    world, hand = full()
    world.submit(1)
    owner = world.owner()
    for _ in range(2):
        owner.submit("note", delay=600)
    faults = Faults()
    services = world.process(faults)
    for _ in range(9):
        world.wait(60)
        hand[0].heartbeat.beat(world.clock())
        world.tick(services)
    assert (messages(faults), world.waiting()) == (0, 3)
    assert not world.entries(EntryKind.RUN)[3:], "their entries of the agenda went"
    world.wait(60)
    to_the_end(world, hand, 5)
    assert world.ended() == {"SUCCEEDED": 4}


def test_a_run_that_was_rescheduled_leaves_the_line() -> None:
    world, hand = full()
    (waits,) = world.submit(1)
    world.scheduler.reschedule(waits, delay=3_600)
    faults = Faults()
    object.__setattr__(hand[0], "services", world.process(faults))
    hand[1].end(1)
    assert (world.waiting(), messages(faults), world.slots().used()) == (0, 0, 0)
    assert len(world.entries(EntryKind.RUN)) == 1, "that of its new time"


def test_a_run_whose_next_attempt_comes_later_leaves_the_line_for_the_agenda() -> None:
    """The message of that attempt was not accepted, and the one before came back to a worker whose clock is slow."""
    world, hand = full()
    (waits,) = world.submit(1)
    ref, ledger, later = world.run_of(waits).ref, world.services.ledger, world.clock() + MINUTE
    asked = lease(
        revision=0, backfill=None, now=world.clock(), token="t", worker="v", max_attempts=3, steal=False, first=True
    )
    assert ledger.move(ref, asked).applied
    assert ledger.move(ref, retry(fence=1, not_before=later, failure=Failure(kind="E", message="m"))).applied
    hand[1].end(1)
    assert (world.waiting(), [entry.due for entry in world.entries(EntryKind.RUN)]) == (0, [later])
    world.wait(60)
    world.tick()
    world.take_all(hand[0])
    hand[1].end(1)
    assert world.ended() == {"SUCCEEDED": 2}


def test_an_expired_run_in_the_line_is_reported_by_somebody_else_than_who_died_before() -> None:
    """The worker that ended it had another delivery of the message that joined the line, and sent no letter."""
    world, hand = full()
    run = world.scheduler.submit("note", {"n": 0}, deadline=10)
    world.wait(20)
    end = expire(revision=0, backfill=None, now=world.clock(), expires=world.clock() + DAY, reason="deadline passed")
    assert world.services.ledger.move(world.run_of(run.id).ref, end).applied
    hand[1].end(1)
    world.take_all(hand[0])
    assert (world.waiting(), len(world.memory.dead), world.slots().used()) == (0, 1, 0)


def test_runs_of_an_exclusive_schedule_are_sent() -> None:
    """What becomes of them is decided when they are due: the second is skipped, though the first waits for a slot."""
    world, hand = full()
    world.submit(1)
    world.scheduler.create_schedule("s", "note", "* * * * *", overlap="skip")
    for _ in range(4):
        world.tick()
        for _ in range(3):
            world.beat(hand[0])
        world.take_all(hand[0])
    assert world.ended()["SKIPPED"] >= 2
    before = world.waiting()
    assert before == 2
    world.scheduler.trigger("s")
    assert (world.waiting(), len(world.memory.messages()) > 0) == (before, True)


def test_a_mark_that_is_out_of_date_costs_a_turn_in_the_line_and_goes() -> None:
    world = Capped(limits={"concurrent_runs": 1})
    put_mark(Mark.LINE, ACME.id, world.services)
    put_mark(Mark.LINE, "gone/~slots#~*", world.services)
    put_mark(Mark.LINE, "garbage", world.services)
    hand = world.hand("w")
    world.scheduler.create_schedule("s", "note", "* * * * *")
    other = Scheduler("gone", jobs=world.jobs, services=world.process(), clock=world.clock)
    other.create_schedule("s", "note", "* * * * *")
    for _ in range(6):
        world.tick()
        for _ in range(60):
            world.wait(1)
            world.take_all(hand[0])
            hand[0].heartbeat.beat(world.clock())
            for each, _ in hand[1].going:
                assert world.clock() - each.run.due <= 1_000
            hand[1].end(2)
    assert world.ended()["SUCCEEDED"] >= 10
    assert ACME.id not in marked(Mark.LINE, world.services)


def test_marks_that_cannot_be_read_hold_up_nobody() -> None:
    world, hand = full()
    world.submit(1)
    world.scheduler.create_schedule("s", "note", "* * * * *")
    faults = Faults().at("records", before=fails, times=None)
    world.tick(world.process(faults))
    assert messages(faults) >= 2
    hand[1].end(1)
