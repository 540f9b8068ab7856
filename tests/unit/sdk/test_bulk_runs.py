"""Acts on all runs of a filter: which runs they concern, each once whoever dies, counts that are right, and what they cost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import RunState
from quarterjack.domain.tenants.limits import TenantLimits
from quarterjack.domain.tenants.profile import TenantProfile
from quarterjack.errors import Conflict, InvalidInput, KeyReused, Throttled
from quarterjack.owner.app_versions import register
from quarterjack.sdk.schedules.bulk_work import AT_ONCE, BulkProgress
from quarterjack.settings import Settings
from quarterjack.sqs.stripes import Stripe
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import bury_all

from tests.support.scenes.searched import World
from tests.support.scenes.world import Faults, Mortal
from tests.support.units import counted

MINE = ("customer", "42")


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of three runs, so that an act has several."""
    monkeypatch.setattr("quarterjack.sdk.history.bulk_runs_work.PAGE", 3)


def owner_of(world: World, hook: Hook | None = None) -> Scheduler:
    services = world.services if hook is None else world.memory.connect(hook)
    return Scheduler("acme", settings=Settings(), services=services, clock=world.clock, jobs=world.jobs)


def waiting(world: World, count: int, **more: Any) -> list[str]:
    """So many one-offs that are due in an hour, and one of another customer."""
    world.owner.submit("works", delay=3_600, tags={"customer": "43"})
    given: dict[str, Any] = {"delay": 3_600, "tags": dict([MINE])} | more
    ids = [world.owner.submit("works", n, **given).id for n in range(count)]
    world.catch_up()
    return ids


def ended(world: World, count: int, job: str = "works") -> list[str]:
    world.owner.submit(job, tags={"customer": "43"})
    ids = [world.owner.submit(job, n, tags=dict([MINE])).id for n in range(count)]
    world.live()
    while bury_all(world.services, world.clock):
        pass
    return ids


def states(world: World, ids: list[str]) -> Counter[RunState]:
    return Counter(world.owner.get_run(run_id).state for run_id in ids)


def repeats(world: World) -> Counter[str]:
    """How often each run was repeated."""
    world.catch_up()
    cursor, found = None, Counter[str]()
    while True:
        page = world.owner.list_runs(kind="replay", limit=100, cursor=cursor)
        found.update(str(run.replay_of) for run in page.items)
        cursor = page.cursor
        if cursor is None:
            return found


# Which runs.


def test_all_that_match_are_cancelled_and_no_other(world: World) -> None:
    ids = waiting(world, 7)
    planned = world.owner.bulk_runs("cancel", tag=MINE, dry_run=True)
    assert (planned.count, planned.states, planned.jobs) == (7, {"QUEUED": 7}, {"works": 7})
    assert set(planned.examples) == set(ids)
    assert states(world, ids) == {RunState.QUEUED: 7}
    done = world.owner.bulk_runs("cancel", tag=MINE)
    assert (done.count, done.failed_count, done.cursor) == (7, 0, None)
    assert states(world, ids) == {RunState.CANCELLED: 7}
    assert {run.state for run in world.owner.list_runs(tag=("customer", "43")).items} == {RunState.QUEUED}
    acts = [entry for entry in world.owner.audit().items if entry.act == AuditAct.CANCEL]
    assert len(acts) == 7
    assert len({entry.call for entry in acts}) == 1


def test_ended_runs_are_replayed_with_their_payloads(world: World) -> None:
    ids = ended(world, 5)
    done = world.owner.bulk_runs("replay", tag=MINE, state="SUCCEEDED")
    assert (done.count, done.cursor) == (5, None)
    assert repeats(world) == dict.fromkeys(ids, 1)
    again = {str(run.replay_of): run.id for run in world.owner.list_runs(kind="replay").items}
    payloads = [(world.owner.get_run(again[each]).payload, world.owner.get_run(each).payload) for each in ids]
    assert all(new == old for new, old in payloads)


def test_replays_that_end_meanwhile_are_not_replayed(world: World, small: None) -> None:
    ids = ended(world, 9)

    def work_meanwhile(progress: BulkProgress) -> None:
        if progress.done % 3 == 0:
            world.live()

    assert world.owner.bulk_runs("replay", tag=MINE, on_progress=work_meanwhile).count == 9
    assert repeats(world) == dict.fromkeys(ids, 1)


def test_dead_runs_are_redriven_unless_they_were_or_left_the_list(world: World) -> None:
    ids = ended(world, 5, "fails")
    world.owner.redrive(ids[0])
    world.owner.purge(ids[1])
    planned = world.owner.bulk_runs("redrive", tag=MINE, error_type="ValueError", dry_run=True)
    done = world.owner.bulk_runs("redrive", tag=MINE, error_type="ValueError")
    assert planned.count == done.count == 3
    assert set(done.examples) == set(ids[2:])
    assert repeats(world) == dict.fromkeys([ids[0], *ids[2:]], 1)
    assert world.owner.bulk_runs("redrive", tag=MINE, error_type="ValueError").count == 0


def test_what_waits_for_a_time_is_hastened(world: World) -> None:
    retrying = [world.owner.submit("retries", tags=dict([MINE])).id for _ in range(2)]
    world.live()
    ids = [*waiting(world, 3), *retrying]
    assert states(world, ids) == {RunState.QUEUED: 3, RunState.RETRYING: 2}
    done = world.owner.bulk_runs("hasten", tag=MINE)
    assert (done.count, done.failed_count) == (5, 0)
    assert all(world.owner.get_run(run_id).not_before <= world.clock.now() for run_id in ids)
    assert world.owner.bulk_runs("hasten", tag=MINE).count == 0
    world.live()
    assert states(world, ids) == {RunState.SUCCEEDED: 3, RunState.RETRYING: 2}
    assert [world.owner.get_run(run_id).attempt for run_id in retrying] == [2, 2]


def test_waiting_runs_are_reassigned(world: World) -> None:
    register("1", 1.0, world.services, world.clock())
    ids = waiting(world, 3)
    register("2", 1.0, world.services, world.clock())
    assert world.owner.bulk_runs("reassign", tag=MINE, version="2").count == 3
    assert {world.owner.get_run(run_id).app_version for run_id in ids} == {"2"}


def test_waiting_one_offs_move_from_one_queue_to_another(world: World) -> None:
    ids = waiting(world, 3)
    fire = world.owner.create_schedule("hourly", "works", "0 * * * *", tags=dict([MINE]))
    done = world.owner.bulk_runs("requeue", queue="default", tag=MINE, to_queue="bulk", to_priority="low")
    assert (done.count, done.failed_count) == (3, 0)
    assert world.owner.bulk_runs("cancel", queue="bulk", dry_run=True).count == 3
    assert world.owner.bulk_runs("requeue", schedule=fire.name, to_queue="bulk").count == 0
    world.clock.advance(timedelta(minutes=58))
    world.live(3)
    assert len(world.memory.stripes[Stripe("bulk", 0, Priority.NORMAL)]) == len(ids), (
        "one message each, in the other queue"
    )


def test_runs_of_one_queue_are_meant(world: World) -> None:
    waiting(world, 2)
    other = waiting(world, 2, queue="bulk")
    world.owner.create_schedule("nightly", "works", "0 0 * * *", queue="bulk", tags=dict([MINE]))
    other.append(world.owner.trigger("nightly").id)
    world.catch_up()
    assert world.owner.bulk_runs("cancel", tag=MINE, queue="bulk").count == 3
    assert states(world, other) == {RunState.CANCELLED: 3}
    assert world.owner.bulk_runs("cancel", queue="default", dry_run=True).count == 4


def test_waiting_fires_are_found_with_their_schedule(world: World) -> None:
    world.owner.create_schedule("often", "works", "* * * * *")
    world.owner.freeze(until=world.clock.now() + timedelta(days=1))
    world.live(3)
    found = [run for run in world.owner.list_runs("often").items if run.state is RunState.QUEUED]
    assert world.owner.bulk_runs("cancel", schedule="often").count == len(found) > 0


# Each once.

ACTS: dict[str, Callable[[World, int], list[str]]] = {
    "cancel": waiting,
    "replay": ended,
    "redrive": lambda world, count: ended(world, count, "fails"),
    "hasten": waiting,
    "requeue": waiting,
}
MORE: dict[str, dict[str, Any]] = {"requeue": {"to_queue": "bulk", "to_priority": "low"}}


def _is_done_once(world: World, action: str, ids: list[str]) -> bool:
    if action == "cancel":
        return states(world, ids) == {RunState.CANCELLED: len(ids)}
    if action in ("hasten", "requeue"):
        return all(world.owner.get_run(run_id).revision == 1 for run_id in ids)
    return repeats(world) == dict.fromkeys(ids, 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("action", ACTS)
def test_who_is_killed_three_times_acts_on_each_once_and_counts_right(
    world: World, small: None, action: Any, after: bool
) -> None:
    ids, more = ACTS[action](world, 10), MORE.get(action, {})
    for kill in (7, 23, 38):
        with pytest.raises(Crash):
            owner_of(world, Mortal(kill, after=after)).bulk_runs(action, tag=MINE, client_token="t", **more)
        world.catch_up()
    done = world.owner.bulk_runs(action, tag=MINE, client_token="t", **more)
    assert (done.count, done.failed_count, done.cursor) == (10, 0, None)
    assert _is_done_once(world, action, ids)
    again = world.owner.bulk_runs(action, tag=MINE, client_token="t", **more)
    assert (again.count, again.examples) == (10, [])


@pytest.mark.parametrize("call", range(1, 60, 4))
@pytest.mark.parametrize("action", ["cancel", "replay"])
def test_who_dies_at_any_request_acts_on_each_once(world: World, small: None, action: Any, call: int) -> None:
    ids, heard = ACTS[action](world, 7), list[BulkProgress]()
    try:
        owner_of(world, Mortal(call, after=call % 2 == 0)).bulk_runs(action, tag=MINE, on_progress=heard.append)
    except Crash:
        world.catch_up()
        if heard:
            done = world.owner.bulk_runs(action, tag=MINE, cursor=heard[-1].cursor)
            assert (done.count, done.failed_count) == (7, 0)
            assert _is_done_once(world, action, ids)


def test_progress_counts_each_run_and_its_cursor_has_the_page_under_way(world: World, small: None) -> None:
    waiting(world, 7)
    told: list[BulkProgress] = []
    world.owner.bulk_runs("cancel", tag=MINE, on_progress=told.append)
    assert [progress.done for progress in told] == list(range(1, 8))
    assert len({progress.cursor for progress in told}) == 3


def test_a_stop_ends_it_and_the_cursor_goes_on(world: World, small: None) -> None:
    ids, stop = waiting(world, 8), threading.Event()

    def hear(progress: BulkProgress) -> None:
        if progress.done == 3:
            stop.set()

    first = world.owner.bulk_runs("cancel", tag=MINE, stop=stop, on_progress=hear)
    assert 3 <= first.count < 3 + AT_ONCE
    assert first.cursor is not None
    rest = world.owner.bulk_runs("cancel", tag=MINE, cursor=first.cursor)
    assert (rest.count, rest.cursor) == (8, None)
    assert states(world, ids) == {RunState.CANCELLED: 8}


def test_the_rate_is_kept(world: World) -> None:
    waiting(world, 7)
    waits: list[float] = []

    class Pace:
        def wait(self, timeout: float) -> bool:
            waits.append(timeout)
            world.clock.advance(timedelta(seconds=timeout))
            return False

    begin = world.clock()
    world.owner.bulk_runs("cancel", tag=MINE, rate=2.0, stop=Pace())
    assert world.clock() - begin >= 3_000  # the first three seconds of seven runs at two a second
    assert any(waits)


def test_a_throttled_tenant_stops_it_and_no_run_fails_by_it(world: World, small: None) -> None:
    ids = ended(world, 8)
    limits = TenantLimits(runs_per_second=0.001, runs_burst=4)
    world.services.tenants.put(TenantProfile(tenant="acme", limits=limits), expected=0)
    hurried = owner_of(world)
    first = hurried.bulk_runs("replay", tag=MINE)
    assert (first.count, first.failed_count) == (4, 0)
    assert first.cursor is not None
    with pytest.raises(Throttled):
        hurried.bulk_runs("replay", tag=MINE)
    world.services.tenants.put(TenantProfile(tenant="acme"), expected=1)
    rest = owner_of(world).bulk_runs("replay", tag=MINE, cursor=first.cursor)
    assert (rest.count, rest.cursor) == (8, None)
    assert repeats(world) == dict.fromkeys(ids, 1)


def test_a_run_of_which_it_cannot_be_done_stops_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.sdk.schedules.bulk_work.AT_ONCE", 1)
    register("1", 1.0, world.services, world.clock())
    ids = waiting(world, 3)

    def begin(progress: BulkProgress) -> None:
        world.owner.bulk_runs("hasten", tag=MINE)
        world.live()

    done = world.owner.bulk_runs("reassign", tag=MINE, version="1", on_progress=begin)
    assert (done.count, done.failed_count) == (1, 2)
    assert set(done.failed) < set(ids)
    assert all("it is SUCCEEDED" in text for text in done.failed.values())


# Tokens and arguments.


def test_a_token_is_for_one_act(world: World) -> None:
    waiting(world, 2)
    world.owner.bulk_runs("cancel", tag=MINE, client_token="t")
    with pytest.raises(KeyReused, match="client_token='t'"):
        world.owner.bulk_runs("cancel", tag="customer", client_token="t")


def test_two_calls_with_one_token_do_not_go_on_side_by_side(world: World, small: None) -> None:
    ids = waiting(world, 7)
    others: list[int] = []

    def another(progress: BulkProgress) -> None:
        if not others:
            others.append(world.owner.bulk_runs("cancel", tag=MINE, client_token="t").count)

    with pytest.raises(Conflict, match="another call with it goes on"):
        world.owner.bulk_runs("cancel", tag=MINE, client_token="t", on_progress=another)
    assert others == [7]
    assert states(world, ids) == {RunState.CANCELLED: 7}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "stop", "job": "works"}, "action='stop': is not known; use one of cancel"),
        ({"action": "cancel"}, "schedule=None: is missing, and so is every other condition"),
        ({"action": "cancel", "state": "DEAD"}, "state='DEAD': has runs that 'cancel' does not concern"),
        ({"action": "cancel", "state": []}, "state=.*does not concern"),
        ({"action": "replay", "queue": "bulk"}, "queue='bulk': was given with 'replay'"),
        (
            {"action": "cancel", "job": "works", "version": "2"},
            "version='2': is not an argument of 'cancel'; it is for",
        ),
        ({"action": "hasten", "job": "works", "as_it_was": True}, "as_it_was=True: is not an argument"),
        ({"action": "reassign", "job": "works"}, "version=None"),
        ({"action": "requeue", "job": "works"}, "to_queue=None: is not given, and neither is to_priority"),
        ({"action": "requeue", "job": "works", "to_priority": "x"}, "to_priority='x'"),
        ({"action": "requeue", "job": "works", "to_queue": "A b"}, "to_queue='A b': is not the name"),
        ({"action": "cancel", "job": "works", "rate": 0}, "rate=0: is not a number of runs a second"),
        ({"action": "cancel", "job": "works", "cursor": "x~y"}, "cursor='x~y': is not of this listing"),
        ({"action": "cancel", "tag": 7}, "tag=7: is not a tag"),
        ({"action": "cancel", "job": "works", "dry_run": 1}, "dry_run=1"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_anything_is_written(
    world: World, arguments: dict[str, Any], problem: str
) -> None:
    waiting(world, 1)
    with counted() as written, pytest.raises(InvalidInput, match=problem):
        world.owner.bulk_runs(**arguments)
    assert written == {}


def test_the_cursor_of_a_dry_run_is_not_one_of_the_act(world: World, small: None) -> None:
    waiting(world, 7)
    stop = threading.Event()
    stop.set()
    planned = world.owner.bulk_runs("cancel", tag=MINE, dry_run=True, stop=stop)
    assert planned.cursor is not None
    with pytest.raises(InvalidInput, match="is not of this listing"):
        world.owner.bulk_runs("cancel", tag=MINE, cursor=planned.cursor)


# Cost.


def test_an_act_costs_what_one_run_costs_and_one_write_a_page(world: World) -> None:
    waiting(world, 10)
    seen = Faults()
    owner = owner_of(world, seen)
    with counted() as units:
        owner.bulk_runs("cancel", tag=MINE, client_token="t")
    assert units == {"runs": 10 * 2 + 2, "audit": 10 * 4 + 1}  # as without a bulk act; and the record before and after
    reads = Counter(detail.verb for operation, detail in seen.calls if operation == "GetItem")
    assert reads["read"] == 10
