"""Upsert: a schedule becomes what is said; where it says the same, nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Retry, Rule, ScheduleState
from quarterjack.errors import Conflict, InvalidInput, NotFound

from tests.support.scenes.world import OWNER, START, Faults, World

WRITES = (
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "TransactWriteItems",
    "BatchWriteItem",
    "BatchExecuteStatement",
    "PutObject",
)
RICH: dict[str, Any] = {
    "expression": Rule(
        expression="0 9 * * 1-5",
        timezone="Europe/Berlin",
        also=("0 12 * * 6",),
        exclude=("2026-12-24/2026-12-31",),
        start=datetime(2026, 10, 25, 2, 30, tzinfo=UTC).astimezone(),
        max_fires=20,
        jitter=30,
    ),
    "payload": {"b": [1, 2.5, None, "日本"], "a": True},
    "description": "d",
    "tags": {"team": "x"},
    "delivery": "at_most_once",
    "retry": Retry(max_attempts=5, retry_on={TimeoutError, OSError}),  # type: ignore[arg-type]
    "timeout": 5,
    "catch_up": "latest",
    "max_running": 3,
    "expect_success_within": 3_600,
    "must_end_by": "06:00",
    "managed_by": "acme.jobs",
}


def upsert(world: World, hook: Faults | None = None, **changes: Any) -> str:
    given = {"name": "s", "job": "note", "expression": "*/30 * * * *"} | changes
    return world.owner(hook).upsert_schedule(**given).change


@pytest.mark.parametrize("given", [{}, RICH, {"payload": "日" * 50_000}, {"expression": "at(2026-05-04T12:00:30)"}])
def test_the_same_again_writes_nothing(given: dict[str, Any]) -> None:
    world, faults = World(), Faults()
    assert upsert(world, **given) == "created"
    world.live(120)
    before, head = world.memory.revisions(OWNER), world.memory.heads()
    assert upsert(world, faults, **given) == "unchanged"
    assert faults.count(*WRITES) == 0
    assert (world.memory.revisions(OWNER), world.memory.heads()) == (before, head)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"payload": {"a": True}}, ["payload"]),
        ({"payload": {"a": 1, "b": [1, 2.5, None, "日本"]}}, ["payload"]),
        ({"expression": "0 9 * * 1-5"}, ["timezone", "also", "exclude", "start", "max_fires", "jitter"]),
        ({"retry": None}, ["retry"]),
        ({"timeout": 6, "delivery": None}, ["timeout", "delivery"]),
        ({"catch_up": "all", "max_running": 2}, ["max_running", "catch_up"]),
        ({"job": "once"}, ["job"]),
    ],
)
def test_what_differs_is_a_new_revision_and_told(change: dict[str, Any], fields: list[str]) -> None:
    world = World()
    upsert(world, **RICH)
    assert upsert(world, **(RICH | change)) == "updated"
    newest, first = world.scheduler.describe_schedule("s").revisions
    assert (newest.number, sorted(newest.changed)) == (2, sorted(fields))
    assert (first.number, first.closed_by, first.changed) == (1, "replaced", [])


@pytest.mark.parametrize("change", [{"description": "e"}, {"tags": {}}, {"managed_by": "other"}])
def test_what_is_of_the_schedule_alone_makes_no_revision(change: dict[str, Any]) -> None:
    world = World()
    upsert(world, **RICH)
    runs, entries = world.memory.runs(), world.memory.entries()
    assert upsert(world, **(RICH | change)) == "updated"
    (head,) = world.memory.heads()
    assert (head.revision, head.version) == (1, 2)
    assert {name: getattr(head, name) for name in change} == change
    assert (world.memory.runs(), world.memory.entries()) == (runs, entries)
    assert upsert(world, **(RICH | change)) == "unchanged"


def test_a_rule_that_stays_goes_on_counting_where_something_else_changes() -> None:
    world = World()
    given: dict[str, Any] = {"expression": Rule(expression="rate(10 minutes)", max_fires=3, jitter=60)}
    upsert(world, **given)
    world.wait(15 * 60)
    upsert(world, **given, payload=1)
    first, second = world.memory.revisions(OWNER)
    assert second.definition.rule == first.definition.rule, "seed and last fire too"
    assert second.counts_from == first.counts_from


def test_who_manages_it_is_kept_unless_it_is_said() -> None:
    world = World()
    upsert(world, managed_by="acme.jobs")
    assert upsert(world) == "unchanged"
    assert world.scheduler.get_schedule("s").managed_by == "acme.jobs"
    world.scheduler.update_schedule("s", payload=1)
    world.scheduler.pause_schedule("s")
    world.scheduler.resume_schedule("s")
    assert world.scheduler.get_schedule("s").managed_by == "acme.jobs"
    world.scheduler.delete_schedule("s")
    assert world.scheduler.create_schedule("s", "note", "0 9 * * *").managed_by is None


def test_a_paused_one_stays_paused_and_a_deleted_one_is_created() -> None:
    world = World()
    upsert(world)
    world.scheduler.pause_schedule("s", reason="holidays")
    assert upsert(world) == "unchanged"
    assert upsert(world, payload=1) == "updated"
    head = world.scheduler.get_schedule("s")
    assert (head.state, head.reason, head.revision) == (ScheduleState.PAUSED, "holidays", 2)
    world.scheduler.delete_schedule("s")
    assert upsert(world, payload=1) == "created"
    assert world.scheduler.get_schedule("s").state is ScheduleState.ACTIVE


def test_one_that_is_complete_stays_so() -> None:
    world = World()
    upsert(world, expression="at(2026-05-04T12:01:00)")
    world.live(120)
    assert upsert(world, expression="at(2026-05-04T12:01:00)") == "unchanged"
    with pytest.raises(InvalidInput, match="nothing is due"):
        upsert(world, expression="at(2026-05-04T12:01:00)", payload=1)


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    world, faults = World(), Faults()
    upsert(world, **RICH)
    same = {name: RICH[name] for name in RICH if name != "managed_by"}
    world.owner(faults).update_schedule("s", **same)
    world.owner(faults).update_schedule("s")
    assert faults.count(*WRITES) == 0
    assert world.scheduler.get_schedule("s").revision == 1


def test_two_who_upsert_at_once_make_one() -> None:
    world = World()
    meanwhile = Faults().at("arm", before=lambda: upsert(world))
    assert upsert(world, meanwhile) == "unchanged"
    assert len(world.memory.revisions(OWNER)) == 1


def test_an_expected_revision_must_be_there_and_current() -> None:
    world = World()
    with pytest.raises(NotFound):
        upsert(world, expected_revision=1)
    upsert(world)
    upsert(world, payload=1, expected_revision=1)
    with pytest.raises(Conflict, match="revision 1, but revision 2 is current"):
        upsert(world, payload=2, expected_revision=1)
    for call in (world.scheduler.pause_schedule, world.scheduler.resume_schedule, world.scheduler.delete_schedule):
        with pytest.raises(Conflict, match="revision 1, but revision 2 is current"):
            call("s", expected_revision=1)
    assert world.scheduler.get_schedule("s").updated_at == START
    world.wait(timedelta(hours=1).total_seconds())
    world.scheduler.delete_schedule("s", expected_revision=2)


@pytest.mark.parametrize("number", [0, -1, True, "1", 1.0])
def test_an_expected_revision_is_a_number_of_one(number: Any) -> None:
    world = World()
    upsert(world)
    with pytest.raises(InvalidInput, match="expected_revision"):
        world.scheduler.pause_schedule("s", expected_revision=number)
