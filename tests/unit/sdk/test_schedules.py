"""What the SDK returns of schedules and runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from quarterjack import RunState, ScheduleState
from quarterjack.errors import InvalidInput, NotFound

from tests.support.builders import a_head
from tests.support.scenes.world import NOON, START, Faults, World, at


def named(world: World, *names: str) -> None:
    for name in names:
        world.scheduler.create_schedule(name, "note", "0 18 * * *")


def listed(world: World, **options: object) -> list[list[str]]:
    """Names, page by page."""
    pages, cursor = [], None
    while True:
        page = world.scheduler.list_schedules(cursor=cursor, **options)  # type: ignore[arg-type]
        pages.append([schedule.name for schedule in page.items])
        cursor = page.cursor
        if cursor is None:
            return pages


# Listings.


def test_a_listing_is_in_order_of_name_and_in_pages() -> None:
    world = World()
    named(world, *"hgfedcba")
    assert listed(world, limit=3) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    assert listed(world, limit=8) == [list("abcdefgh")]
    assert listed(World()) == [[]]


def test_a_listing_may_be_of_a_prefix_and_of_a_state() -> None:
    world = World()
    named(world, "team/a", "team/b", "teams", "other", "team/gone")
    world.scheduler.pause_schedule("team/b")
    world.scheduler.delete_schedule("team/gone")
    assert listed(world, prefix="team/") == [["team/a", "team/b"]]
    assert listed(world, state="PAUSED") == [["team/b"]]
    assert listed(world, state="DELETED") == [["team/gone"]]
    assert listed(world, prefix="nobody") == [[]]
    assert listed(world, contains="m/b") == [["team/b"]]
    assert listed(world, contains="a", prefix="team/b") == [["team/b"]]
    with pytest.raises(InvalidInput, match="contains='m b'"):
        world.scheduler.list_schedules(contains="m b")


def test_deleted_ones_take_no_place_on_a_page_and_no_query_each() -> None:
    world, faults = World(), Faults()
    names = [f"s{number:03d}" for number in range(120)]
    named(world, *names)
    for name in names[1:-1]:
        world.scheduler.delete_schedule(name)
    page = world.owner(faults).list_schedules(limit=2)
    assert [schedule.name for schedule in page.items] == [names[0], names[-1]]
    assert faults.count("Query") <= 6


def test_a_cut_page_goes_on_where_it_was_cut() -> None:
    world = World()
    names = [f"s{number:02d}" for number in range(40)]
    named(world, *names)
    for name in names[:10]:
        world.scheduler.delete_schedule(name)
    assert listed(world, limit=7) == [names[i : i + 7] for i in range(10, 40, 7)]


def labelled(world: World) -> None:
    """Five schedules that differ in all that can be asked for."""
    create = world.scheduler.upsert_schedule
    create("a", "note", "0 18 * * *", tags={"team": "x", "env": "prod"}, managed_by="acme.jobs")
    create("b", "once", "0 18 * * *", tags={"team": "y"}, managed_by="acme.jobs")
    create("c", "bad", "0 18 * * *", tags={"team": "x"})
    create("d", "note", "0 18 * * *", managed_by="other")
    create("e", "note", "0 18 * * *", tags={"team": ""})
    world.scheduler.pause_schedule("d")
    for name, failing in (("c", 3), ("d", 1)):
        head = world.services.schedules.head("acme", name)
        assert head is not None
        world.memory.put_head(replace(head, failing=failing, failed_at=NOON, failed_run=f"acme/{name}#1"))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, "abcde"),
        ({"job": "note"}, "ade"),
        ({"tag": ("team", "x")}, "ac"),
        ({"tag": ("team", "")}, "e"),
        ({"tag": "team"}, "abce"),
        ({"tag": ["env"]}, "a"),
        ({"failing": True}, "cd"),
        ({"failing": False}, "abe"),
        ({"managed_by": "acme.jobs"}, "ab"),
        ({"job": "note", "state": "ACTIVE", "tag": "team", "failing": False}, "ae"),
        ({"job": "nowhere"}, ""),
    ],
)
def test_a_listing_may_be_of_those_that_meet_conditions(wanted: dict[str, object], names: str) -> None:
    world = World()
    labelled(world)
    assert listed(world, **wanted) == [list(names)]
    assert [name for page in listed(world, limit=1, **wanted) for name in page] == list(names)


def test_a_failing_one_says_since_when_and_where_to_look() -> None:
    world = World()
    labelled(world)
    (first, _) = world.scheduler.list_schedules(failing=True).items
    assert (first.failing, first.failed_at, first.failed_run) == (3, START, "acme/c#1")


def test_one_call_reads_no_more_than_so_many() -> None:
    """A filter that hardly anything meets: pages come back short, and each goes on where the last one ended."""
    world, faults = World(), Faults()
    for number in range(4_400):
        world.memory.put_head(
            a_head(name=f"s{number:04d}", job="rare" if number in (7, 4_321) else "note", description="x" * 200)
        )
    owner, pages, searched, cursor = world.owner(faults), [], [], None
    while True:
        page = owner.list_schedules(job="rare", cursor=cursor)
        pages.append([schedule.name for schedule in page.items])
        searched.append(page.searched_name or "")
        cursor = page.cursor
        if cursor is None:
            break
    assert [name for page in pages for name in page] == ["s0007", "s4321"]
    assert len(pages) > 2
    assert searched[-1] == ""
    assert searched[:-1] == sorted(searched[:-1])  # each says up to which name all were looked at
    assert faults.count("Query") == 4_400 // 125 + 1


# Schedules.


def test_a_schedule_shows_its_last_and_next_fires_in_its_zone() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "*/30 * * * *", timezone="Asia/Kolkata")
    assert world.scheduler.get_schedule("s").last_fired_at is None
    world.live(3_700)
    found = world.scheduler.get_schedule("s")
    assert found.last_fired_at is not None
    assert found.last_fired_at.isoformat() == "2026-05-04T18:30:00+05:30"
    assert [fire.isoformat() for fire in found.next_fires[:2]] == [
        "2026-05-04T19:00:00+05:30",
        "2026-05-04T19:30:00+05:30",
    ]
    assert len(found.next_fires) == 5


def test_a_listing_has_the_next_fires_that_were_asked_for_with_one_read_more() -> None:
    world, faults = World(), Faults()
    owner = world.owner(faults)
    for name, expression in (("cron", "H 9 * * *"), ("paused", "* * * * *"), ("rate", "rate(7 minutes)")):
        owner.create_schedule(name, "note", expression, timezone="Asia/Kolkata")
    owner.pause_schedule("paused")
    world.live(500)
    faults.calls.clear()
    assert [one.next_fires for one in owner.list_schedules().items] == [[], [], []]
    plain = len(faults.calls)
    found = {one.name: one.next_fires for one in owner.list_schedules(next_fires=2).items}
    assert len(faults.calls) == 2 * plain + 1
    assert found == {
        "cron": owner.get_schedule("cron").next_fires[:2],
        "paused": [],
        "rate": owner.get_schedule("rate").next_fires[:2],
    }
    with pytest.raises(InvalidInput, match="next_fires=11"):
        owner.list_schedules(next_fires=11)


def test_a_listing_shows_schedules_whose_definitions_were_not_answered() -> None:
    world, faults = World(), Faults()
    owner = world.owner(faults.at("revisions", throttle=[0], times=None))
    owner.create_schedule("s", "note", "* * * * *")
    assert [(one.name, one.next_fires) for one in owner.list_schedules(next_fires=1).items] == [("s", [])]


def test_next_fires_are_those_that_will_be() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "rate(7 minutes)")
    world.live(100)
    foreseen = world.scheduler.get_schedule("s").next_fires
    world.live(40 * 60)
    began = [START + timedelta(seconds=second) for second in world.began()]
    assert began[:5] == list(foreseen)


@pytest.mark.parametrize("act", ["pause", "complete", "update while paused"])
def test_what_does_not_fire_has_no_next_fires(act: str) -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T12:01:00)")
    if act == "complete":
        world.live(60)
    else:
        world.scheduler.pause_schedule("s")
    if act == "update while paused":
        world.scheduler.update_schedule("s", expression="* * * * *")
    assert world.scheduler.get_schedule("s").next_fires == []


def test_a_schedule_that_ends_has_fewer_next_fires() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "at(2026-05-04T18:00:00)")
    assert world.scheduler.get_schedule("s").next_fires == [datetime(2026, 5, 4, 18, tzinfo=UTC)]


def test_an_update_changes_what_it_names_and_nothing_else() -> None:
    world = World()
    world.scheduler.create_schedule(
        "s", "note", "0 9 * * *", timezone="Europe/Berlin", payload={"a": 1}, description="d", tags={"x": "y"}
    )
    for change, expected in (
        ({"expression": "0 10 * * *"}, ("note", "0 10 * * *", "Europe/Berlin", {"a": 1}, "d", {"x": "y"})),
        ({"payload": None}, ("note", "0 10 * * *", "Europe/Berlin", None, "d", {"x": "y"})),
        ({"timezone": "UTC"}, ("note", "0 10 * * *", "UTC", None, "d", {"x": "y"})),
        ({"job": "once"}, ("once", "0 10 * * *", "UTC", None, "d", {"x": "y"})),
        ({"tags": {}}, ("once", "0 10 * * *", "UTC", None, "d", {})),
        ({"description": ""}, ("once", "0 10 * * *", "UTC", None, "", {})),
    ):
        world.scheduler.update_schedule("s", **change)
        now = world.scheduler.get_schedule("s")
        assert (now.job, now.expression, now.timezone, now.payload, now.description, now.tags) == expected
    assert now.revision == 5, "tags and description are not of a revision"
    assert now.version == 7
    assert now.created_at == START


def test_a_large_payload_is_shown_whole() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "0 9 * * *", payload="x" * 100_000)
    assert world.scheduler.get_schedule("s").payload == "x" * 100_000
    run = world.scheduler.submit("note", "y" * 100_000)
    assert world.scheduler.get_run(run.id).payload == "y" * 100_000


def test_a_name_that_is_not_there_is_told_with_its_neighbours() -> None:
    world = World()
    named(world, "daily-report", "daily-reports", "weekly", "daily-gone")
    world.scheduler.delete_schedule("daily-gone")
    for look in (world.scheduler.get_schedule, world.scheduler.describe_schedule, world.scheduler.list_runs):
        with pytest.raises(NotFound, match=r"'daily-reprot'.*did you mean 'daily-report' or 'daily-reports'\?"):
            look("daily-reprot")
        with pytest.raises(NotFound, match="list_schedules"):
            look("x")


# Runs.


def test_runs_are_listed_by_time() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(300)
    some = world.scheduler.list_runs("s", after=at(60), before=at(240))
    assert [run.due for run in some.items] == [at(120), at(180), at(240)]
    first = world.scheduler.list_runs("s", before=at(300), limit=2, newest_first=True)
    assert [run.due for run in first.items] == [at(300), at(240)]
    rest = world.scheduler.list_runs("s", before=at(300), limit=9, newest_first=True, cursor=first.cursor)
    assert [run.due for run in rest.items] == [at(180), at(120), at(60)]
    assert rest.cursor is None


def test_a_run_tells_its_story() -> None:
    world = World()
    made = world.scheduler.submit("bad", {"n": 1}, delay=30)
    assert (made.state, made.schedule, made.lateness, made.attempt) == (RunState.QUEUED, None, None, 0)
    world.live(120)
    run = world.scheduler.get_run(made.id)
    assert (run.state, run.attempt, run.fence) == (RunState.DEAD, 3, 3)
    assert (run.error_type, run.error, run.reason) == ("ValueError", "boom", "failed 3 times")
    assert (run.due, run.started_at, run.lateness) == (at(30), at(30), timedelta(0))
    assert run.ended_at is not None
    assert run.payload == {"n": 1}


def test_runs_of_a_deleted_schedule_stay_readable() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(60)
    world.scheduler.delete_schedule("s")
    (run, *_) = world.scheduler.list_runs("s").items
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED
    with pytest.raises(NotFound):
        world.scheduler.get_schedule("s")


def test_an_expired_run_is_not_there() -> None:
    world = World(retention=3_600_000)
    run = world.scheduler.submit("note")
    world.work()
    world.wait(3 * 3_600)
    assert world.memory.expire() == 1
    with pytest.raises(NotFound, match="retention is over"):
        world.scheduler.get_run(run.id)


def test_a_new_key_may_be_used_again_after_the_retention() -> None:
    world = World(retention=3_600_000)
    world.scheduler.submit("note", idempotency_key="k")
    world.work()
    world.wait(3 * 3_600)
    world.memory.expire()
    world.scheduler.submit("note", idempotency_key="k")
    world.work()
    assert len(world.started) == 2


def test_the_state_of_a_new_schedule_is_what_it_says() -> None:
    world = World()
    named(world, "s")
    (listing,) = world.scheduler.list_schedules().items
    assert (listing.state, listing.payload, listing.next_fires, listing.last_fired_at) == (
        ScheduleState.ACTIVE,
        None,
        [],
        None,
    )


def test_the_last_runs_of_some_schedules() -> None:
    world = World()
    for name in ("a", "b"):
        world.scheduler.create_schedule(name, "note", "* * * * *")
    world.live(200)
    found = world.scheduler.last_runs(["a", "b", "none"], 2)
    assert found["a"] == world.scheduler.list_runs("a", newest_first=True, upcoming=False, limit=2).items
    assert [len(found[name]) for name in ("a", "b", "none")] == [2, 2, 0]
    with pytest.raises(InvalidInput, match="more than 100"):
        world.scheduler.last_runs([f"s{number}" for number in range(101)])
    with pytest.raises(InvalidInput, match="count"):
        world.scheduler.last_runs(["a"], 101)
