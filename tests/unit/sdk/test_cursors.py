"""Cursors: each goes on with the listing that it was made by, and with no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.errors import InvalidInput
from quarterjack.sdk.schedules.bulk import BulkAction

from tests.support.scenes.world import START, World

Pager = Callable[..., Any]
UNTIL = START + timedelta(hours=1)


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    for number in range(4):
        world.scheduler.create_schedule(f"team/{number}", "note", "0 18 * * *", tags={"team": "x"})
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.scheduler.create_schedule("other", "note", "* * * * *")
    world.live(300)
    for _ in range(3):
        world.scheduler.submit("bad", retry=None, delivery="at_most_once")
    world.live(60)
    world.backfills = [  # type: ignore[attr-defined]
        world.scheduler.backfill(
            "s", START - timedelta(hours=ago), START, dry_run=False, current=True, allow_repeat=True
        ).id
        for ago in (1, 2)
    ]
    return world


def stopped() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def redrive(owner: Scheduler, **arguments: Any) -> Any:
    return owner.redrive(dry_run=True, **arguments)


def bulk(
    owner: Scheduler, *, cursor: str | None = None, limit: int = 0, action: BulkAction = "pause", **arguments: Any
) -> Any:
    return owner.bulk(action, cursor=cursor, stop=None if cursor else stopped(), dry_run=True, **arguments)


# The listing, its arguments, and others of which each makes another listing.
LISTINGS: list[tuple[Pager, Mapping[str, Any], list[Mapping[str, Any]]]] = [
    (
        Scheduler.list_schedules,
        {"prefix": "team/"},
        [{"prefix": "team"}, {"state": "ACTIVE"}, {"job": "note"}, {"tag": "team"}, {"failing": False}, {"prefix": ""}],
    ),
    (
        Scheduler.list_runs,
        {"name": "s", "before": UNTIL},
        [{"name": "other"}, {"after": START}, {"before": None}, {"newest_first": True}, {"upcoming": False}],
    ),
    (
        Scheduler.list_dead,
        {"job": "bad", "since": START},
        [{"job": None}, {"since": None}, {"until": UNTIL}, {"error_type": "ValueError"}, {"include_redriven": True}],
    ),
    (redrive, {"job": "bad", "since": START}, [{"job": None}, {"until": UNTIL}, {"error_type": "ValueError"}]),
    (
        bulk,
        {"prefix": "team/", "reason": "x"},
        [{"prefix": "team"}, {"tag": "team"}, {"reason": "y"}, {"reason": None}, {"action": "resume", "reason": None}],
    ),
    (
        bulk,
        {"prefix": "team/", "action": "trigger", "payload": 1},
        [{"payload": 2}, {"client_token": "t"}, {"prefix": "team"}],
    ),
]


@pytest.mark.parametrize(("call", "given", "others"), LISTINGS)
def test_a_cursor_is_of_its_own_listing(
    world: World, call: Pager, given: Mapping[str, Any], others: list[Mapping[str, Any]]
) -> None:
    cursor = call(world.scheduler, limit=1, **given).cursor
    assert cursor is not None
    call(world.scheduler, cursor=cursor, limit=2, **given)  # pages of another size are of the same listing
    for other in others:
        with pytest.raises(InvalidInput, match=r"^cursor=.* is not of this listing; .*the same conditions") as refused:
            call(world.scheduler, cursor=cursor, **{**given, **other})
        assert refused.value.field == "cursor"
    neighbour = Scheduler("neighbour", jobs=world.jobs, services=world.services, clock=world.clock)
    for owner, wrong in ((neighbour, cursor), (world.scheduler, cursor[:-1]), (world.scheduler, "0" + cursor)):
        with pytest.raises(InvalidInput, match=r"^cursor="):
            call(owner, cursor=wrong, **given)


@pytest.mark.parametrize(("call", "given", "_"), LISTINGS)
@pytest.mark.parametrize(
    "cursor", ["", "team/1", "~", "x~", "team/1~0123456789abcdef", "W10=", "ÄÖ", "\ud800~a", 7, ["~"]]
)
def test_any_other_text_is_refused(
    world: World, call: Pager, given: Mapping[str, Any], _: object, cursor: object
) -> None:
    with pytest.raises(InvalidInput, match=r"^cursor=.* is not of this listing"):
        call(world.scheduler, cursor=cursor, **given)


def test_a_cursor_of_one_call_is_not_one_of_another(world: World) -> None:
    cursor = world.scheduler.list_dead(job="bad", limit=1).cursor
    with pytest.raises(InvalidInput, match=r"^cursor="):
        world.scheduler.redrive(job="bad", cursor=cursor)


def test_a_cursor_of_one_backfill_is_not_of_another(world: World) -> None:
    one, other = world.backfills  # type: ignore[attr-defined]
    world.live(120)
    cursor = world.scheduler.backfill_runs("s", one, limit=1).cursor
    assert cursor is not None
    world.scheduler.backfill_runs("s", one, cursor=cursor)
    with pytest.raises(InvalidInput, match=r"^cursor="):
        world.scheduler.backfill_runs("s", other, cursor=cursor)


def test_default_bounds_that_move_with_the_clock_are_the_same_listing() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(300)
    newest = world.scheduler.list_runs("s", newest_first=True, upcoming=False, limit=2)
    world.live(60)
    rest = world.scheduler.list_runs("s", newest_first=True, upcoming=False, cursor=newest.cursor)
    seen = [run.due for run in (*newest.items, *rest.items)]
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == 5


def test_runs_to_come_are_left_out_on_request() -> None:
    world = World()
    world.scheduler.create_schedule("s", "note", "* * * * *")
    world.live(61)
    due = [run.due for run in world.scheduler.list_runs("s", upcoming=False).items]
    every = [run.due for run in world.scheduler.list_runs("s").items]
    assert due == [moment for moment in every if moment <= world.now()] != every
