"""What failed: one call over all jobs, filtered, page by page; and off the list again."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from quarterjack import Retry, Scheduler
from quarterjack.errors import Conflict, InvalidInput, Unavailable
from quarterjack.owner.runs import dead as listing
from quarterjack.testing.process import bury_all

from tests.support.scenes.dead_runs import a_world, listed, pages
from tests.support.scenes.world import START, Faults, World, at, fails

HOUR = 3_600


def fail(world: World, *jobs: str, gap: float = 60) -> list[str]:
    """One-offs that fail for good, one every ``gap`` seconds; their ids."""
    ids = []
    for job in jobs:
        ids.append(world.scheduler.submit(job).id)
        world.work()
        bury_all(world.services, world.clock)
        world.wait(gap)
    return ids


@pytest.fixture
def world() -> World:
    world = a_world()
    world.jobs.job("late", retry=Retry(max_attempts=1))(_timeout)
    return world


def _timeout(ctx: object, payload: object) -> None:
    raise TimeoutError("too slow")


def test_what_failed_since_yesterday_evening_over_all_jobs_is_one_call(world: World) -> None:
    world.scheduler.create_schedule("s", "hopeless", "0 15,21 * * *")
    world.live(9 * HOUR + 1)
    reader = Faults()
    scheduler = world.owner(reader)
    one_off = fail(world, "hopeless")
    world.clock.move_to(START + timedelta(hours=21))
    evening = START + timedelta(hours=6)
    page = scheduler.list_dead(since=evening)
    assert [dead.id for dead in page.items] == [*one_off, str(world.run(9 * HOUR).ref)]
    assert [dead.schedule for dead in page.items] == [None, "s"]
    assert (page.cursor, reader.count("Query")) == (None, 2)  # a query a day


def test_by_default_the_last_day(world: World) -> None:
    old, new = fail(world, "hopeless", "hopeless", gap=12 * HOUR)
    assert [dead.id for dead in listed(world)] == [new, old]
    world.wait(1)
    assert [dead.id for dead in listed(world)] == [new]


def test_bounds_include_the_moments_given(world: World) -> None:
    ids = fail(world, "hopeless", "hopeless", "hopeless")
    assert [dead.id for dead in listed(world, since=at(60), until=at(60))] == [ids[1]]
    assert [dead.id for dead in listed(world, since=at(60))] == ids[:0:-1]
    assert [dead.id for dead in listed(world, until=at(60))] == ids[1::-1]


def test_filters(world: World) -> None:
    world.scheduler.create_schedule("s", "hopeless", "at(2026-05-04T12:00:30)")
    world.live(40)
    (one_off,), (late,) = fail(world, "hopeless"), fail(world, "late")
    of_schedule = str(world.run(30).ref)

    def found(**filters: Any) -> list[str]:
        return [dead.id for dead in listed(world, **filters)]

    assert found(job="hopeless") == [one_off, of_schedule]
    assert found(schedule="s") == [of_schedule]
    assert found(error_type="TimeoutError") == [late]
    assert found(job="hopeless", error_type="KeyError", schedule="s", since=at(0)) == [of_schedule]
    assert found(job="late", error_type="KeyError") == []
    assert found(job="nobody") == []


def test_a_tenant_sees_its_own(world: World) -> None:
    fail(world, "hopeless")
    fail(world, "hopeless")
    cursor = world.scheduler.list_dead(limit=1).cursor
    assert cursor is not None
    other = Scheduler("acm", jobs=world.jobs, services=world.services, clock=world.clock)
    assert list(other.list_dead().items) == []
    with pytest.raises(InvalidInput, match=r"cursor=.*is not of this listing"):
        other.list_dead(cursor=cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_pages_follow_each_other(world: World, limit: int) -> None:
    ids = fail(world, "hopeless", "hopeless", "hopeless", "hopeless", gap=9 * HOUR)
    seen = list(pages(world, limit, since=START))
    assert [dead.id for page in seen for dead in page] == ids[::-1]
    assert [len(page) for page in seen[:-1]] == [limit] * (len(seen) - 1)
    assert len(seen) == -(-4 // limit)


def test_pages_pass_over_what_is_filtered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.testing.memory.tables.PAGE", 2)
    (first,) = fail(world, "late")
    fail(world, *["hopeless"] * 9)
    (last,) = fail(world, "late")
    assert [[dead.id for dead in page] for page in pages(world, 1, job="late")] == [[last], [first]]


def test_a_small_page_of_a_bad_day_reads_little(world: World) -> None:
    fail(world, *["hopeless"] * 30, gap=1)
    reader = Faults()
    world.owner(reader).list_dead(limit=5)
    assert reader.count("Query") == 1


def test_a_long_look_back_ends_where_nothing_can_be(world: World) -> None:
    reader = Faults()
    assert list(world.owner(reader).list_dead(since=at(-40 * 365 * 86_400)).items) == []
    assert reader.count("Query") == 90 + 14 + 1  # days: the ledger's retention, the queue's, today


def test_what_a_fast_clock_let_die_is_listed(world: World) -> None:
    fail(world, "hopeless", gap=0)
    slow = world.now() - timedelta(seconds=90)
    scheduler = Scheduler("acme", services=world.services, clock=lambda: int(slow.timestamp() * 1000))
    assert len(scheduler.list_dead().items) == 1


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"since": datetime(2026, 5, 4)}, "since=.*has no time zone"),  # noqa: DTZ001 (that is the point)
        ({"since": "yesterday"}, "since='yesterday': is not a datetime"),
        ({"until": 7}, "until=7: is not a datetime"),
        ({"since": at(0), "until": at(-1)}, "since=.*: leaves an empty interval; give a time before until"),
        ({"since": at(9 * HOUR)}, "since=.*: leaves an empty interval; .*not in the future"),
        ({"job": "a b"}, "job='a b'"),
        ({"job": ""}, "job=''"),
        ({"schedule": "#"}, "schedule='#'"),
        ({"error_type": 7}, "error_type=7"),
        ({"error_type": "x" * 2000}, "error_type=.*is not a text of fitting length"),
        ({"limit": 0}, "limit=0: is out of range; use a whole number from 1 to 1,000"),
        ({"limit": 1001}, "limit=1001"),
        ({"limit": True}, "limit=True"),
        (
            {"cursor": ""},
            "cursor='': is not of this listing; pass the cursor of the page before, with the same conditions",
        ),
        ({"cursor": "ÄÖ"}, "cursor='ÄÖ'"),
        ({"cursor": "W10="}, "cursor='W10='"),
        ({"cursor": "WyJhY21lIiwiIzEjMiMzIl0="}, "is not of this listing"),  # acme, a key of no time
        ({"cursor": "WyJhY21lIiw3XQ=="}, "is not of this listing"),  # acme, 7
        ({"cursor": 7}, "cursor=7"),
    ],
)
def test_bad_arguments_are_refused_by_name(world: World, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        world.scheduler.list_dead(**arguments)


def test_a_throttled_table_is_said_so(world: World) -> None:
    with pytest.raises(Unavailable):
        world.owner(Faults().at("read_dead", before=fails, times=None)).list_dead()


# Off the list.


def test_purge_takes_off_the_list_and_nothing_else(world: World) -> None:
    ids = fail(world, "hopeless", "hopeless", "hopeless")
    world.scheduler.redrive(ids[0])
    assert world.scheduler.purge(until=at(60), dry_run=True) == 2
    assert len(listed(world, include_redriven=True)) == 3
    assert world.scheduler.purge(until=at(60)) == 2
    assert [dead.id for dead in listed(world, include_redriven=True)] == [ids[2]]
    assert world.scheduler.purge(until=at(60)) == 0
    assert [world.scheduler.get_run(run_id).state for run_id in ids] == ["DEAD"] * 3


def test_purge_by_filter_however_old(world: World) -> None:
    fail(world, "hopeless", gap=80 * 86_400)
    fail(world, "late")
    assert world.scheduler.purge(job="late") == 1
    assert world.scheduler.purge(error_type="KeyError") == 1
    assert listed(world, since=START) == []


def test_purge_of_one_run_leaves_the_others(world: World) -> None:
    first, second = fail(world, "hopeless", "hopeless")
    assert world.scheduler.purge(first, dry_run=True) == 1
    assert world.scheduler.purge(first) == 1
    assert [dead.id for dead in listed(world)] == [second]
    assert world.scheduler.purge(first) == 0
    world.scheduler.redrive(second)
    assert world.scheduler.purge(second) == 1


def test_purge_of_one_run_that_did_not_fail_or_with_a_filter_is_refused(world: World) -> None:
    waits = world.scheduler.submit("hopeless", delay=3_600).id
    with pytest.raises(Conflict, match="it is QUEUED, not DEAD, LOST or EXPIRED; no list has it"):
        world.scheduler.purge(waits)
    with pytest.raises(InvalidInput, match="together with a filter"):
        world.scheduler.purge(waits, job="hopeless")


def test_purge_of_a_span_and_of_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_REMOVED_AT_ONCE", 2)
    ids = fail(world, *["hopeless"] * 4, gap=3_600)
    third = world.scheduler.get_run(ids[2]).ended_at
    assert world.scheduler.purge(since=third, dry_run=True) == 2
    assert world.scheduler.purge(since=third, limit=1) == 1
    assert sorted(dead.id for dead in listed(world)) == sorted(ids[:3])
    stop = threading.Event()
    stop.set()
    assert world.scheduler.purge(job="hopeless", stop=stop) == 2
    assert world.scheduler.purge(job="hopeless", stop=threading.Event()) == 1


def test_purge_of_everything_must_be_asked_for(world: World) -> None:
    fail(world, "hopeless")
    with pytest.raises(InvalidInput, match=r"until=None: is missing.*say which runs: until, job, schedule"):
        world.scheduler.purge()
    assert len(listed(world)) == 1
    assert world.scheduler.purge(until=world.now()) == 1


def test_a_throttled_purge_says_how_far_it_came_and_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_REMOVED_AT_ONCE", 2)
    fail(world, *["hopeless"] * 5, gap=1)
    throttled = world.owner(Faults().at("remove_dead", throttle={0}, skip=2, times=None))
    with pytest.raises(Unavailable, match="4 dead runs are purged, the next were not accepted; call again to go on"):
        throttled.purge(job="hopeless")
    assert len(listed(world)) == 1
    assert world.scheduler.purge(job="hopeless") == 1


def test_a_large_purge_goes_in_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_REMOVED_AT_ONCE", 4)
    fail(world, *["hopeless"] * 10, gap=1)
    assert world.scheduler.purge(job="hopeless") == 10
    assert listed(world) == []
