"""``list_runs`` over all schedules and one-offs: ended runs from the history's pages, waiting ones from the list of open runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunState
from quarterjack.errors import InvalidInput, Misconfigured, NotFound
from quarterjack.state.worker_record import (
    KEY,
    JobNames,
    RunAtHand,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record
from quarterjack.testing import Harness

from tests.support.scenes.searched import START, World, parts


@pytest.fixture
def world() -> World:
    world = World()
    world.owner.create_schedule("billing/a", "works", "* * * * *", tags={"team": "red"})
    world.owner.create_schedule("billing/b", "fails", "* * * * *", tags={"team": "blue"})
    world.owner.submit("works", delay=0)
    world.owner.submit("works", delay=86_400)
    world.live(3)
    return world


def test_everything_that_ended_and_what_waits_are_listed(world: World) -> None:
    page = world.owner.list_runs()
    assert page.cursor is None
    states = [run.state for run in page.items]
    assert states[0] is RunState.QUEUED
    assert len(page.items) >= 6
    ends = [run.ended_at for run in page.items[1:]]
    assert ends == sorted(ends, reverse=True)
    for run in page.items:
        whole = world.owner.get_run(run.id)
        assert (whole.state, whole.job, whole.due, whole.ended_at) == (run.state, run.job, run.due, run.ended_at)
        assert (whole.attempt, whole.fence, whole.kind, whole.error_type) == (
            run.attempt,
            run.fence,
            run.kind,
            run.error_type,
        )


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"failed": True}, {("billing/b", "fails", RunState.DEAD)}),
        ({"state": "SUCCEEDED", "kind": "fire"}, {("billing/a", "works", RunState.SUCCEEDED)}),
        ({"state": ["DEAD", "LOST"]}, {("billing/b", "fails", RunState.DEAD)}),
        ({"kind": "one-off"}, {(None, "works", RunState.SUCCEEDED), (None, "works", RunState.QUEUED)}),
        ({"state": "QUEUED"}, {(None, "works", RunState.QUEUED)}),
        ({"prefix": "billing/", "job": "works"}, {("billing/a", "works", RunState.SUCCEEDED)}),
        ({"prefix": "other"}, set()),
        ({"tag": ("team", "blue")}, {("billing/b", "fails", RunState.DEAD)}),
        ({"tag": "team", "job": "works"}, {("billing/a", "works", RunState.SUCCEEDED)}),
        ({"tag": ("team", "green")}, set()),
        ({"error_type": "ValueError"}, {("billing/b", "fails", RunState.DEAD)}),
        ({"error_type": "OSError"}, set()),
        ({"name": "billing/a", "state": "SUCCEEDED"}, {("billing/a", "works", RunState.SUCCEEDED)}),
        ({"name": "billing/a", "failed": True}, set()),
        ({"name": "billing/a", "state": "QUEUED"}, {("billing/a", "works", RunState.QUEUED)}),
        ({"name": "billing/a", "tag": ("team", "blue")}, set()),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else "",
)
def test_filters(world: World, conditions: dict[str, Any], expected: set[Any]) -> None:
    assert set(world.found(**conditions)) == expected


def test_since_and_until_bound_the_end(world: World) -> None:
    everything = world.owner.list_runs(state="SUCCEEDED").items
    middle = everything[1].ended_at
    later = world.owner.list_runs(state="SUCCEEDED", since=middle).items
    earlier = world.owner.list_runs(state="SUCCEEDED", until=middle - timedelta(milliseconds=1)).items
    assert [run.id for run in (*later, *earlier)] == [run.id for run in everything]


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "conditions", [{}, {"failed": True}, {"kind": "fire"}, {"name": "billing/a", "kind": "fire"}], ids=str
)
def test_pages_make_the_whole(world: World, limit: int, conditions: dict[str, Any]) -> None:
    whole = [run.id for run in world.owner.list_runs(**conditions).items]
    assert parts(world.owner, limit, **conditions) == whole
    assert whole


def test_a_page_ends_when_it_has_cost_enough(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [run.id for run in world.owner.list_runs().items]
    monkeypatch.setattr("quarterjack.history.read.MOST_UNITS", 1)
    first = world.owner.list_runs()
    assert first.cursor is not None
    assert len(first.items) < len(whole)
    assert parts(world.owner, 100) == whole


def test_a_waiting_run_leaves_the_list_when_it_ends(world: World) -> None:
    run = world.owner.submit("works", delay=3_600)
    world.catch_up()
    assert len(world.found(state="QUEUED")) == 2
    world.owner.cancel_run(run.id)
    assert len(world.found(state="QUEUED")) == 1  # at once: the ledger is asked
    world.catch_up()
    assert len(world.found(state="QUEUED")) == 1
    assert world.found(state="CANCELLED") == [(None, "works", RunState.CANCELLED)]


def test_a_run_between_two_attempts_is_listed(world: World) -> None:
    world.owner.create_schedule("later", "retries", "* * * * *")
    world.live(2)
    assert set(world.found(state="RETRYING")) == {("later", "retries", RunState.RETRYING)}
    assert set(world.found(prefix="later")) == {("later", "retries", RunState.RETRYING)}


def test_an_operator_lists_all_tenants(world: World) -> None:
    others = [world.of(f"tenant-{n}") for n in range(5)]
    for owner in others:
        owner.submit("fails")
        owner.submit("works", delay=7_200)
    world.live()
    whole = world.owner.list_runs(all_tenants=True)
    assert whole.cursor is None
    assert {run.tenant for run in whole.items} == {"acme", *(owner.tenant for owner in others)}
    assert parts(world.owner, 3, all_tenants=True) == [run.id for run in whole.items]
    failed = world.owner.list_runs(all_tenants=True, failed=True).items
    assert {run.tenant for run in failed} == {run.tenant for run in whole.items}
    assert {run.state for run in failed} == {RunState.DEAD}


def test_without_filters_a_schedule_is_listed_from_the_ledger(world: World) -> None:
    page = world.owner.list_runs("billing/a")
    assert [run.due for run in page.items] == sorted(run.due for run in page.items)
    assert page.searched_to is None
    assert RunState.QUEUED in {run.state for run in page.items}


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ({"state": "FINISHED"}, "state='FINISHED': is not known"),
        ({"state": []}, r"state=\[\]: is empty"),
        ({"kind": "cron"}, "kind='cron': is not known; use one of fire, one-off"),
        ({"failed": True, "state": "DEAD"}, "failed=True: was given together with state"),
        ({"failed": 1}, "failed=1: is neither"),
        ({"all_tenants": "yes"}, "all_tenants='yes': is neither"),
        ({"after": START}, "after=.*: is for the fires of one schedule; use since"),
        ({"before": START, "failed": True, "name": "billing/a"}, "before=.*use since"),
        ({"since": START, "until": START - timedelta(days=1)}, "since=.*: leaves an empty interval"),
        ({"since": START.replace(tzinfo=None)}, "since=.*: has no time zone"),
        ({"job": "a b"}, "job='a b'"),
        ({"prefix": "#"}, "prefix='#'"),
        ({"tag": 7}, "tag=7: is not a tag"),
        ({"error_type": 7}, "error_type=7: is not a text"),
        ({"error_type": ""}, "error_type='': is empty"),
        ({"tag": ""}, "tag='': is not a tag"),
        ({"tag": ("", "red")}, "tag=.*: is not a tag"),
        ({"newest_first": True, "failed": True}, "newest_first=True: is for the fires of one schedule"),
        ({"upcoming": False, "job": "works"}, "upcoming=False: is for the fires of one schedule"),
        ({"state": ["RUNNING", "QUEUED"], "all_tenants": True}, "state=.*: of all tenants has to stand for itself"),
        ({"state": "RUNNING", "tag": "team", "all_tenants": True}, "state=.*: of all tenants has to stand for itself"),
        ({"cursor": "open:~"}, "cursor='open:~': is not of this listing"),
        ({"limit": 0}, "limit=0"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(world: World, conditions: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        world.owner.list_runs(**conditions)


@pytest.mark.parametrize("conditions", [{"failed": True}, {"job": "works"}, {"state": "QUEUED"}], ids=str)
def test_an_unknown_schedule_is_not_found_with_filters_too(world: World, conditions: dict[str, Any]) -> None:
    with pytest.raises(NotFound, match="did you mean 'billing/a'"):
        world.owner.list_runs("billing/aa", **conditions)
    world.owner.create_schedule("new", "fails", "0 0 1 1 *")
    world.owner.list_runs("new", **conditions)


def test_all_tenants_are_listed_of_the_day_before_until(world: World) -> None:
    world.clock.advance(timedelta(days=3))
    assert not world.owner.list_runs(all_tenants=True, failed=True).items
    found = world.owner.list_runs(all_tenants=True, failed=True, until=START + timedelta(hours=1)).items
    assert {run.schedule for run in found} == {"billing/b"}


def test_waiting_runs_of_a_backfill_are_listed(world: World) -> None:
    world.owner.create_schedule("daily", "works", "0 0 * * *")
    world.owner.freeze(until=world.clock.now() + timedelta(days=1))
    days = START - timedelta(days=10), START - timedelta(days=3)
    world.owner.backfill("daily", *days, current=True, dry_run=False)
    world.live(2)
    waiting = {str(run.id) for run in world.owner.list_runs("daily", after=days[0], before=days[1]).items}
    searches: list[dict[str, Any]] = [
        {"kind": "backfill"},
        {"name": "daily", "kind": "backfill"},
        {"name": "daily", "state": "QUEUED"},
    ]
    for conditions in searches:
        found = [run.id for run in world.owner.list_runs(**conditions, until=world.clock.now()).items]
        assert sorted(found) == sorted(waiting), conditions
        assert sorted(parts(world.owner, 2, **conditions, until=world.clock.now())) == sorted(waiting), conditions
    world.owner.thaw()
    world.live(20)
    assert not [run for run in world.owner.list_runs(kind="backfill").items if run.ended_at is None]
    assert len(world.owner.list_runs(kind="backfill").items) == len(waiting) >= 7


def test_fires_that_wait_for_days_are_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.owner.create_schedule("quarterly", "works", "*/15 * * * *")
    world.owner.freeze(until=world.clock.now() + timedelta(days=9))
    world.live(30)
    waiting = [run for run in world.owner.list_runs("quarterly").items if run.ended_at is None]
    for jump in range(3):
        world.clock.advance(timedelta(days=jump))
        ids = sorted(run.id for run in waiting)
        assert sorted(parts(world.owner, 100, name="quarterly", state="QUEUED")) == ids
        assert sorted(parts(world.owner, 1, name="quarterly", state="QUEUED")) == ids
        assert sorted(parts(world.owner, 1, name="quarterly", job="works")) == ids
    assert parts(world.owner, 9, name="quarterly", state="QUEUED", since=world.clock.now() - timedelta(days=1)) == []
    monkeypatch.setattr("quarterjack.history.read.MOST_UNITS", 0)
    assert sorted(parts(world.owner, 100, name="quarterly", state="QUEUED")) == ids


def test_a_search_that_takes_long_lists_no_waiting_fire_twice(world: World) -> None:
    """While it goes on, fires become a day old."""
    world.owner.create_schedule("quarterly", "works", "*/15 * * * *")
    world.owner.freeze(until=world.clock.now() + timedelta(days=9))
    world.live(50)
    found, cursor = list[str](), None
    while True:
        page = world.owner.list_runs("quarterly", state="QUEUED", limit=1, cursor=cursor)
        found += [run.id for run in page.items]
        world.clock.advance(timedelta(hours=9))
        cursor = page.cursor
        if cursor is None:
            break
    assert len(found) == len(set(found)) >= 3


def _tell(harness: Harness, run: str) -> None:
    """A worker's record: it runs this run, and some others that have ended."""
    owner, _, key = run.partition("#")
    others = [RunRef(owner, f"{n:015d}") for n in range(5)]
    row = WorkerRow(
        identity=WorkerIdentity(
            name="w",
            kind=WorkerKind.PROCESS,
            host="h",
            version="1",
            started_at=harness.clock(),
            queue="default",
            jobs=JobNames.of(["peek"]),
        ),
        seen_at=harness.clock(),
        at_hand=6,
        runs=tuple(RunAtHand(ref=ref, job="peek", fence=1, started_at=1) for ref in [*others, RunRef(owner, key)]),
    )
    version = harness._services.records.read(owner_of("w"), f"{KEY}w")
    record = Record(
        owner=owner_of("w"),
        key=f"{KEY}w",
        version=version.version + 1 if version else 1,
        body=record_body(row),
        expires=row.expires,
    )
    assert harness._services.records.write(record)


def test_fires_that_run_are_found_with_every_filter() -> None:
    """Within the job: by tag, time and beside other states."""
    seen: dict[str, list[int]] = {}
    known = Registry()
    harness = Harness(known, at=START)
    owner = harness.scheduler

    @known.job("peek", retry=Retry(max_attempts=2, base=60.0))
    def peek(ctx: Context, payload: object) -> None:
        _tell(harness, ctx.run_id)
        harness._follow()
        for conditions in (
            {"tag": ("team", "red")},
            {"tag": ("team", "blue")},
            {"since": START},
            {"until": START},
            {"state": ["RUNNING", "QUEUED"]},
            {"state": ["RUNNING", "RETRYING"], "kind": "fire"},
            {"state": ["RUNNING", "SUCCEEDED"], "job": "peek"},
        ):
            found = parts(owner, 3, **{"state": "RUNNING", **conditions})
            seen.setdefault(str(conditions), []).append(found.count(str(ctx.run_id)))
        if ctx.attempt == 1:
            raise RuntimeError("once more: its entry is in the list of open runs then")

    owner.create_schedule("p", "peek", "30 12 * * *", tags={"team": "red"})
    harness.advance(minutes=40)
    assert all(
        counts == [0, 0] if "blue" in key or "until" in key else counts == [1, 1] for key, counts in seen.items()
    )
    assert len(seen) == 7


def test_a_cursor_belongs_to_its_filters(world: World) -> None:
    cursor = world.owner.list_runs(limit=1).cursor
    with pytest.raises(InvalidInput, match="cursor"):
        world.owner.list_runs(limit=1, cursor=cursor, job="works")


def test_without_a_history_the_error_says_so(world: World) -> None:
    owner = world.of("acme", history=False)
    with pytest.raises(Misconfigured, match="QUARTERJACK_HISTORY=off"):
        owner.list_runs(failed=True)
    assert owner.list_runs("billing/a").items


def test_what_waits_for_another_attempt_of_one_schedule_is_listed_once(world: World) -> None:
    """It is in the ledger, where a schedule's open runs are read, and in the book of open runs."""
    world.owner.create_schedule("stubborn", "retries", "* * * * *")
    world.live(3)
    waiting = [run.id for run in world.owner.list_runs("stubborn", kind="fire").items if run.state == "RETRYING"]
    assert len(waiting) == len(set(waiting)) >= 2
    assert set(waiting) <= {run.id for run in world.owner.list_runs(prefix="stubborn", state="RETRYING").items}
