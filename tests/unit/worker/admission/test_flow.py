"""The policy ``flow``: permits by a key of the payload; whoever finds none waits, is skipped, or takes another's place."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from quarterjack import Flow
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import LEASE, SKEW
from quarterjack.state.tenants.caps import flow_cap
from quarterjack.state.tenants.permits import HELD
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.settle import release_run

from tests.support.scenes.capped import Capped, Lasting
from tests.support.scenes.world import NOON, Faults, fails

Hand = tuple[WorkerContext, Lasting]


def scene() -> Capped:
    """Without limits of the tenant."""
    return Capped(limits={})


def submit(world: Capped, flow: Flow, number: int, *, unasked: bool = False, **payload: Any) -> list[str]:
    """``unasked``: the submitter could not ask for permits, so that the worker does."""
    owner = world.owner(Faults().at("record", before=fails, times=None)) if unasked else world.scheduler
    return [owner.submit("note", {"n": n, **payload}, flow=flow).id for n in range(number)]


def going(hand: Hand) -> Counter[str]:
    """Jobs that go, by their customer."""
    return Counter(str(each.payload).partition('"customer":')[2].strip('"}') for each, _ in hand[1].going)


def by_state(world: Capped) -> dict[str, list[RunRow]]:
    found: dict[str, list[RunRow]] = {}
    for run in sorted(world.memory.runs(None), key=lambda run: (run.due, run.created_at)):
        found.setdefault(str(run.state), []).append(run)
    return found


@pytest.mark.parametrize("unasked", [False, True])
def test_each_key_has_permits_of_its_own_and_all_runs_come_in_turn(*, unasked: bool) -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=2)
    hands = [world.hand(f"w{n}") for n in range(2)]
    for customer in ("ada", "bob"):
        submit(world, flow, 7, unasked=unasked, customer=customer)
    submit(world, flow, 1, unasked=unasked, customer="cyd")
    for _ in range(12):
        world.take_all(*(worker for worker, _ in hands))
        live = going(hands[0]) + going(hands[1])
        assert max(live.values(), default=0) <= 2
        assert world.live() + world.waiting() + world.ended()["SUCCEEDED"] == 15, "nobody is lost"
        for _, jobs in hands:
            jobs.end(9)
    assert world.ended() == {"SUCCEEDED": 15}
    assert world.waiting() == 0


@pytest.mark.parametrize("unasked", [False, True])
def test_a_run_behind_a_full_key_is_received_once_or_twice_if_its_worker_asks_for_it(*, unasked: bool) -> None:
    world, flow, faults = scene(), Flow(key="customer", at_a_time=1), Faults()
    hand = world.hand("w", faults)
    submit(world, flow, 10, unasked=unasked, customer="ada")
    received, order = 0, list[int]()
    for _ in range(12):
        received += sum(iter(lambda: world.take(hand[0]), 0))
        order += [each.run.due for each, _ in hand[1].going]
        hand[1].end()
        world.wait(1)
    assert (world.ended(), order) == ({"SUCCEEDED": 10}, sorted(order))
    assert received == (19 if unasked else 10)


def test_who_was_sent_for_writes_no_permit_and_one_write_gives_it_to_the_next() -> None:
    world, flow, faults = scene(), Flow(key="customer", at_a_time=1), Faults()
    hand = world.hand("w", faults)
    submit(world, flow, 3, customer="ada")
    world.take_all(hand[0])
    hand[1].end()
    before = faults.verbs().count("write_record")
    world.take_all(hand[0])
    hand[1].end()
    assert faults.verbs().count("write_record") - before == 1


@pytest.mark.parametrize("unasked", [False, True])
def test_runs_of_a_batch_with_one_key_share_their_writes(*, unasked: bool) -> None:
    world, flow, faults = scene(), Flow(key="customer", at_a_time=50), Faults()
    hand = world.hand("w", faults)
    submit(world, flow, 10, unasked=unasked, customer="ada")
    world.take(hand[0])
    assert len(hand[1].going) == 10
    hand[1].end(10)
    assert faults.verbs().count("write_record") == (2 if unasked else 1)


def test_a_run_without_a_flow_costs_nothing() -> None:
    world, faults = scene(), Faults()
    hand = world.hand("w", faults)
    world.submit(3)
    world.take_all(hand[0])
    hand[1].end(3)
    assert {"write_record", "record"}.isdisjoint(faults.verbs())


@pytest.mark.parametrize("unasked", [False, True])
def test_a_second_delivery_gives_back_no_permit_of_the_run_that_goes(*, unasked: bool) -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1)
    first, second = world.hand("w1"), world.hand("w2")
    submit(world, flow, 2, unasked=unasked, customer="ada")
    world.take_all(first[0])
    assert len(first[1].going) == 1
    run = first[1].going[0][0].run
    world.services.work.send([_again(world, run)])
    world.take_all(second[0])
    assert (world.live(), len(second[1].going)) == (1, 0)
    first[1].end()
    world.take_all(second[0])
    assert len(second[1].going) == 1
    second[1].end()
    assert world.ended() == {"SUCCEEDED": 2}


def _again(world: Capped, run: RunRow) -> Any:
    from quarterjack.fires.claim import one_off_message, outgoing

    return outgoing(one_off_message(run), 0, world.clock(), world.services.work)


@pytest.mark.parametrize("unasked", [False, True])
@pytest.mark.parametrize("kind", ["kill", "stall", "release"])
def test_a_permit_outlives_the_lease_of_its_run_and_no_longer(kind: str, *, unasked: bool) -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1)
    first, other = world.hand("first"), world.hand("other")
    submit(world, flow, 3, unasked=unasked, customer="ada")
    world.take(first[0], most=1)
    assert world.live() == 1
    if kind == "release":
        assert release_run(first[0], first[0].heartbeat.all()[0])
    world.take_all(other[0])
    assert len(other[1].going) == (kind == "release"), "its permit went with its lease"
    leased = world.clock()
    while world.ended()["SUCCEEDED"] < 3 and world.clock() < leased + 15 * MINUTE:
        world.wait(5)
        if world.clock() % MINUTE == 0:
            world.tick()
        world.take_all(other[0])
        world.beat(other[0], seconds=0)
        assert world.live() <= 1
        if kind != "release" and other[1].going:
            assert world.clock() >= leased + LEASE + SKEW
        if kind == "stall" and world.clock() == leased + HELD + SKEW + 10 * SECOND:
            first[0].heartbeat.beat(world.clock())
            first[1].end()
        if world.clock() % (30 * SECOND) == 0:
            other[1].end()
    assert world.ended() == {"SUCCEEDED": 3}


def test_a_long_job_keeps_its_permit() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1)
    hand, other = world.hand("w"), world.hand("other")
    submit(world, flow, 2, customer="ada")
    world.take(hand[0], most=1)
    for _ in range(30):
        world.beat(hand[0])
        if world.clock() % MINUTE == 0:
            world.tick()
        world.take_all(other[0])
        assert (world.live(), len(other[1].going)) == (1, 0)
    hand[1].end()
    world.take_all(other[0])
    assert len(other[1].going) == 1


@pytest.mark.parametrize("unasked", [False, True])
def test_a_rate_spaces_starts_and_late_runs_are_sent_for_their_time(*, unasked: bool) -> None:
    world, flow = scene(), Flow(key="customer", per_minute=30, burst=3)
    hand = world.hand("w")
    submit(world, flow, 100, unasked=unasked, customer="ada")
    submit(world, flow, 1, unasked=unasked, customer="bob")
    starts = list[int]()
    for second in range(5 * 60):
        if second % 60 == 0:
            world.tick()
        world.take_all(hand[0])
        starts += [second for each, _ in hand[1].going if '"ada"' in str(each.payload)]
        hand[1].end(99)
        world.wait(1)
    assert len(starts) == 100
    windows = [sum(first <= at < first + 60 for at in starts) for first in range(180)]
    assert max(windows) <= 33
    assert min(windows[:130]) >= 28, "while there is work"
    assert world.ended() == {"SUCCEEDED": 101}


def test_what_a_rate_has_let_go_needs_no_permit() -> None:
    world, flow = scene(), Flow(per_minute=6_000, burst=100)
    hand = world.hand("w")
    submit(world, flow, 20)
    world.take_all(hand[0])
    assert world.live() == 20
    world.beat(hand[0], seconds=50)
    world.beat(hand[0], seconds=50)
    assert world.live() == 20
    hand[1].end(20)
    assert world.ended() == {"SUCCEEDED": 20}


def test_skip_new() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1, on_full="skip_new")
    hand = world.hand("w")
    submit(world, flow, 3, customer="ada")
    world.take_all(hand[0])
    hand[1].end()
    found = by_state(world)
    assert {state: len(runs) for state, runs in found.items()} == {"SUCCEEDED": 1, "SKIPPED": 2}
    assert found["SKIPPED"][0].reason == "flow: note 'ada' has its 1 at a time"


def test_keep_newest() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1, on_full="keep_newest")
    hand = world.hand("w")
    for n in range(6):
        world.scheduler.submit("note", {"n": n, "customer": "ada"}, flow=flow)
        world.take_all(hand[0])
        world.wait(1)
    assert (world.live(), world.waiting()) == (1, 1)
    hand[1].end()
    world.take_all(hand[0])
    hand[1].end()
    found = by_state(world)
    assert {state: [(run.due - NOON) // SECOND for run in runs] for state, runs in found.items()} == {
        "SUCCEEDED": [0, 5],
        "SKIPPED": [1, 2, 3, 4],
    }
    assert (found["SKIPPED"][0].reason or "").endswith("a newer run of note 'ada', is in its place")


def test_cancel_old() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1, on_full="cancel_old")
    hand = world.hand("w")
    submit(world, flow, 1, customer="ada")
    world.take_all(hand[0])
    (goes,) = world.memory.runs(None)
    world.wait(1)
    submit(world, flow, 1, customer="ada")
    world.take_all(hand[0])
    assert world.run_of(str(goes.ref)).cancel_requested
    assert (world.live(), world.waiting()) == (1, 1)
    hand[1].end()
    world.take_all(hand[0])
    hand[1].end()
    assert world.ended() == {"SUCCEEDED": 2}


def test_by_priority_the_most_urgent_goes_first() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1, order="priority")
    hand, order = world.hand("w"), list[str]()
    for priority in ("normal", "low", "high", "normal"):
        world.scheduler.submit("note", {"customer": "ada"}, flow=flow, priority=priority)
        world.take_all(hand[0])
        world.wait(1)
    for _ in range(4):
        order += [each.policies.priority.value for each, _ in hand[1].going]
        hand[1].end()
        world.take_all(hand[0])
    assert order == ["normal", "high", "normal", "low"]


@pytest.mark.parametrize("strict", [False, True])
def test_permits_that_cannot_be_written_hold_up_strict_flows_alone(strict: bool) -> None:
    world, faults = scene(), Faults()
    faults.at("write_record", before=fails, times=None)
    hand = world.hand("w", faults)
    submit(world, Flow(key="customer", at_a_time=1, strict=strict), 2, unasked=True, customer="ada")
    world.take(hand[0])
    assert len(hand[1].going) == (0 if strict else 2)


def test_a_flow_with_a_name_is_shared_by_jobs_and_the_key_may_be_nested() -> None:
    world, flow = scene(), Flow(name="shop", key="order.shop", at_a_time=1)
    hand = world.hand("w")
    for job in ("note", "once"):
        world.scheduler.submit(job, {"order": {"shop": 7}}, flow=flow)
        world.take_all(hand[0])
    world.scheduler.submit("note", {"order": {"shop": "8"}}, flow=flow)
    world.scheduler.submit("note", {"order": []}, flow=flow)
    world.take_all(hand[0])
    assert (world.live(), world.waiting()) == (3, 1)


def test_the_flow_of_a_job_is_that_of_its_submissions_and_schedules() -> None:
    world = scene()
    world.jobs.job("limited", flow=Flow(key="customer", at_a_time=1))(world.note)
    hand = world.hand("w")
    for _ in range(3):
        world.scheduler.submit("limited", {"customer": "ada"})
    world.take_all(hand[0])
    assert (world.live(), world.waiting()) == (1, 2)
    assert all('"flow"' in (run.overrides or "") for run in world.memory.runs(None)), "who looks at the run finds it"
    (cap,) = {flow_cap("acme", "limited", Flow(key="customer", at_a_time=1), '{"customer": "ada"}')}
    assert len(world.permits(cap).sent) == 1


def test_a_submission_does_not_pass_those_who_wait_though_a_permit_is_free() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1)
    dead, other = world.hand("dead"), world.hand("other")
    first, waits = submit(world, flow, 2, customer="ada")
    world.take_all(dead[0])
    world.wait(140)
    late = submit(world, flow, 1, customer="ada")
    assert str(late[0]) not in [str(message.run) for message in world.memory.messages()]
    order = list[str]()
    for _ in range(6):
        world.take_all(other[0])
        order += [str(each.run.ref) for each, _ in other[1].going]
        other[1].end(9)
        world.wait(60)
    assert order.index(waits) < order.index(late[0])
    assert first in order


def test_the_ticker_sends_for_who_waits_when_nobody_else_does() -> None:
    world, flow = scene(), Flow(key="customer", at_a_time=1)
    dead, other = world.hand("dead"), world.hand("other")
    submit(world, flow, 2, customer="ada")
    world.take_all(dead[0])
    world.wait(4 * 60)
    world.tick()
    world.wait(60)
    world.tick()
    world.take_all(other[0])
    assert len(other[1].going) == 1
    assert {run.state for run in world.memory.runs(None)} <= {RunState.RUNNING, RunState.QUEUED}


def test_a_run_that_is_moved_does_not_start_before_its_rate_lets_it() -> None:
    world, flow = scene(), Flow(key="customer", per_minute=1)
    hand = world.hand("w")
    ids = submit(world, flow, 5, customer="ada")
    world.take_all(hand[0])
    assert len(hand[1].going) == 1
    for run_id in ids[1:]:
        world.scheduler.requeue(run_id, priority="high")
    for _ in range(20):
        world.wait(1)
        world.take_all(hand[0])
    assert len(hand[1].going) == 1
    starts = list[int]()
    for second in range(8 * 60):
        if second % 60 == 0:
            world.tick()
        world.take_all(hand[0])
        starts += [second] * len(hand[1].going)
        hand[1].end(9)
        world.wait(1)
    assert all(later - earlier >= 59 for earlier, later in pairwise(starts[1:]))
    assert world.ended() == {"SUCCEEDED": 5}


def test_few_starts_are_booked_so_that_a_later_run_may_pass() -> None:
    world, flow = scene(), Flow(key="customer", per_minute=6, order="priority")
    hand = world.hand("w")
    for priority in ("low", "low", "low", "low", "high"):
        world.scheduler.submit("note", {"customer": "ada"}, flow=flow, priority=priority)
        world.wait(0.1)
    order = list[str]()
    for second in range(120):
        if second % 60 == 0:
            world.tick()
        world.take_all(hand[0])
        order += [each.policies.priority.value for each, _ in hand[1].going]
        hand[1].end(9)
        world.wait(1)
    assert order == ["low", "low", "high", "low", "low"], "one had started, and one was booked"
