"""A job waits for a time, a signal or other runs: its run parks, is woken, and the job is called again with the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Retry
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import EntryKind, RunRow
from quarterjack.errors import ChildFailed, Conflict, InvalidInput, Parking, WaitTimedOut
from quarterjack.stores.waits import SignalRow
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.execution.wait_values import wait_ms

from tests.support.scenes.world import START, Faults, World, crash, fails
from tests.support.units import counted

YES = SignalRow(payload="1", at=0)


def run_of(world: World, run_id: str) -> RunRow:
    run = world.services.ledger.read(parse_run_id(run_id))
    assert run is not None
    return run


def started(world: World, job: Callable[[Context, Any], object], **options: Any) -> str:
    """A run of this job, after its first slice."""
    world.jobs.job("waits", retry=Retry(max_attempts=3, base=1.0, jitter=0.0))(job)
    run = world.scheduler.submit("waits", **options)
    world.work()
    return run.id


def ended_after(world: World, run_id: str) -> str:
    """The stored error of a run that fails."""
    world.live(60)
    failure = run_of(world, run_id).failure
    assert failure is not None
    return failure.message


def approval(ctx: Context, payload: object) -> object:
    return ctx.wait_for("approval", timeout=3_600)


def two_children(ctx: Context, payload: object) -> object:
    return ctx.gather([ctx.submit("note", number, step=f"c{number}") for number in (1, 2)])


# Sleeps.


def test_a_run_sleeps_without_message_lease_or_attempt() -> None:
    world = World()
    run = run_of(world, started(world, lambda ctx, payload: ctx.sleep(7_200)))
    assert (run.state, run.attempt, run.slices, run.wait_no, run.awaits) == ("PARKED", 0, 1, 1, "sleep")
    assert run.reason == "sleeps until 2026-05-04T14:00:00+00:00"
    assert (run.lease_token, len(world.memory.work)) == (None, 0)
    world.live(7_100)
    assert run_of(world, str(run.ref)).state == "PARKED"
    world.live(120)
    assert (after := run_of(world, str(run.ref))).state == "SUCCEEDED"
    assert (after.attempt, after.fence) == (1, 2)


def test_a_short_sleep_is_a_delayed_message_and_no_write() -> None:
    world, plain = World(), World()
    with counted() as without:
        plain.scheduler.submit("note")
        plain.work()
    with counted() as with_sleep:
        run_id = started(world, lambda ctx, payload: ctx.sleep(600))
        world.wait(600)
        world.work()
    assert run_of(world, run_id).state == "SUCCEEDED"
    slices = 2  # the park in place of an end, and the second lease
    assert with_sleep == without | {"runs": without["runs"] + slices}


def test_a_long_sleep_costs_a_timer_and_its_removal() -> None:
    world, plain = World(), World()
    with counted() as short:
        started(plain, lambda ctx, payload: ctx.sleep(600))
        plain.wait(600)
        plain.work()
    with counted() as long:
        run_id = started(world, lambda ctx, payload: ctx.sleep(6_000))
        world.wait(5_900)
        world.tick()
        world.wait(100)
        world.work()
    assert run_of(world, run_id).state == "SUCCEEDED"
    ticks = 2  # of the tick itself: the lock of its shard, taken and given back
    assert sum(long.values()) - sum(short.values()) == 2 + ticks


def test_a_time_that_has_come_is_no_wait() -> None:
    world = World()
    run_id = started(world, lambda ctx, payload: (ctx.sleep(0), ctx.sleep(until=world.now()), "on")[-1])
    assert (run := run_of(world, run_id)).result == '"on"'
    assert (run.wait_no, run.slices) == (0, 0)


@pytest.mark.parametrize("given", [{"seconds": -1}, {"seconds": 367 * 86_400}, {"seconds": True}, {"seconds": "5"}, {}])
def test_what_is_no_time_is_refused(given: dict[str, Any]) -> None:
    world, problems = World(), list[str]()

    def job(ctx: Context, payload: object) -> None:
        with pytest.raises(InvalidInput) as caught:
            ctx.sleep(**given)
        problems.append(caught.value.field)

    assert run_of(world, started(world, job)).state == "SUCCEEDED"
    assert problems == ["seconds"]


# Signals.


def test_a_signal_wakes_its_run_at_once() -> None:
    world = World()
    run_id = started(world, approval)
    assert world.scheduler.get_run(run_id).awaits == "signal:approval"
    receipt = world.scheduler.signal(run_id, "approval", {"ok": True})
    assert (receipt.outcome, receipt.payload) == ("accepted", {"ok": True})
    world.work()  # without a tick
    assert (run_of(world, run_id).state, world.scheduler.get_run(run_id).result) == ("SUCCEEDED", {"ok": True})


def test_a_signal_may_come_before_its_wait() -> None:
    world = World()
    world.jobs.job("waits")(approval)
    run = world.scheduler.submit("waits", delay=60)
    world.scheduler.signal(run.id, "approval", 1)
    world.wait(60)
    world.work()
    assert (found := run_of(world, run.id)).result == "1"
    assert (found.wait_no, found.slices) == (0, 0)


def test_a_signal_that_comes_while_the_run_parks_is_found_by_the_second_check() -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits")(approval)
    run = world.scheduler.submit("waits")
    faults.at("park", before=lambda: world.scheduler.signal(run.id, "approval", 1))
    world.work(world.worker(faults))  # without a tick
    assert run_of(world, run.id).result == "1"


def test_the_first_signal_is_the_answer() -> None:
    world = World()
    run_id = started(world, approval)
    told = [world.scheduler.signal(run_id, "approval", number) for number in (1, 1, 2)]
    assert [(each.outcome, each.payload) for each in told] == [("accepted", 1), ("repeated", 1), ("answered", 1)]
    world.work()
    assert run_of(world, run_id).result == "1"
    assert world.scheduler.signal(run_id, "approval", 2).outcome == "answered"  # also after its end
    with pytest.raises(Conflict, match="SUCCEEDED"):
        world.scheduler.signal(run_id, "other", 2)


def test_a_timeout_is_decided_once() -> None:
    world, seen = World(), list[str]()

    def job(ctx: Context, payload: object) -> str:
        try:
            ctx.wait_for("approval", timeout=600)
        except WaitTimedOut:
            seen.append("late")
        ctx.sleep(60)
        return "over"

    run_id = started(world, job)
    world.live(610)
    assert (run_of(world, run_id).awaits, seen) == ("sleep", ["late"])
    assert world.scheduler.signal(run_id, "approval", 1).outcome == "timed-out"
    world.live(120)
    assert (run_of(world, run_id).result, seen) == ('"over"', ["late", "late"])


def test_a_timeout_that_the_job_does_not_catch_is_its_end() -> None:
    world = World()
    run_id = started(world, approval)
    world.live(3_700)
    assert (run := run_of(world, run_id)).state == "DEAD"
    assert (run.attempt, run.failure and run.failure.kind) == (1, "WaitTimedOut")


def test_a_signal_whose_sender_dies_is_found_by_the_timer() -> None:
    world, faults = World(), Faults()
    run_id = started(world, approval)
    faults.at("wake", before=crash)
    with pytest.raises(BaseException):  # noqa: B017 (Crash is none of Exception)
        world.owner(faults).signal(run_id, "approval", 1)
    assert run_of(world, run_id).state == "PARKED"
    world.live(200)
    assert run_of(world, run_id).result == "1"


def test_the_timer_of_a_wait_that_is_over_is_no_longer_needed() -> None:
    world = World()
    run_id = started(world, lambda ctx, payload: (ctx.wait_for("a"), ctx.sleep(5_000)))
    (timer,) = world.entries(EntryKind.RUN)
    assert timer.id == f"{run_id}#wait1"
    world.scheduler.signal(run_id, "a")
    world.work()
    world.live(600)
    assert [entry.id for entry in world.entries(EntryKind.RUN)] == [run_id]  # the end of the sleep


def test_a_wait_is_checked_once_an_hour() -> None:
    world, faults = World(), Faults()
    run_id = started(world, lambda ctx, payload: ctx.wait_for("a"))
    world.live(7 * 3_600)
    ticker = world.process(faults)
    for _ in range(180):
        world.tick(ticker)
        world.wait(60)
    assert run_of(world, run_id).state == "PARKED"
    assert 2 <= faults.verbs().count("signal") <= 3


# Children.


def test_children_wake_their_parent_when_the_last_has_ended() -> None:
    world = World()
    world.jobs.job("double")(lambda ctx, payload: payload * 2)
    run_id = started(world, lambda ctx, payload: ctx.gather([ctx.submit("double", n, step=f"c{n}") for n in (1, 2, 3)]))
    world.work()  # without a tick
    assert (parent := run_of(world, run_id)).result == "[2,4,6]"
    assert (parent.slices, parent.wait_no) == (1, 1)  # not woken by each
    children = [run for run in world.memory.runs() if run.parent == run_id]
    assert sorted(run.child_no or 0 for run in children) == [1, 2, 3]


def units_of(work: Callable[[World], object]) -> int:
    with counted() as units:
        work(World())
    return sum(units.values())


def plain_runs(number: int) -> Callable[[World], object]:
    return lambda world: ([world.scheduler.submit("note") for _ in range(number)], world.work())


def children(number: int) -> Callable[[World], object]:
    return lambda world: started(
        world, lambda ctx, payload: ctx.gather([ctx.submit("note", None, step=f"c{n}") for n in range(number)])
    )


def test_a_child_costs_its_run_and_one_write() -> None:
    a_run = units_of(plain_runs(2)) - units_of(plain_runs(1))
    assert units_of(children(2)) - units_of(children(1)) == a_run + 1


def test_a_child_that_fails_raises_or_stands_in_its_place() -> None:
    world = World()
    world.jobs.job("fails", retry=Retry(max_attempts=1))(lambda ctx, payload: 1 // 0)

    def job(ctx: Context, payload: object) -> object:
        children = [ctx.submit("fails", step="bad"), ctx.submit("note", step="good")]
        found = ctx.gather(children, return_exceptions=True)
        assert isinstance(found[0], ChildFailed)
        return [found[0].state, found[0].error, found[1], str(ctx.gather(children[:1]))]

    run_id = started(world, job)
    world.live(60)
    run = run_of(world, run_id)
    assert (run.state, run.failure and run.failure.kind) == ("DEAD", "ChildFailed")
    assert "child 'bad'" in (run.failure.message if run.failure else "")
    assert "ZeroDivisionError" in (run.failure.message if run.failure else "")


def test_a_parent_that_is_called_again_submits_no_child_again() -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits", retry=Retry(max_attempts=5, base=1.0))(two_children)
    run = world.scheduler.submit("waits")
    faults.at("park", before=fails, times=None)
    worker = world.worker(faults)
    world.work(worker)  # the children have run, the parent could not park
    world.live(300)
    assert run_of(world, run.id).state == "SUCCEEDED"
    assert len([each for each in world.memory.runs() if each.parent]) == 2
    assert len([start for start in world.started if start.payload in (1, 2)]) == 2


def test_many_children_leave_the_row_small() -> None:
    world = World()
    run_id = started(
        world, lambda ctx, payload: len(ctx.gather([ctx.submit("note", n, step=f"child-{n}") for n in range(250)]))
    )
    row = world.memory.row(parse_run_id(run_id))
    assert row is not None
    assert sum(len(name) + len(str(value)) for name, value in row.items()) < 1_000
    assert (row["asked_before"], row["awaits"]) == (251, "children:1-250")
    world.live(120)
    assert run_of(world, run_id).result == "250"


def first_message(world: World, worker: WorkerContext | None = None) -> None:
    """A worker takes one message, and what that brings stays for others."""
    Hand(worker=worker or world.worker()).work(most=1)


def test_a_cancellation_reaches_the_children() -> None:
    world = World()
    world.jobs.job("waits")(two_children)
    run = world.scheduler.submit("waits")
    first_message(world)
    assert run_of(world, run.id).state == "PARKED"
    world.scheduler.cancel_run(run.id)
    assert {each.state for each in world.memory.runs()} == {"CANCELLED"}
    world.live(300)
    assert world.started == []


def test_a_child_of_a_run_that_was_cancelled_while_it_ran_does_not_start() -> None:
    world = World()
    world.jobs.job("waits")(two_children)
    run = world.scheduler.submit("waits")
    first_message(world, world.worker(Faults().at("park", before=lambda: world.scheduler.cancel_run(run.id))))
    assert run_of(world, run.id).state == "CANCELLED"
    world.live(300)
    assert {each.state for each in world.memory.runs()} == {"CANCELLED"}
    assert world.started == []


def test_an_end_by_its_deadline_is_told_to_the_parent() -> None:
    world = World()
    world.jobs.job("deaf")(lambda ctx, payload: ctx.wait_for("never"))
    run_id = started(
        world,
        lambda ctx, payload: [
            one.state for one in ctx.gather([ctx.submit("deaf", step="c", deadline=120)], return_exceptions=True)
        ],
    )
    world.live(400)
    assert run_of(world, run_id).result == '["EXPIRED"]'


# The record.


def test_another_order_fails_and_names_both() -> None:
    world, order = World(), ["a", "b"]

    def job(ctx: Context, payload: object) -> None:
        for name in order:
            ctx.wait_for(name)

    run_id = started(world, job)
    order.reverse()
    world.scheduler.signal(run_id, "a")
    world.live(60)
    failure = run_of(world, run_id).failure
    assert failure is not None
    assert failure.kind == "Diverged"
    assert "'signal a' before, and is 'signal b' now" in failure.message


def test_a_wait_within_a_step_is_refused() -> None:
    world = World()
    run_id = started(world, lambda ctx, payload: ctx.step("s", lambda: ctx.sleep(5)))
    failure = run_of(world, run_id).failure
    assert failure is not None
    assert (failure.kind, "within a step" in failure.message) == ("InvalidInput", True)


def test_a_job_that_goes_on_fails() -> None:
    world = World()

    def job(ctx: Context, payload: object) -> str:
        try:
            ctx.sleep(60)
        except Parking:
            return "on"
        return "slept"

    failure = run_of(world, started(world, job)).failure
    assert failure is not None
    assert (failure.kind, "Parking" in failure.message) == ("JobError", True)


def test_a_job_that_asks_on_parks_all_the_same() -> None:
    """A handler in between that wants a second wait does not change the first."""
    world = World()

    def job(ctx: Context, payload: object) -> str:
        try:
            ctx.sleep(60)
        finally:
            ctx.sleep(90)
        return "slept"

    run = run_of(world, started(world, job))
    assert (run.state, run.asked) == ("PARKED", '["sleep 1"]')


def test_an_async_job_awaits() -> None:
    world = World()

    async def job(ctx: Context, payload: object) -> object:
        child = await ctx.submit("note", step="c")
        await ctx.sleep(30)
        await ctx.gather([child])
        return await ctx.wait_for("go")

    run_id = started(world, job)
    world.live(60)
    world.scheduler.signal(run_id, "go", "on")
    world.work()
    assert run_of(world, run_id).result == '"on"'


def test_steps_are_not_repeated() -> None:
    world, done = World(), list[str]()

    def job(ctx: Context, payload: object) -> None:
        ctx.step("before", lambda: done.append("before"))
        ctx.sleep(30)
        ctx.step("after", lambda: done.append("after"))

    run_id = started(world, job)
    world.live(60)
    assert (run_of(world, run_id).state, done) == ("SUCCEEDED", ["before", "after"])


# Deaths.


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_that_dies_around_the_park_leaves_nothing_behind(moment: str) -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits")(approval)
    run = world.scheduler.submit("waits")
    faults.at("park", **{moment: crash})
    with pytest.raises(Crash):
        world.work(world.worker(faults))
    world.scheduler.signal(run.id, "approval", 1)
    world.live(300)
    assert run_of(world, run.id).result == "1"


def test_a_worker_that_dies_before_its_second_check_is_stood_in_for_by_its_message() -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits")(approval)
    run = world.scheduler.submit("waits")
    faults.at(
        "park", before=lambda: world.services.waits.put_signal(parse_run_id(run.id), "approval", YES), after=crash
    )
    with pytest.raises(Crash):
        world.work(world.worker(faults))
    assert run_of(world, run.id).state == "PARKED"
    world.wait(80)  # the message comes back
    world.work()  # without a tick
    assert run_of(world, run.id).result == "1"


def test_the_message_of_a_child_stays_until_its_parent_was_told() -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits")(two_children)
    run = world.scheduler.submit("waits")
    faults.at("mark_ended", before=fails, times=2)
    world.work(world.worker(faults))
    assert run_of(world, run.id).state == "PARKED"
    world.wait(11)
    world.work()  # without a tick
    assert run_of(world, run.id).state == "SUCCEEDED"


def test_a_child_whose_worker_dies_between_wake_and_message_sends_it_when_it_comes_back() -> None:
    world, faults = World(), Faults()
    world.jobs.job("waits")(two_children)
    run = world.scheduler.submit("waits")
    faults.at("wake", after=crash)
    with pytest.raises(Crash):
        world.work(world.worker(faults))
    assert run_of(world, run.id).state == "CONTINUED"
    world.wait(80)
    world.work()  # without a tick
    assert run_of(world, run.id).state == "SUCCEEDED"


def test_the_timer_finds_a_child_whose_end_nobody_told() -> None:
    world, faults = World(), Faults()
    world.jobs.job("deaf")(lambda ctx, payload: ctx.wait_for("never"))
    run_id = started(
        world,
        lambda ctx, payload: [one.state for one in ctx.gather([ctx.submit("deaf", step="c")], return_exceptions=True)],
    )
    (child,) = [run for run in world.memory.runs() if run.parent]
    faults.at("mark_ended", before=crash)
    with pytest.raises(Crash):
        world.owner(faults).cancel_run(str(child.ref))
    world.live(200)
    assert run_of(world, run_id).result == '["CANCELLED"]'


def test_a_chain_of_gathers_reads_its_children_in_one_request() -> None:
    world, faults = World(), Faults()
    world.jobs.job("link")(lambda ctx, payload: payload)
    world.jobs.job("waits")(lambda ctx, payload: [ctx.gather([ctx.submit("link", n, step=f"c{n}")]) for n in range(5)])
    run = world.scheduler.submit("waits")
    worker, looks = world.worker(faults), list[int]()
    while run_of(world, run.id).state != "SUCCEEDED":
        before = faults.verbs().count("look")
        first_message(world, worker)
        looks.append(faults.verbs().count("look") - before)
    assert max(looks) == 2  # the run's own row, and its children


def test_a_child_that_was_refused_is_refused_again_when_the_job_is_called_again() -> None:
    world, told = World(), list[str]()

    def job(ctx: Context, payload: object) -> object:
        children = [ctx.submit("note", step="good")]
        try:
            children.append(ctx.submit("note", step="bad", queue="no such queue"))
        except InvalidInput as problem:
            told.append(problem.field)
        return ctx.gather(children)

    run_id = started(world, job)
    world.live(60)
    assert (run_of(world, run_id).state, run_of(world, run_id).result) == ("SUCCEEDED", "[null]")
    assert told == ["queue", "step"]


def test_the_stored_error_of_another_order_names_both_requests_however_long_they_are() -> None:
    world, calls = World(), list[int]()

    def job(ctx: Context, payload: object) -> object:
        calls.append(1)
        return ctx.wait_for(f"{'a' * 190}-{'first' if len(calls) == 1 else 'second'}", timeout=5)

    failure = ended_after(world, started(world, job))
    assert "-first' before" in failure
    assert "-second' now: ask" in failure


def test_a_sleep_that_is_refused_is_no_request() -> None:
    world = World()

    def job(ctx: Context, payload: object) -> int:
        refused = 0
        for seconds in (-5, 30, "x"):
            try:
                ctx.sleep(seconds)  # type: ignore[arg-type]
            except InvalidInput:
                refused += 1
        return refused

    run_id = started(world, job)
    world.live(60)
    assert run_of(world, run_id).result == "2"


def test_a_sleep_that_was_too_far_ahead_is_refused_again_when_the_job_is_called_again() -> None:
    world, told = World(), list[str]()

    def job(ctx: Context, payload: object) -> None:
        for until in (START + timedelta(days=367), START + timedelta(days=5)):
            try:
                ctx.sleep(until=until)
            except InvalidInput as problem:
                told.append(problem.field)

    run_id = started(world, job)
    world.live(6 * 86_400)
    assert run_of(world, run_id).state == "SUCCEEDED"
    assert (world.now() - START, told) == (timedelta(days=6), ["until"] * 2), "by then it is less than a year ahead"


def test_a_sleep_to_a_point_in_time_by_place_names_until() -> None:
    with pytest.raises(
        InvalidInput, match=r"use 0 to 31,622,400 seconds \(366 days\), or a timedelta; give a point in time as until="
    ):
        wait_ms("seconds", START)


def test_a_wait_in_a_task_group_parks() -> None:
    world = World()

    async def waits(ctx: Context) -> None:
        await ctx.wait_for("go")

    async def job(ctx: Context, payload: object) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(ctx))
        return "on"

    run_id = started(world, job)
    assert run_of(world, run_id).state == "PARKED"
    world.scheduler.signal(run_id, "go")
    world.work()
    assert run_of(world, run_id).result == '"on"'


def test_a_wait_beside_a_step_that_is_under_way_is_refused() -> None:
    world, charged = World(), list[str]()

    async def charge() -> None:
        charged.append("charge")
        await asyncio.sleep(0.01)

    async def job(ctx: Context, payload: object) -> None:
        step = asyncio.ensure_future(ctx.step("charge", charge))
        await asyncio.sleep(0)
        try:
            ctx.wait_for("go")
        finally:
            await step

    failure = run_of(world, started(world, job)).failure
    assert failure is not None
    assert "is under way while the job asks for a wait" in failure.message
    assert charged == ["charge"]


def test_a_short_timeout_does_not_wait_for_a_tick() -> None:
    world = World()
    run_id = started(world, lambda ctx, payload: ctx.wait_for("go", timeout=5))
    world.wait(5)
    world.work()  # without a tick
    assert (run := run_of(world, run_id)).state == "DEAD"
    assert (run.failure and run.failure.kind) == "WaitTimedOut"
