"""A job maps: one child for each item, at most so many unfinished at a time, the results in the order of the items."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from quarterjack import Context, Tenants
from quarterjack.domain.run import EntryKind, RunRow, RunState, SiblingRows
from quarterjack.errors import ChildFailed, InvalidInput, Parking
from quarterjack.fires.windows import keep
from quarterjack.fires.windows.advance import item_ended
from quarterjack.state.waits.window import MAX_ITEMS
from quarterjack.testing import Crash
from quarterjack.worker.execution import maps
from quarterjack.worker.execution.waits import RunWaits

from tests.support.scenes.mapping import SOON, Mapping
from tests.support.scenes.world import Faults, crash, fails
from tests.support.units import counted


def ended(world: Mapping, job: Callable[[Context, Any], object], payload: Any = None) -> RunRow:
    """A run of this job after it has ended, or does nothing for minutes."""
    world.jobs.job("tries", retry=SOON)(job)
    run = world.scheduler.submit("tries", payload)
    world.live(200)
    return world.row(run.id)


def refusal(world: Mapping, *args: Any, **how: Any) -> InvalidInput:
    """The error of a call of ``ctx.map``, after which nothing is stored but the run itself."""
    caught = list[InvalidInput]()

    def job(ctx: Context, payload: object) -> None:
        with counted() as units, pytest.raises(InvalidInput) as error:
            ctx.map(*args, **how)
        assert units == {}
        caught.append(error.value)

    assert ended(world, job).state == "SUCCEEDED"
    (found,) = caught
    assert found.remedy
    return found


# Results.


def test_each_item_is_a_child_and_the_results_have_their_order() -> None:
    world = Mapping()
    run = world.mapped([*range(23)], at_a_time=5)
    row = world.row(run.id)
    assert (row.state, row.awaits, row.wait_no) == ("PARKED", "map:item", 1)
    assert row.reason == "waits for 23 items of map 'item', 5 at a time"
    assert len(world.items(run)) == 5
    world.work()  # without a tick
    after = world.row(run.id)
    assert (after.state, world.scheduler.get_run(run.id).result) == ("SUCCEEDED", [*range(23)])
    assert (after.slices, world.called) == (1, ["mapper", "mapper"])  # woken once
    assert [each.child_no for each in world.items(run)] == [*range(1, 24)]
    assert set(world.ran.values()) == {1}


def test_at_most_so_many_items_are_unfinished_and_the_end_of_one_starts_the_next() -> None:
    world = Mapping()
    run = world.mapped([*range(40)], at_a_time=7)
    seen = set[int]()
    world.during = lambda ctx: seen.add(len(world.alive(ctx.run_id)))
    for ends in range(1, 34):
        world.take()
        assert len(world.items(run)) == 7 + ends
    assert (seen, world.unfinished) == ({7}, 7)
    world.work()
    assert world.row(run.id).state == "SUCCEEDED"


def test_items_of_every_size_reach_their_children() -> None:
    world = Mapping()
    sizes = [10, 399, 5_000, 70_000, 200_000]
    texts = [str(number) * size for number, size in enumerate(sizes)]
    world.jobs.job("length")(lambda ctx, payload: len(payload))
    run = ended(world, lambda ctx, payload: [*ctx.map("length", iter(texts), at_a_time=2)])
    assert run.result == "[10,399,5000,70000,200000]"


def test_the_sequence_of_results_is_read_in_pages() -> None:
    world, faults = Mapping(), Faults()

    def job(ctx: Context, payload: object) -> object:
        found = ctx.map("item", range(60), at_a_time=50)
        before = faults.verbs().count("look")
        assert (len(found), found[0], found[59], found[-1], found[3:6]) == (60, 0, 59, 59, [3, 4, 5])
        reads = faults.verbs().count("look") - before
        with pytest.raises(IndexError):
            found[60]
        return [reads, sum(found), repr(found)]

    world.jobs.job("tries")(job)
    run = world.scheduler.submit("tries")
    world.live(60, worker=world.worker(faults))
    assert world.scheduler.get_run(run.id).result == [3, 1770, "<results of 60 items of map 'item'>"]


def test_an_async_job_awaits_its_map() -> None:
    async def job(ctx: Context, payload: object) -> object:
        return [*await ctx.map("item", [3, 4])]

    assert ended(Mapping(), job).result == "[3,4]"


def test_no_item_is_an_empty_result_at_once() -> None:
    world = Mapping()
    run = ended(world, lambda ctx, payload: len(ctx.map("item", [])))
    assert (run.result, run.wait_no) == ("0", 0)


def test_several_maps_and_waits_of_a_job_are_answered_in_their_order() -> None:
    def job(ctx: Context, payload: object) -> object:
        first = ctx.map("item", [1, 2], step="a")
        ctx.sleep(5)
        second = ctx.map("item", [*first, 3], step="b")
        return [*first, *second, ctx.gather([ctx.submit("item", 4, step="c")])]

    assert ended(Mapping(), job).result == "[1,2,1,2,3,[4]]"


def test_an_item_may_map() -> None:
    world = Mapping()
    world.jobs.job("outer")(lambda ctx, payload: [*ctx.map("item", range(payload), at_a_time=2)])
    run = ended(world, lambda ctx, payload: [*ctx.map("outer", [3, 1, 4], at_a_time=2)])
    assert run.result == "[[0,1,2],[0],[0,1,2,3]]"


def test_options_are_those_of_a_child() -> None:
    world = Mapping()

    def job(ctx: Context, payload: object) -> None:
        ctx.map("item", [1], delivery="at_most_once", timeout=5, priority="low")

    world.jobs.job("tries")(job)
    run = world.scheduler.submit("tries")
    world.take()
    (item,) = world.items(run)
    assert item.overrides == '{"delivery":"at_most_once","priority":"low","timeout":5}'


# Failures.


def test_after_a_failure_no_further_item_starts_and_the_first_is_raised() -> None:
    world, told = Mapping(), list[ChildFailed]()

    def job(ctx: Context, payload: object) -> None:
        with pytest.raises(ChildFailed) as caught:
            ctx.map("item", [1, 2, "bad", 4, "bad", 6, 7, 8, 9], at_a_time=3)
        told.append(caught.value)

    run = ended(world, job)
    assert run.state == "SUCCEEDED"
    (failed,) = told
    assert (failed.step, failed.state, "as it was told" in failed.error) == ("item[2]", "DEAD", True)
    assert failed.run_id == str(world.items(str(run.ref))[2].ref)
    assert len(world.items(str(run.ref))) == 5, "two more had started in the place of the first two"


def test_with_return_exceptions_all_run_and_errors_stand_in_their_places() -> None:
    def job(ctx: Context, payload: object) -> object:
        found = ctx.map("item", [1, "bad", 3], at_a_time=1, return_exceptions=True)
        return [each.state if isinstance(each, ChildFailed) else each for each in found]

    assert ended(Mapping(), job).result == '[1,"DEAD",3]'


# What is refused.


@dataclass
class Sized:
    size: int


def typed(ctx: Context, payload: Sized) -> None: ...


@pytest.mark.parametrize(
    ("args", "how", "field"),
    [
        ((lambda ctx, payload: None, [1]), {}, "job"),
        (("no job", [1]), {}, "job"),
        (("item", [1]), {"at_a_time": 0}, "at_a_time"),
        (("item", [1]), {"at_a_time": 1_001}, "at_a_time"),
        (("item", [1]), {"at_a_time": True}, "at_a_time"),
        (("item", [1]), {"step": "no step"}, "step"),
        (("item", [1]), {"return_exceptions": 1}, "return_exceptions"),
        (("item", 5), {}, "items"),
        (("item", "text"), {}, "items"),
        (("item", {"a": 1}), {}, "items"),
        (("item", [*range(30), object()]), {}, "items[30]"),
        (("item", [1, {"a": {2: 3}}]), {}, "items[1].a"),
        (("item", ["x" * 300_000]), {}, "items[0]"),
        (("item", [1]), {"queue": "no such queue"}, "queue"),
        (("typed", [{"size": 1}, {"size": "x"}]), {}, "items[1].size"),
    ],
)
def test_what_cannot_be_mapped_is_refused_and_leaves_nothing(args: Any, how: Any, field: str) -> None:
    world = Mapping()

    world.jobs.job("typed")(typed)
    assert refusal(world, *args, **how).field == field


def test_more_items_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_ITEMS == 100_000
    monkeypatch.setattr(maps, "MAX_ITEMS", 100)
    assert "has more than 100 items" in str(refusal(Mapping(), "item", range(101)))
    monkeypatch.setattr(maps, "MOST_BYTES", 2**20)
    assert "has more than 1 MB of JSON" in str(refusal(Mapping(), "item", ["x" * 200_000] * 6))


def test_more_at_a_time_than_the_tenant_may_have_waiting_is_refused() -> None:
    world = Mapping()
    Tenants(services=world.services, clock=world.clock).set("acme", limits={"waiting_runs": 20})
    assert "use 20 at most" in str(refusal(world, "item", [1], at_a_time=21))


def test_a_map_within_a_step_is_refused() -> None:
    run = ended(Mapping(), lambda ctx, payload: ctx.step("s", lambda: ctx.map("item", [1])))
    assert run.failure is not None
    assert "within a step" in run.failure.message


def test_two_maps_of_a_step_are_refused() -> None:
    run = ended(Mapping(), lambda ctx, payload: (ctx.map("item", [1]), ctx.map("item", [2])))
    assert run.failure is not None
    assert "step='item': is the step of another map of this run" in run.failure.message


# The record.


@pytest.mark.parametrize("second", [("item", [1, 3]), ("note", [1, 2]), ("item", [1, 2, 3])])
def test_other_items_or_another_job_fail_and_both_are_named(second: Any) -> None:
    world, asks = Mapping(), [("item", [1, 2]), second]

    def job(ctx: Context, payload: object) -> None:
        name, items = asks[0] if ctx.fence == 1 else asks[1]
        ctx.map(name, items, step="s")

    run = ended(world, job)
    assert run.failure is not None
    assert run.failure.kind == "Diverged"
    assert "'map s of 2 items " in run.failure.message
    assert f"'map s of {len(second[1])} items " in run.failure.message
    assert f"by {second[0]}" in run.failure.message


def test_other_items_after_a_slice_that_died_before_its_park_fail() -> None:
    world, faults, asks = Mapping(), Faults(), [[1, 2], [1, 3]]
    world.jobs.job("tries", retry=SOON)(lambda ctx, payload: ctx.map("item", asks[ctx.fence > 1]))
    run = world.scheduler.submit("tries")
    with pytest.raises(Crash):
        world.take(world.worker(faults.at("park", before=crash)))
    world.live(300)
    failure = world.row(run.id).failure
    assert failure is not None
    assert failure.kind == "Diverged"


def test_a_map_that_was_refused_is_refused_again() -> None:
    world, faults, told = Mapping(), Faults(), list[str]()

    def job(ctx: Context, payload: object) -> None:
        try:
            ctx.map("item", [1])
        except Exception as problem:  # noqa: BLE001
            told.append(type(problem).__name__)
        ctx.sleep(30)

    faults.at("put_records", throttle=range(25), times=None)
    world.jobs.job("tries")(job)
    run = world.scheduler.submit("tries")
    world.take(world.worker(faults))
    world.live(60)
    assert (world.row(run.id).state, told) == ("SUCCEEDED", ["Unavailable", "Unavailable"])
    assert world.items(run) == []


# Ends.


def test_a_cancellation_ends_the_items_under_way_and_starts_no_more() -> None:
    world = Mapping()
    run = world.mapped([*range(40)], at_a_time=10)
    for _ in range(5):
        world.take()
    world.scheduler.cancel_run(run.id)
    states = [str(each.state) for each in world.items(run)]
    assert (states.count("SUCCEEDED"), states.count("CANCELLED"), len(states)) == (5, 10, 15)
    world.live(600)
    assert len(world.items(run)) == 15
    assert sum(world.ran.values()) == 5


def test_an_item_that_a_slow_process_lets_in_after_the_cancellation_does_not_start() -> None:
    world = Mapping()
    run = world.mapped([*range(40)], at_a_time=3)
    faults = Faults().at("claim", before=lambda: world.scheduler.cancel_run(run.id))
    world.take(world.worker(faults))
    world.live(600)
    assert {each.state for each in world.items(run)} == {"SUCCEEDED", "CANCELLED"}
    assert sum(world.ran.values()) == 1


def test_a_running_item_is_told_of_the_cancellation_of_its_parent() -> None:
    world = Mapping()
    run = world.mapped([1, 2], at_a_time=2)
    worker, cancelled = world.worker(), list[bool]()

    def meanwhile(ctx: Context) -> None:
        world.scheduler.cancel_run(run.id)
        worker.heartbeat.beat(world.clock())
        cancelled.append(ctx.cancelled)
        ctx.raise_if_cancelled()

    world.during = meanwhile
    world.take(worker)
    assert cancelled == [True]
    assert {each.state for each in world.items(run)} == {"CANCELLED"}


def test_a_run_that_is_cancelled_before_it_parks_cancels_its_items() -> None:
    world = Mapping()
    run = world.scheduler.submit("mapper", {"items": [1, 2, 3], "at_a_time": 2})
    world.take(world.worker(Faults().at("park", before=lambda: world.scheduler.cancel_run(run.id))))
    assert {each.state for each in world.items(run)} == {"CANCELLED"}
    world.live(300)
    assert (world.row(run.id).state, sum(world.ran.values())) == ("CANCELLED", 0)


def test_a_cancellation_reaches_the_items_of_an_item_that_maps() -> None:
    world = Mapping()
    world.jobs.job("outer")(lambda ctx, payload: ctx.map("item", range(5), at_a_time=2))
    world.jobs.job("tries")(lambda ctx, payload: ctx.map("outer", [1]))
    run = world.scheduler.submit("tries")
    world.take()
    world.take()
    world.scheduler.cancel_run(run.id)
    assert {each.state for each in world.memory.runs()} == {"CANCELLED"}
    assert len(world.memory.runs()) == 4


def test_after_its_deadline_nothing_more_starts() -> None:
    world = Mapping()
    world.jobs.job("tries")(lambda ctx, payload: ctx.map("nap", [100] * 9, at_a_time=2))
    run = world.scheduler.submit("tries", deadline=250)
    world.live(900)
    assert world.state(run) == "EXPIRED"
    assert [each.state for each in world.items(run)] == ["SUCCEEDED"] * 6


# Deaths.


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("verb", ["mark_ended", "write_record", "claim", "send", "wake"])
def test_a_worker_that_dies_at_the_end_of_an_item_is_stood_in_for_by_its_message(verb: str, moment: str) -> None:
    world = Mapping()
    run = world.mapped([*range(6)], at_a_time=2)
    worker = world.worker(Faults().at(verb, **{moment: crash}))
    with pytest.raises(Crash):
        world.work(worker)
    world.wait(80)  # its message comes back
    world.work()  # without a tick
    world.wait(80)
    world.work()
    assert world.row(run.id).state == "SUCCEEDED"
    assert (set(world.ran.values()), world.unfinished) == ({1}, 2)


def test_the_timer_finds_an_item_whose_end_nobody_told() -> None:
    world = Mapping()
    run = world.mapped([1, 2, 3], at_a_time=1)
    with pytest.raises(Crash):
        world.owner(Faults().at("mark_ended", before=crash)).cancel_run(str(world.items(run)[0].ref))
    world.live(200)
    assert [each.state for each in world.items(run)] == ["CANCELLED"], "the first failure ends the map"
    assert world.row(run.id).state == "DEAD"


def test_the_timer_of_a_cancelled_run_ends_the_items_that_its_owner_left() -> None:
    world = Mapping()
    run = world.mapped([*range(6)], at_a_time=3)
    with pytest.raises(Crash):
        world.owner(Faults().at("cancel", after=crash)).cancel_run(run.id)
    assert [str(each.state) for each in world.items(run)] == ["QUEUED"] * 3
    world.wait(200)
    world.tick()  # no worker takes their messages
    assert [str(each.state) for each in world.items(run)] == ["CANCELLED"] * 3
    assert world.entries(EntryKind.RUN) == []


def test_the_timer_finds_the_end_of_a_parked_item_whose_end_nobody_told() -> None:
    """It has no message that would come back."""
    world = Mapping()
    world.jobs.job("tries")(lambda ctx, payload: len(ctx.map("ask", [None], return_exceptions=True)))
    run = world.scheduler.submit("tries")
    world.work()
    with pytest.raises(Crash):
        world.owner(Faults().at("mark_ended", before=crash)).cancel_run(str(world.items(run)[0].ref))
    world.live(200)
    assert world.scheduler.get_run(run.id).result == 1


def test_the_timer_claims_and_sends_what_a_process_left() -> None:
    """An end without a message, of a process that dies after it has let the next item in."""
    world = Mapping()
    world.jobs.job("tries")(lambda ctx, payload: len(ctx.map("item", [1, 2, 3], at_a_time=1, return_exceptions=True)))
    run = world.scheduler.submit("tries")
    world.take()
    with pytest.raises(Crash):
        world.owner(Faults().at("claim", before=crash)).cancel_run(str(world.items(run)[0].ref))
    assert (world.window(run).open, len(world.items(run))) == ((2,), 1)
    world.live(200)
    assert world.scheduler.get_run(run.id).result == 3
    assert [each.state for each in world.items(run)] == ["CANCELLED", "SUCCEEDED", "SUCCEEDED"]


def test_ends_at_the_same_time_are_counted_together() -> None:
    """The one that loses the race finds that the other has counted it, or counts the other."""
    world = Mapping()
    run = world.mapped([*range(30)], at_a_time=10)
    faults = Faults().at("write_record", before=world.take)
    world.take(world.worker(faults))
    assert len(world.window(run).open) == 10
    assert world.window(run).cursor == 10 + 2
    assert faults.verbs().count("write_record") == 1, "the other has counted both"
    world.work()
    assert (world.row(run.id).state, world.unfinished) == ("SUCCEEDED", 10)


def test_who_loses_the_race_counts_all_that_have_ended_with_its_next_write() -> None:
    world, faults = Mapping(), Faults()
    run = world.mapped([*range(300)], at_a_time=250)
    ended = {row.child_no: replace(row, state=RunState.SUCCEEDED) for row in world.items(run)}

    def meanwhile() -> None:
        """Two items of other hundreds end: one is counted, the process of the other is about to."""
        item_ended(ended[150], world.services, world.clock, again=False)
        world.services.waits.mark_new(world.window(run).ref, 250, world.clock(), "S")

    item_ended(ended[1], world.process(faults.at("write_record", before=meanwhile)), world.clock, again=False)
    after = world.window(run)
    assert (after.cursor, len(after.open), faults.verbs().count("write_record")) == (253, 250, 2)
    assert {1, 150, 250}.isdisjoint(after.open)
    assert (after.let_in_by(150), after.let_in_by(1)) == ([251], [252, 253])


@pytest.mark.parametrize("seconds", [-7, -1, 0, 120])
def test_items_that_a_process_did_not_send_are_sent_when_the_message_comes_back(seconds: int) -> None:
    """Whatever the clock of the process says."""
    world = Mapping()
    run = world.mapped([*range(3)], at_a_time=1)
    world.take(world.worker(Faults().at("send", before=fails, times=None)))
    (first, second) = world.items(run)
    assert [message.run for message in world.memory.messages()] == [first.ref]
    world.wait(11)
    slow = replace(world.worker(), clock=lambda: world.clock() + seconds * 1_000)
    world.take(slow)
    assert [message.run for message in world.memory.messages()] == [second.ref]


def test_a_message_that_comes_twice_sends_nothing_again() -> None:
    """Else it would send an item a second time, whose second message does the same, without an end."""
    world = Mapping()
    run = world.mapped([*range(30)], at_a_time=5)
    world.take()
    first = world.items(run)[0]
    before = len(world.memory.messages())
    item_ended(first, world.services, world.clock, again=False)
    assert len(world.memory.messages()) == before


def test_an_item_that_the_queue_did_not_take_is_sent_when_the_end_is_told_again() -> None:
    world = Mapping()
    run = world.mapped([*range(3)], at_a_time=1)
    faults = Faults().at("send", throttle=range(10), times=None)
    world.take(world.worker(faults))
    assert (world.window(run).open, len(world.memory.messages())) == ((2,), 1)
    world.wait(11)
    world.work()  # without a tick
    assert world.state(run) == "SUCCEEDED"


def test_a_job_that_could_not_park_goes_on_with_its_map() -> None:
    world, faults = Mapping(), Faults()
    run = world.scheduler.submit("mapper", {"items": [*range(9)], "at_a_time": 3})
    faults.at("park", before=fails, times=None)
    world.work(world.worker(faults))
    world.live(300)
    assert world.row(run.id).state == "SUCCEEDED"
    assert (set(world.ran.values()), len(world.ran)) == ({1}, 9)


# Retention.


def test_items_stay_while_a_map_is_longer_than_the_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "AT_A_CHECK", 2)
    hour = 3_600
    world = Mapping(retention=6 * hour * 1_000)
    world.jobs.job("tries")(lambda ctx, payload: [*ctx.map("slow", [0, 0, 0, 0, 0, 20 * hour], at_a_time=6)])

    def slow(ctx: Context, payload: int) -> int:
        ctx.sleep(payload)
        return payload

    world.jobs.job("slow")(slow)
    run = world.scheduler.submit("tries")
    for _ in range(22):
        world.live(hour)
        world.memory.expire()
    assert world.scheduler.get_run(run.id).result == [0, 0, 0, 0, 0, 20 * hour]


# What it costs.


def units_of(work: Callable[[Mapping], object]) -> int:
    with counted() as units:
        work(Mapping())
    return sum(units.values())


def of_map(size: int) -> Callable[[Mapping], object]:
    def work(world: Mapping) -> None:
        world.mapped([*range(size)], at_a_time=10)
        world.work()

    return work


def test_an_item_costs_its_run_and_two_writes() -> None:
    a_run = 3  # put, lease and settle: no agenda entry
    assert units_of(of_map(70)) - units_of(of_map(60)) == 10 * (a_run + 2)
    assert units_of(of_map(76)) - units_of(of_map(75)) == a_run + 2 + 1, "a page of 25 items"


def test_the_end_of_an_item_makes_seven_requests() -> None:
    world, faults = Mapping(), Faults()
    world.mapped([*range(500)], at_a_time=100)
    world.take(world.worker(faults))
    verbs = faults.verbs()
    ours = verbs[verbs.index("mark_ended") : verbs.index("acknowledge") if "acknowledge" in verbs else None]
    assert ours[:7] == ["mark_ended", "record", "look", "write_record", "record", "claim", "send"]
    assert all(verb != "ended" for verb in ours)


def test_a_plain_child_loads_no_window() -> None:
    world, faults = Mapping(), Faults()
    world.jobs.job("tries")(lambda ctx, payload: ctx.gather([ctx.submit("note", step="a")]))
    world.scheduler.submit("tries")
    world.work(world.worker(faults))
    assert "record" not in faults.verbs()


class Discards:
    """A store that keeps nothing but how much came at once."""

    def __init__(self) -> None:
        self.most = self.stored = 0

    def map_state(self, step: str) -> None:
        return None

    def check_map(self, job: str, at_a_time: int, options: Any) -> bool:
        return True

    def check_items(self, job: str, payloads: list[str], first: int) -> None:
        self.most = max(self.most, sum(map(len, payloads)))

    def put_items(self, step: str, digest: str, first: int, payloads: list[str]) -> None:
        assert first == self.stored + 1
        self.stored += len(payloads)

    def begin_map(self, step: str, options: Any, **given: Any) -> Any:
        return {"is_over": False}

    def now(self) -> int:
        return 0


def test_the_items_of_a_job_are_never_in_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 MB of items pass through less than 3 MB: 0.5 MB before the temporary file, and a megabyte that is stored."""
    monkeypatch.setattr(maps, "_IN_MEMORY", 500_000)
    store: Any = Discards()
    world = Mapping()
    run = world.row(world.scheduler.submit("note").id)
    waits = RunWaits(cast("Any", SimpleNamespace(run=run, hidden=())), store, SiblingRows())
    call = maps.MapCall.of("item", {}, step=None, at_a_time=100, return_exceptions=False)
    tracemalloc.start()
    with pytest.raises(Parking):
        maps.map_items(call, (f"{number:05d}" + "x" * 1_000 for number in range(10_000)), waits, run.ref, store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert store.stored == 10_000
    assert store.most < 1_100_000
    assert peak < 3_000_000


@pytest.mark.parametrize(("at_a_time", "most"), [(100, 20), (1_000, 70)])
def test_a_cancellation_makes_few_requests(at_a_time: int, most: int) -> None:
    """In batches: at 20 ms a request they take less than 2 s, also with a thousand items under way."""
    world, faults = Mapping(), Faults()
    run = world.mapped([*range(2_000)], at_a_time=at_a_time)
    world.owner(faults).cancel_run(run.id)
    assert [str(each.state) for each in world.items(run)] == ["CANCELLED"] * at_a_time
    assert len(faults.calls) <= most


def test_who_starts_the_next_item_reads_a_page_of_items() -> None:
    world = Mapping()
    run = world.mapped([*range(1_000)], at_a_time=10)
    pages = [*world.services.records.listed(world.window(run).ref.owner, "~items~")]
    assert {len(page.body["items"]) for page in pages} == {25}
    assert max(len(str(page.body)) for page in pages) < 25 * 420
