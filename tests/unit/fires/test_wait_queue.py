"""Runs that leave the wait queue of a concurrency cap without a permit: whoever sends for the next run finds what became of them."""

from __future__ import annotations

from dataclasses import replace

from quarterjack.domain.run import EntryKind, Failure
from quarterjack.domain.times import DAY, MINUTE
from quarterjack.state.ending import expire
from quarterjack.state.lease import lease, retry
from quarterjack.worker.context import WorkerContext

from tests.support.scenes.capped import Capped, Lasting
from tests.support.scenes.world import Faults

Hand = tuple[WorkerContext, Lasting]


def full(most: int = 1) -> tuple[Capped, Hand]:
    """A cap whose permits are taken, and the worker that has them."""
    world = Capped(limits={"concurrent_runs": most})
    hand = world.hand("w")
    world.submit(most)
    world.take_all(hand[0])
    assert world.live() == most
    return world, hand


def messages(faults: Faults) -> int:
    return sum(len(detail.items) for _, detail in faults.calls if detail.verb == "send")


def test_a_run_that_was_rescheduled_leaves_the_queue() -> None:
    world, hand = full()
    (waits,) = world.submit(1)
    world.take_all(hand[0])
    world.scheduler.reschedule(waits, delay=3_600)
    faults = Faults()
    object.__setattr__(hand[0], "services", world.process(faults))
    hand[1].end(1)
    assert (world.waiting(), messages(faults), world.permits().used()) == (0, 0, 0)
    assert len(world.entries(EntryKind.RUN)) == 1, "that of its new time"


def test_a_run_whose_next_attempt_comes_later_leaves_the_queue_for_the_agenda() -> None:
    """The message of that attempt was not accepted, and the one before came back to a worker whose clock is slow."""
    world, hand = full()
    (waits,) = world.submit(1)
    world.take_all(hand[0])
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


def test_a_run_that_is_in_the_queue_twice_gets_one_message() -> None:
    world, hand = full(2)
    world.submit(1)
    world.take_all(hand[0])
    (entry,) = (entry for entry in world.memory.entries() if isinstance(entry.shard, str))
    world.services.agenda.put([replace(entry, due=entry.due + 1)])
    assert world.waiting() == 2
    faults = Faults()
    object.__setattr__(hand[0], "services", world.process(faults))
    hand[1].end(2)
    assert (messages(faults), len(world.permits().sent)) == (1, 1)


def test_an_expired_run_in_the_queue_is_reported_by_somebody_else_than_who_died_before() -> None:
    """The worker that ended it had another delivery of the message that joined the wait queue, and sent no letter."""
    world, hand = full()
    run = world.scheduler.submit("note", {"n": 0}, deadline=10)
    world.take_all(hand[0])
    world.wait(20)
    end = expire(
        seen_fence=0,
        revision=0,
        backfill=None,
        now=world.clock(),
        expires=world.clock() + DAY,
        reason="deadline passed",
    )
    assert world.services.ledger.move(world.run_of(run.id).ref, end).applied
    hand[1].end(1)
    world.take_all(hand[0])
    assert (world.waiting(), len(world.memory.dead), world.permits().used()) == (0, 1, 0)
