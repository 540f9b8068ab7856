"""A freeze of a job, a queue or a key of a flow: its runs wait in a wait queue, and start at a rate when it has ended."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from quarterjack import Flow
from quarterjack.domain.run import RunRow
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.state.tenants.caps import ConcurrencyCap
from quarterjack.state.tenants.permits import CapPermits
from quarterjack.values import replace

from tests.support.scenes.capped import Capped
from tests.support.scenes.world import NOON, Faults

HOUR = timedelta(hours=1)


def scene() -> Capped:
    return Capped(limits={})


def starts(world: Capped, seconds: int) -> list[int]:
    """Seconds of the starts, while a worker takes what comes and a tick comes each minute."""
    hand, found, began = world.hand("w"), list[int](), world.clock()
    while world.clock() < began + seconds * SECOND:
        if world.clock() % MINUTE == 0:
            world.tick()
        world.take_all(hand[0])
        found += [(world.clock() - began) // SECOND] * len(hand[1].going)
        hand[1].end(1_000)
        world.wait(1)
    return found


def test_nothing_of_a_frozen_job_starts_and_everything_else_does() -> None:
    world, faults = scene(), Faults()
    world.scheduler.freeze(world.now() + HOUR, job="note", reason="provider is down")
    hand = world.hand("w", faults)
    world.submit(12)
    world.scheduler.submit("once")
    world.take_all(hand[0])
    assert [each.run.job for each, _ in hand[1].going] == ["once"]
    assert world.waiting() == 12
    (part,) = world.scheduler.holds().parts
    assert (part.part, part.waiting, part.reason, part.until) == (
        "job note",
        12,
        "provider is down",
        world.now() + HOUR,
    )
    assert world.scheduler.frozen() is None, "the tenant is not"
    assert sum(len(detail.items) for _, detail in faults.calls if detail.verb == "receive") <= 14, "no message circles"


def test_thawed_at_a_rate_what_waited_starts_in_its_order() -> None:
    world = scene()
    world.scheduler.freeze(world.now() + HOUR, job="note")
    hand = world.hand("w")
    world.submit(300)
    world.take_all(hand[0])
    assert world.waiting() == 300
    assert world.scheduler.thaw(job="note", per_minute=600) == 300
    found = starts(world, 60)
    assert len(found) == 300
    by_second = [found.count(second) for second in range(28)]
    assert all(9 <= number <= 11 for number in by_second[1:]), by_second
    assert world.ended() == {"SUCCEEDED": 300}


def test_what_comes_while_others_start_at_a_rate_comes_after_them() -> None:
    world = scene()
    world.scheduler.freeze(world.now() + HOUR, job="note")
    hand, order = world.hand("w"), list[RunRow]()
    world.submit(20)
    world.take_all(hand[0])
    world.wait(1)
    world.scheduler.thaw(job="note", per_minute=60)
    late = world.submit(1)
    for _ in range(25):
        world.take_all(hand[0])
        order += [each.run for each, _ in hand[1].going]
        hand[1].end(99)
        world.wait(1)
    assert len(order) == 21
    assert [str(order[-1].ref)] == late


def test_a_freeze_that_ends_by_itself_lets_what_waited_go() -> None:
    world = scene()
    world.scheduler.freeze(world.now() + timedelta(minutes=5), job="note")
    world.submit(150)
    assert starts(world, 5 * 60) == []
    assert len(starts(world, 4 * 60)) == 150


def test_a_queue_and_a_key_are_frozen_apart_from_others() -> None:
    world = scene()
    flow = Flow(key="customer", at_a_time=5)
    world.scheduler.freeze(world.now() + HOUR, job="note", key="ada")
    for customer in ("ada", "bob"):
        world.scheduler.submit("note", {"customer": customer}, flow=flow)
    hand = world.hand("w")
    world.take_all(hand[0])
    assert ['"bob"' in str(each.payload) for each, _ in hand[1].going] == [True]
    world.scheduler.freeze(world.now() + HOUR, queue="default")
    world.scheduler.submit("note", {"customer": "cyd"}, flow=flow)
    world.take_all(hand[0])
    assert len(hand[1].going) == 1
    assert [one.part for one in world.scheduler.holds().parts] == ["key 'ada' of note", "queue default"]
    hand[1].end(9)
    world.scheduler.thaw(queue="default")
    world.scheduler.thaw(job="note", key="ada")
    starts(world, 150)
    assert world.ended() == {"SUCCEEDED": 3}


def test_fires_and_retries_of_a_frozen_job_wait_as_well() -> None:
    world = scene()
    world.scheduler.create_schedule("s", "bad", "rate(1 minute)")
    assert len(starts(world, 90)) == 1
    world.scheduler.freeze(world.now() + HOUR, job="bad")
    assert starts(world, 240) == []
    assert world.waiting() >= 3
    world.scheduler.thaw(job="bad")
    assert len(starts(world, 60)) >= 3


def test_a_freeze_of_the_tenant_and_of_parts_leave_each_other_alone() -> None:
    world = scene()
    scheduler, end = world.scheduler, world.now() + HOUR
    scheduler.freeze(end, job="note")
    scheduler.freeze(end)
    assert (scheduler.frozen(), len(scheduler.holds().parts)) == (end, 1)
    scheduler.thaw()
    assert (scheduler.frozen(), len(scheduler.holds().parts)) == (None, 1)
    scheduler.freeze(end, job="note", reason="again")
    assert [one.reason for one in scheduler.holds().parts] == ["again"]


def test_a_worker_that_still_believes_in_the_freeze_takes_no_thaw_back() -> None:
    cap = ConcurrencyCap(tenant="acme", job="d", most=None, flow=Flow(per_minute=60), paused_until=NOON + 9, since=NOON)
    thawed = replace(cap, paused_until=NOON + 5, since=NOON + 5)
    permits = CapPermits().under(cap).under(thawed)
    assert permits.claimed(cap, [("a", True)], NOON + 6)[1] == {"a"}


def test_of_two_acts_at_once_both_hold() -> None:
    world, faults = scene(), Faults()
    other = world.owner()
    faults.at("freeze", before=lambda: other.freeze(world.now() + HOUR, job="once"))
    world.owner(faults).freeze(world.now() + HOUR, job="note")
    assert sorted(one.part for one in world.scheduler.holds().parts) == ["job note", "job once"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"key": "ada"}, "key"),
        ({"flow": "shop"}, "flow"),
        ({"job": "note", "queue": "default"}, "queue"),
        ({"job": "no name"}, "job"),
    ],
)
def test_a_part_that_cannot_be_meant_is_refused(given: dict[str, str], field: str) -> None:
    world = scene()
    with pytest.raises(InvalidInput) as caught:
        world.scheduler.freeze(world.now() + HOUR, **given)
    assert caught.value.field == field
    with pytest.raises(NotFound, match="job='note': it is not frozen"):
        world.scheduler.thaw(job="note")


def test_why_says_what_is_frozen() -> None:
    world = scene()
    world.scheduler.freeze(world.now() + HOUR, job="note")
    (run_id,) = world.submit(1)
    hand = world.hand("w")
    world.take_all(hand[0])
    world.wait(60)
    assert "Job note is frozen until" in str(world.scheduler.why_run(run_id))


def test_a_part_that_is_frozen_again_starts_at_its_rate_again() -> None:
    world = scene()
    hand = world.hand("w")
    world.scheduler.freeze(world.now() + HOUR, job="note")
    world.submit(8)
    world.take_all(hand[0])
    world.scheduler.thaw(job="note", per_minute=6)
    first = starts(world, 15)
    world.scheduler.freeze(world.now() + HOUR, job="note")
    assert starts(world, 300) == []
    world.scheduler.thaw(job="note", per_minute=6)
    again = starts(world, 240)
    assert len(first) + len(again) == 8
    assert all(later - earlier >= 9 for earlier, later in pairwise(again)), again


def test_a_frozen_job_takes_no_permit_of_a_flow_that_others_share() -> None:
    world, flow = scene(), Flow(name="shared", key="customer", at_a_time=1)
    hand = world.hand("w")
    world.scheduler.freeze(world.now() + HOUR, job="note")
    for job in ("note", "note", "once"):
        world.scheduler.submit(job, {"customer": "ada"}, flow=flow)
    world.take_all(hand[0])
    assert [each.run.job for each, _ in hand[1].going] == ["once"]
    assert world.scheduler.holds().parts[0].waiting == 2


def test_a_key_is_frozen_by_its_job_though_its_flow_has_a_name() -> None:
    world, flow = scene(), Flow(name="shared", key="customer", at_a_time=3)
    hand = world.hand("w")
    world.scheduler.freeze(world.now() + HOUR, job="note", key="ada")
    for job, customer in (("note", "ada"), ("note", "bob"), ("once", "ada")):
        world.scheduler.submit(job, {"customer": customer}, flow=flow)
    world.take_all(hand[0])
    assert [(each.run.job, '"bob"' in str(each.payload)) for each, _ in hand[1].going] == [
        ("note", True),
        ("once", False),
    ]


def test_the_task_of_a_pipeline_may_have_a_job_with_a_flow() -> None:
    world = scene()
    world.jobs.job("limited", flow=Flow(key="customer", at_a_time=1))(world.note)
    tasks = {"t": {"job": "limited", "payload": {"customer": "ada"}}}
    world.scheduler.create_schedule("pipe", "pipeline:pipe", "0 2 * * *", tasks=tasks)
    assert world.scheduler.get_schedule("pipe").name == "pipe"
