"""Bulk: one act on every schedule that a filter finds; each stands for itself, and what was interrupted goes on."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import RunState, Scheduler, ScheduleState
from quarterjack.concurrency.rate_limits import TokenBucket
from quarterjack.domain.schedule import ClosedBy, Head
from quarterjack.errors import InvalidInput, KeyReused, Unavailable
from quarterjack.sdk.schedules.bulk import BulkAction
from quarterjack.sdk.schedules.bulk_work import AT_ONCE, BulkProgress
from quarterjack.testing import Detail, Harness, Hook, ManualClock

from tests.support.api import NOON, greeting_jobs
from tests.support.hostile.pools import Mute
from tests.support.scenes.world import START, Faults, World, fails

NAMES = [f"team/{number:03d}" for number in range(60)]
WRITES = ("PutItem", "UpdateItem", "TransactWriteItems", "BatchWriteItem", "BatchExecuteStatement", "SendMessageBatch")


def many(names: list[str] = NAMES) -> World:
    world = World()
    for name in names:
        world.scheduler.create_schedule(name, "note", "0 18 * * *", tags={"team": "x"})
    world.scheduler.create_schedule("other", "note", "0 18 * * *")
    return world


def heads(world: World) -> dict[str, Head]:
    return {head.name: head for head in world.memory.heads()}


class Told(threading.Event):
    """Tells to stop after so many acts."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def hear(self, progress: BulkProgress) -> None:
        if progress.done + progress.failed >= self.after:
            self.set()


class Broken(Hook):
    """What touches some schedules fails."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if operation == "TransactWriteItems" and detail.items[0] in [("acme", name) for name in self.names]:
            raise Unavailable("injected")
        return ()


# What it does.


def test_all_that_are_found_are_paused_and_resumed_and_no_other() -> None:
    world = many()
    paused = world.scheduler.bulk("pause", prefix="team/", reason="migration")
    assert (paused.action, paused.done, paused.failed, paused.cursor) == ("pause", NAMES, {}, None)
    assert {(head.state, head.reason) for name, head in heads(world).items() if name in NAMES} == {
        (ScheduleState.PAUSED, "migration")
    }
    assert heads(world)["other"].state is ScheduleState.ACTIVE
    assert world.scheduler.bulk("resume", state="PAUSED", tag="team").count == 60
    assert {head.state for head in world.memory.heads()} == {ScheduleState.ACTIVE}


def test_a_pause_of_all_may_have_an_end() -> None:
    world = many()
    until = world.now() + timedelta(hours=2)
    assert world.scheduler.bulk("pause", prefix="team/", until=until).count == 60
    assert {one.resume_at for one in world.scheduler.list_schedules(prefix="team/").items} == {until}
    with pytest.raises(InvalidInput, match="until="):
        world.scheduler.bulk("pause", prefix="team/", until=world.now() - timedelta(hours=1))
    with pytest.raises(InvalidInput, match="is not an argument of 'resume'; it is for 'pause'"):
        world.scheduler.bulk("resume", prefix="team/", until=until)


def test_all_that_are_found_are_deleted() -> None:
    world = many()
    assert world.scheduler.bulk("delete", tag=("team", "x")).count == 60
    assert [schedule.name for schedule in world.scheduler.list_schedules().items] == ["other"]


def test_tags_are_set_and_removed_and_no_fire_is_touched() -> None:
    world = many()
    entries = world.memory.entries()
    assert world.scheduler.bulk("retag", prefix="team/", tags={"env": "prod", "team": None, "gone": None}).count == 60
    assert {
        (tuple(head.tags.items()), head.revision, head.version) for name, head in heads(world).items() if name in NAMES
    } == {((("env", "prod"),), 1, 2)}
    again = Faults()
    assert world.owner(again).bulk("retag", prefix="team/", tags={"env": "prod"}).count == 60
    assert again.count(*WRITES) == 0
    assert world.memory.entries() == entries


def test_a_tag_that_somebody_else_sets_meanwhile_stays() -> None:
    world = many(["team/1"])
    meanwhile = Faults().at("close", before=lambda: world.scheduler.update_schedule("team/1", tags={"a": "b"}))
    world.owner(meanwhile).bulk("retag", prefix="team/", tags={"c": "d"})
    assert heads(world)["team/1"].tags == {"a": "b", "c": "d"}


def test_all_that_are_found_are_triggered_once_with_a_token() -> None:
    world = many()
    for _ in range(2):
        assert world.scheduler.bulk("trigger", prefix="team/", payload={"n": 1}, client_token="t").count == 60
    world.work()
    assert sorted(start.run_id.partition("#")[0] for start in world.started) == [f"acme/{name}" for name in NAMES]
    assert {run.state for run in world.memory.runs()} == {RunState.SUCCEEDED}


@pytest.mark.parametrize("other", [{"prefix": "team/5"}, {"prefix": "team/", "payload": 2}])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_token_is_for_one_filter_and_payload(other: dict[str, Any], dry_run: bool) -> None:
    world = many()
    world.scheduler.bulk("trigger", prefix="team/", payload=1, client_token="t", dry_run=True)
    world.scheduler.bulk("trigger", prefix="team/", payload=1, client_token="t")
    triggered = len(list(world.memory.runs()))
    with pytest.raises(KeyReused, match="used for bulk"):
        world.scheduler.bulk("trigger", **({"payload": 1} | other), client_token="t", dry_run=dry_run)
    assert len(list(world.memory.runs())) == triggered == 60


@pytest.mark.parametrize("action", ["pause", "resume", "delete", "trigger"])
def test_a_dry_run_writes_nothing_and_names_them(action: BulkAction) -> None:
    world, faults = many(), Faults()
    told: list[int] = []
    would = world.owner(faults).bulk(action, prefix="team/", dry_run=True, on_progress=lambda p: told.append(p.done))
    assert (would.done, would.dry_run, told) == (NAMES, True, list(range(61)))
    assert faults.count(*WRITES) == 0


def test_one_that_fails_stops_no_other_and_is_named() -> None:
    world = many()
    broken = world.owner(Broken("team/007", "team/059"))
    result = broken.bulk("pause", prefix="team/")
    assert result.count == 58
    assert {name: "injected" in why for name, why in result.failed.items()} == {"team/007": True, "team/059": True}
    assert world.scheduler.bulk("pause", prefix="team/", state="ACTIVE").done == ["team/007", "team/059"]


def test_a_schedule_with_too_many_tags_is_named() -> None:
    world = many(["team/1", "team/2"])
    world.scheduler.update_schedule("team/1", tags={str(number): "" for number in range(50)})
    result = world.scheduler.bulk("retag", prefix="team/", tags={"one more": ""})
    assert (result.done, list(result.failed)) == (["team/2"], ["team/1"])


def test_a_schedule_that_was_changed_since_it_was_listed_is_read_again() -> None:
    """The listing is what each is first taken for; the transaction finds that it is not so any more."""
    world = many()

    def meanwhile() -> None:
        for name in NAMES[::2]:
            world.scheduler.update_schedule(name, payload="meanwhile")

    hook = Faults().at("close", before=meanwhile)
    assert world.owner(hook).bulk("pause", prefix="team/").count == 60
    assert {heads(world)[name].state for name in NAMES} == {ScheduleState.PAUSED}
    for name in NAMES:
        newest = world.memory.revisions(f"acme/{name}")[-1]
        assert newest.closed_by is ClosedBy.PAUSED


def test_a_schedule_that_was_resumed_since_it_was_listed_as_paused_is_paused() -> None:
    world = many(["team/1"])
    world.scheduler.pause_schedule("team/1")
    hook = Faults().at("page", after=lambda: world.scheduler.resume_schedule("team/1"))
    assert world.owner(hook).bulk("pause", prefix="team/").count == 1
    assert heads(world)["team/1"].state is ScheduleState.PAUSED


def test_what_was_listed_is_not_read_again() -> None:
    world, faults = many(), Faults()
    world.owner(faults).bulk("pause", prefix="team/")
    assert faults.count("GetItem") == 0
    assert faults.count("BatchGetItem") == 1
    assert faults.count("TransactWriteItems") == 60


# Interruptions.


def test_what_was_stopped_goes_on_where_it_was() -> None:
    world, seen, cursor = many(), list[str](), None
    for _ in range(60):
        told = Told(after=7)
        part = world.scheduler.bulk("pause", prefix="team/", stop=told, on_progress=told.hear, cursor=cursor)
        seen += part.done
        assert part.count <= 7 + AT_ONCE - 1, "those that had begun when it was stopped"
        cursor = part.cursor
        if cursor is None:
            break
    assert seen == NAMES
    assert {heads(world)[name].version for name in NAMES} == {2}, "each was paused once"


def test_an_event_that_is_set_lets_none_begin() -> None:
    world, stop = many(), threading.Event()
    stop.set()
    none = world.scheduler.bulk("pause", prefix="team/", stop=stop)
    assert none.done == []
    assert world.scheduler.bulk("pause", prefix="team/", cursor=none.cursor).done == NAMES


def test_the_last_progress_is_where_a_crash_is_gone_on_from() -> None:
    """Whatever was begun by then is done again: pausing twice is pausing once."""
    world, told = many(), list[BulkProgress]()

    def die(progress: BulkProgress) -> None:
        told.append(progress)
        if progress.done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.scheduler.bulk("pause", prefix="team/", on_progress=die)
    rest = world.scheduler.bulk("pause", prefix="team/", cursor=told[-1].cursor)
    assert rest.done == NAMES[20:]
    assert {heads(world)[name].state for name in NAMES} == {ScheduleState.PAUSED}


def test_a_listing_that_fails_says_where_to_go_on() -> None:
    world = many([f"team/{number:03d}" for number in range(300)])
    hook = Faults().at("page", before=fails, skip=1, times=None)
    with pytest.raises(Unavailable, match=r"250 schedules are done; go on with cursor='team/249~") as failed:
        world.owner(hook).bulk("pause", prefix="team/")
    (cursor,) = re.findall(r"cursor='(.*?)'", str(failed.value))
    assert world.scheduler.bulk("pause", prefix="team/", cursor=cursor).count == 50


# The rate.


class Sleeper:
    """Waits on a clock of its own."""

    def __init__(self, clock: ManualClock, *, late: float = 0.0) -> None:
        self.clock, self.late = clock, late

    def wait(self, timeout: float) -> bool:
        if timeout:
            _advance(self.clock, timeout + self.late)
        return False


def _advance(clock: ManualClock, seconds: float) -> None:
    clock.reach(clock() + round(seconds * 1_000))


@pytest.mark.parametrize(("rate", "late"), [(4, 0.0), (50, 0.003), (200, 0.02), (1_000, 0.05)])
def test_a_pace_is_kept_though_waits_end_late(rate: float, late: float) -> None:
    clock = ManualClock(START)
    pace, began, acts = TokenBucket(rate, clock, Sleeper(clock, late=late)), clock(), int(rate * 10)
    for _ in range(acts):
        pace.go_on()
    assert (clock() - began) / 1_000 == pytest.approx(10, rel=0.05)


def test_a_long_hold_up_is_not_caught_up_with() -> None:
    clock = ManualClock(START)
    pace = TokenBucket(100, clock, Sleeper(clock))
    _advance(clock, 60)
    began = clock()
    for _ in range(125):
        pace.go_on()
    assert clock() - began >= 1_000


# Refusals.


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda owner: owner.bulk("explode", prefix="a"), "action"),
        (lambda owner: owner.bulk("pause"), "prefix"),
        (lambda owner: owner.bulk("pause", prefix="a b"), "prefix"),
        (lambda owner: owner.bulk("pause", state="SLEEPING"), "state"),
        (lambda owner: owner.bulk([], prefix="a"), "action"),
        (lambda owner: owner.bulk("pause", prefix="b", cursor="a"), "cursor"),
        (lambda owner: owner.bulk("pause", prefix="b", drain=1), "drain"),
        (lambda owner: owner.bulk("pause", prefix="team", reason=7), "reason"),
        (lambda owner: owner.bulk("resume", prefix="team", reason="x"), "reason"),
        (lambda owner: owner.bulk("resume", prefix="team", drain=True), "drain"),
        (lambda owner: owner.bulk("pause", prefix="team", tags={"a": "b"}), "tags"),
        (lambda owner: owner.bulk("pause", prefix="team", payload=None, client_token="t"), "client_token"),
        (lambda owner: owner.bulk("pause", prefix="team", payload=Mute()), "payload"),
        (lambda owner: owner.bulk("retag", prefix="team"), "tags"),
        (lambda owner: owner.bulk("retag", prefix="team", tags={"a": 1}), "tags"),
        (lambda owner: owner.bulk("trigger", prefix="team", payload={1, 2}), "payload"),
        (lambda owner: owner.bulk("trigger", prefix="team", client_token="a b"), "client_token"),
        *(((lambda owner, r=r: owner.bulk("pause", prefix="team", rate=r)), "rate") for r in (0, -1, 1_001, "5", True)),
    ],
)
def test_bad_input_is_refused_before_anything_is_done(call: Callable[[Scheduler], Any], field: str) -> None:
    world, faults = many(), Faults()
    with pytest.raises(InvalidInput) as refused:
        call(world.owner(faults))
    assert refused.value.field == field
    assert faults.calls == []


def test_only_schedules_of_these_names_in_two_calls() -> None:
    harness = Harness(greeting_jobs(), at=NOON)
    for name in ("a", "b", "c", "d"):
        harness.scheduler.create_schedule(name, "greet", "0 * * * *", payload={"to": "x"}, tags={"team": name})
    found = harness.scheduler.bulk("pause", names=["d", "b", "b", "nobody"], dry_run=True)
    assert found.done == ["b", "d"]
    stop = threading.Event()

    def after_one(progress: BulkProgress) -> None:
        if progress.done:
            stop.set()

    first = harness.scheduler.bulk("pause", names=["d", "b"], on_progress=after_one, stop=stop, rate=1)
    assert first.cursor is not None
    rest = harness.scheduler.bulk("pause", names=["b", "d"], cursor=first.cursor)
    assert sorted([*first.done, *rest.done]) == ["b", "d"]
    assert [one.name for one in harness.scheduler.list_schedules(state="PAUSED").items] == ["b", "d"]
    assert harness.scheduler.bulk("pause", names=["a", "b"], tag=("team", "a"), dry_run=True).done == ["a"]


@pytest.mark.parametrize("names", [[], ["a"] * 1_001, "a", ["a b"]])
def test_names_are_a_list_of_fitting_length(names: Any) -> None:
    with pytest.raises(InvalidInput, match="names"):
        Harness(greeting_jobs(), at=NOON).scheduler.bulk("pause", names=names)
