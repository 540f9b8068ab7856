"""Redriving: dead runs again, each once, at a pace, as far as one likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Redriven, Run, RunState
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import DAY
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, NotFound, Unavailable
from quarterjack.owner.runs.redrive import replay_ref
from quarterjack.stores.tables import RUNS
from quarterjack.testing import Crash, Hook
from quarterjack.testing.process import bury_all

from tests.support.scenes.dead_runs import (
    a_world,
    crash_everywhere,
    die_before_settling,
    die_of_failure,
    healed,
    listed,
)
from tests.support.scenes.world import START, Faults, World, crash, fails

EVERYTHING: dict[str, Any] = {"since": START}


class Waiter:
    """Time passes where the call waits; told to stop after so many waits."""

    def __init__(self, world: World, *, stops_after: int | None = None) -> None:
        self._world, self.left, self.waits = world, stops_after, list[float]()

    def wait(self, timeout: float) -> bool:
        if self.left is not None and len(self.waits) >= self.left:
            return True
        self.waits.append(round(timeout, 6))
        self._world.clock.advance(timedelta(seconds=timeout))
        return False


@pytest.fixture
def world() -> World:
    return a_world()


def fail(world: World, count: int = 1) -> list[str]:
    """So many one-offs fail for good, a second apart, with payloads 0, 1, 2 …; their ids."""
    ids = []
    for number in range(count):
        ids.append(world.scheduler.submit("hopeless", number).id)
        world.work()
        bury_all(world.services, world.clock)
        world.wait(1)
    return ids


def redrive(world: World, *, hook: Hook | None = None, **arguments: Any) -> Redriven:
    return world.owner(hook).redrive(**({"stop": Waiter(world)} | arguments))


def replays(world: World) -> list[Run]:
    """All replays, oldest first."""
    runs = (world.scheduler.get_run(str(run.ref)) for run in world.memory.runs())
    return [run for run in runs if run.replay_of is not None]


# One.


def test_one_run(world: World) -> None:
    (dead,) = fail(world)
    done = redrive(world, run_id=dead)
    (run,) = replays(world)
    assert (done.count, done.dry_run, done.failed, done.cursor) == (1, False, {}, None)
    assert [(one.id, one.redriven_as) for one in done.runs] == [(dead, run.id)]
    world.work(world.worker(jobs=healed(world)))
    assert world.scheduler.get_run(run.id).state is RunState.SUCCEEDED


def test_it_leaves_the_list(world: World) -> None:
    (dead,) = fail(world)
    again = redrive(world, run_id=dead).runs[0].redriven_as
    assert listed(world) == []
    assert [(one.id, one.redriven_as) for one in listed(world, include_redriven=True)] == [(dead, again)]


def test_one_run_with_another_payload(world: World) -> None:
    (dead,) = fail(world)
    redrive(world, run_id=dead, payload={"fixed": True})
    assert replays(world)[0].payload == {"fixed": True}


def test_twice_is_once(world: World) -> None:
    (dead,) = fail(world)
    first, second = redrive(world, run_id=dead), redrive(world, run_id=dead)
    assert first.runs[0].redriven_as == second.runs[0].redriven_as
    world.live(60, worker=world.worker(jobs=healed(world)))
    assert redrive(world, run_id=dead).runs[0].redriven_as == first.runs[0].redriven_as
    assert len(replays(world)) == 1
    assert len(world.started) == 1


def test_twice_with_another_payload_is_refused(world: World) -> None:
    (dead,) = fail(world)
    redrive(world, run_id=dead)
    with pytest.raises(
        AlreadyExists, match=r"redriven already, with another payload, as .*; replay_run\(\) repeats it"
    ):
        redrive(world, run_id=dead, payload=7)


def test_a_replay_that_dies_is_dead_by_itself(world: World) -> None:
    (dead,) = fail(world)
    redrive(world, run_id=dead)
    world.live(1)
    (again,) = listed(world)
    assert again.id != dead
    redrive(world, run_id=again.id)
    assert [run.replay_of for run in replays(world)] == [dead, again.id]


def test_a_dead_run_that_the_undertaker_has_not_seen_yet_can_be_redriven(world: World) -> None:
    run = die_of_failure(world)
    redrive(world, run_id=run.id)
    bury_all(world.services, world.clock)  # only now the run is on the list
    assert redrive(world, **EVERYTHING).count == 1
    assert len(replays(world)) == 1
    assert listed(world) == []


def test_what_is_not_dead_is_refused(world: World) -> None:
    alive = world.scheduler.submit("note")
    with pytest.raises(
        Conflict, match=r"it is QUEUED, not DEAD, LOST or EXPIRED; replay_run\(\) repeats any run that has ended"
    ):
        redrive(world, run_id=alive.id)
    with pytest.raises(Conflict, match="it is RUNNING"):
        redrive(world, run_id=die_before_settling(world).id)
    with pytest.raises(NotFound):
        redrive(world, run_id="acme/~nobody#once")
    with pytest.raises(NotFound, match="tenant 'acme' has no such run"):
        redrive(world, run_id="other/~k#once")


# Many.


def test_all_that_a_filter_finds(world: World) -> None:
    ids = fail(world, 3)
    world.scheduler.submit("bad")
    world.live(120)
    assert redrive(world, job="hopeless").count == 3
    assert sorted(str(run.replay_of) for run in replays(world)) == sorted(ids)
    assert {run.payload for run in replays(world)} == {0, 1, 2}
    assert [dead.job for dead in listed(world)] == ["bad"]


def test_fires_of_a_schedule_are_redriven_with_what_it_said_then(world: World) -> None:
    world.scheduler.create_schedule("s", "hopeless", "* * * * *", payload={"v": 1})
    world.live(180)
    world.scheduler.update_schedule("s", payload={"v": 2}, expression="0 0 1 1 *")
    assert redrive(world, schedule="s").count == 3
    assert [run.payload for run in replays(world)] == [{"v": 1}] * 3


def test_a_filter_twice_is_once(world: World) -> None:
    fail(world, 3)
    assert redrive(world, **EVERYTHING).count == 3
    assert redrive(world, **EVERYTHING).count == 0
    assert len(replays(world)) == 3


def test_a_dry_run_writes_nothing(world: World) -> None:
    ids, seen = fail(world, 3), Faults()
    done = redrive(world, hook=seen, dry_run=True, payload={"text": "x" * 70_000}, **EVERYTHING)
    assert ([dead.id for dead in done.runs], done.dry_run) == (ids[::-1], True)
    assert [dead.redriven_as for dead in done.runs] == [None] * 3
    assert {operation for operation, _ in seen.calls} <= {"Query", "GetItem", "BatchGetItem"}
    assert redrive(world, hook=seen, dry_run=True, run_id=ids[0]).count == 1
    assert {operation for operation, _ in seen.calls} <= {"Query", "GetItem", "BatchGetItem"}
    assert len(listed(world)) == 3


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_repeated_stops_no_other(world: World, dry_run: bool) -> None:
    ids = fail(world, 3)
    gone = parse_run_id(ids[1])
    world.memory._tables[RUNS].delete(*gone)
    done = redrive(world, dry_run=dry_run, **EVERYTHING)
    assert [dead.id for dead in done.runs] == [ids[2], ids[0]]
    assert list(done.failed) == [ids[1]]
    assert "its retention is over" in done.failed[ids[1]]


def test_one_that_was_redriven_otherwise_stops_no_other_and_leaves_the_list(world: World) -> None:
    ids = fail(world, 2)
    with pytest.raises(Crash):
        redrive(world, run_id=ids[0], payload=7, hook=Faults().at("mark_redriven", before=crash))
    done = redrive(world, **EVERYTHING)
    assert [dead.id for dead in done.runs] == [ids[1]]
    assert "with another payload" in done.failed[ids[0]]
    assert listed(world) == []


# Pace, limits, stopping.


def test_the_rate_is_kept(world: World) -> None:
    fail(world, 21)
    waiter, started = Waiter(world), world.clock()
    redrive(world, rate=4, stop=waiter, **EVERYTHING)
    assert waiter.waits == [0.25] * 20
    assert world.clock() - started == 5_000


def test_what_was_slow_is_not_caught_up_with(world: World) -> None:
    fail(world, 5)
    slow = Faults().at("submit", before=lambda: world.wait(1), times=2)
    waiter = Waiter(world)
    redrive(world, rate=4, stop=waiter, hook=slow, **EVERYTHING)
    assert waiter.waits == [0, 0, 0.25, 0.25]


def test_an_event_stops_it_and_the_next_call_goes_on(world: World) -> None:
    ids = fail(world, 5)
    first = redrive(world, stop=Waiter(world, stops_after=1), **EVERYTHING)
    assert [dead.id for dead in first.runs] == [ids[4], ids[3]]
    assert first.cursor is not None
    second = redrive(world, **EVERYTHING)
    assert ([dead.id for dead in second.runs], second.cursor) == (ids[2::-1], None)


def test_an_event_that_is_set_lets_one_pass(world: World) -> None:
    """So whoever calls again and again comes to an end."""
    fail(world, 2)
    stop = threading.Event()
    stop.set()
    assert world.scheduler.redrive(stop=stop, **EVERYTHING).count == 1
    assert world.scheduler.redrive(stop=stop, **EVERYTHING).cursor is None
    assert len(replays(world)) == 2


def test_a_limit_and_a_cursor_pass_over_what_cannot_be_repeated(world: World) -> None:
    ids = fail(world, 5)
    for run_id in ids[3:]:
        world.memory._tables[RUNS].delete(*parse_run_id(run_id))
    first = redrive(world, limit=2, **EVERYTHING)
    assert (first.count, list(first.failed)) == (0, [ids[4], ids[3]])
    second = redrive(world, limit=2, cursor=first.cursor, **EVERYTHING)
    assert [dead.id for dead in second.runs] == [ids[2], ids[1]]
    third = redrive(world, limit=2, cursor=second.cursor, **EVERYTHING)
    assert ([dead.id for dead in third.runs], third.cursor) == ([ids[0]], None)


def test_a_replay_that_dies_at_once_is_not_redriven_by_the_same_call(world: World) -> None:
    fail(world, 3)

    class Busy(Waiter):
        def wait(self, timeout: float) -> bool:
            super().wait(timeout)
            world.work()
            bury_all(world.services, world.clock)
            return False

    assert redrive(world, stop=Busy(world), **EVERYTHING).count == 3
    assert len(listed(world)) == 2  # the replays that have died meanwhile


# Crashes and failures.


def test_a_crash_at_any_call_leaves_each_run_one_replay() -> None:
    def act(hook: Hook, survived: Callable[[], None]) -> None:
        world = a_world()
        fail(world, 2)
        try:
            redrive(world, hook=hook, rate=1, **EVERYTHING)
            survived()
        except Crash:
            redrive(world, rate=1, **EVERYTHING)
        world.live(120, worker=world.worker(jobs=healed(world)))
        assert {run.state for run in replays(world)} == {RunState.SUCCEEDED}
        assert len(replays(world)) == len(world.started) == 2
        assert listed(world) == []

    assert crash_everywhere(act) > 20


@pytest.mark.parametrize("verb", ["read_dead", "read", "submit", "mark_redriven"])
def test_a_failure_is_said_and_the_next_call_goes_on(world: World, verb: str) -> None:
    fail(world, 3)
    hook = Faults().at(verb, before=fails, times=2, skip=0 if verb == "read_dead" else 1)
    with pytest.raises(Unavailable):
        redrive(world, hook=hook, **EVERYTHING)
    redrive(world, **EVERYTHING)
    assert len(replays(world)) == 3
    assert listed(world) == []


def test_a_failure_tells_how_far_it_came(world: World) -> None:
    fail(world, 3)
    hook = Faults().at("submit", before=fails, times=None, skip=2)
    with pytest.raises(Unavailable, match="2 runs are redriven; call again to go on: injected"):
        redrive(world, hook=hook, **EVERYTHING)


def test_two_at_once_make_one_replay_of_each(world: World) -> None:
    fail(world, 3)
    hook = Faults().at("submit", before=lambda: (redrive(world, **EVERYTHING), None)[1])
    redrive(world, hook=hook, **EVERYTHING)
    assert len(replays(world)) == 3


def test_purged_meanwhile_it_is_still_repeated(world: World) -> None:
    (dead,) = fail(world)
    hook = Faults().at("mark_redriven", before=lambda: (world.scheduler.purge(job="hopeless"), None)[1])
    assert redrive(world, hook=hook, **EVERYTHING).runs[0].id == dead
    assert len(replays(world)) == 1
    assert listed(world, include_redriven=True) == []


def test_the_replay_outlives_the_line_that_leads_to_it(world: World) -> None:
    """Otherwise the same line could make a second replay once the first has left the ledger."""
    (dead,) = fail(world)
    redrive(world, run_id=dead)
    world.live(1, worker=world.worker(jobs=healed(world)))
    original = world.memory.row(parse_run_id(dead)) or {}
    again = world.memory.row(parse_run_id(replays(world)[0].id)) or {}
    (line,) = [row for owner, _, row in world.memory._tables[RUNS] if "#dead#" in owner]
    assert line["ttl"] == original["ttl"] <= again["ttl"]
    world.clock.advance(timedelta(milliseconds=world.retention + DAY))
    world.memory.expire()
    assert listed(world, since=START) == []


def test_another_death_of_the_same_run_would_have_another_replay(world: World) -> None:
    (dead,) = fail(world)
    run = world.services.ledger.read(parse_run_id(dead))
    assert run is not None
    assert replay_ref(run) == replay_ref(run)
    assert replay_ref(run).owner.startswith("acme/~redrive-")


WRITES = ("UpdateItem", "PutItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "BatchExecuteStatement")


def test_what_one_costs(world: World) -> None:
    """Beside its execution: four writes and a message; and once a day a process names its tenant in the audit."""
    world.scheduler.create_schedule("s", "hopeless", "* * * * *")
    world.live(60)
    seen = Faults()
    redrive(world, hook=seen, **EVERYTHING)
    written = [detail.verb for operation, detail in seen.calls if operation in WRITES]
    assert written == ["register", "put", "submit", "remove", "mark_redriven"]
    read = [detail.verb for operation, detail in seen.calls if operation in ("GetItem", "BatchGetItem")]
    assert read == ["read", "revisions", "head", "layout"]  # the last once a process


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "since=None: is missing, and so is every other condition; say which runs: since, job, schedule"),
        ({"run_id": "acme/~k#once", "job": "x"}, "run_id=.*was given together with a filter; give one of the two"),
        ({"run_id": "x"}, "run_id='x': is not the id of a run"),
        ({"job": "a b"}, "job='a b'"),
        ({"job": "x", "rate": 0}, "rate=0: is not a number of runs a second; use a number up to 1,000"),
        ({"job": "x", "rate": 1001}, "rate=1001"),
        ({"job": "x", "rate": float("nan")}, "rate=nan"),
        ({"job": "x", "rate": True}, "rate=True"),
        ({"job": "x", "rate": "fast"}, "rate='fast'"),
        ({"job": "x", "limit": 0}, "limit=0"),
        ({"job": "x", "cursor": "?"}, "cursor="),
        ({"job": "x", "payload": {1}}, "payload=.*is not JSON"),
        ({"job": "x", "payload": {1}, "dry_run": True}, "payload=.*is not JSON"),
        ({"job": "x", "since": START.replace(tzinfo=None)}, "since=.*has no time zone"),
    ],
)
def test_bad_arguments_are_refused_by_name(world: World, arguments: dict[str, Any], message: str) -> None:
    fail(world)
    with pytest.raises(InvalidInput, match=message):
        world.scheduler.redrive(**arguments)
    assert replays(world) == []


def test_its_progress_is_told_after_each(world: World) -> None:
    fail(world, 3)
    told = list[int]()
    redrive(world, **EVERYTHING, on_progress=told.append)
    assert told == [1, 2, 3]
