"""Bulk calls whose caller dies or stops at any point: what had ended is told, and the call that continues repeats nothing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from quarterjack.concurrency.rate_limits import StopSignal
from quarterjack.sdk.schedules.bulk_work import AT_ONCE, BulkProgress
from quarterjack.testing import Crash, Detail, Hook

from tests.support.scenes.world import Faults, Mortal, World

NAMES = [f"team/{number:02d}" for number in range(12)]
Arguments = Mapping[str, Any]


def many(names: list[str] = NAMES) -> World:
    world = World()
    for name in names:
        world.scheduler.create_schedule(name, "note", "0 18 * * *")
    return world


def triggered(world: World) -> Counter[str]:
    """How often the job ran for each schedule."""
    world.live(900)  # also what the dead caller left in the agenda
    return Counter(start.run_id.partition("#")[0].removeprefix("acme/") for start in world.started)


def dies(world: World, hook: Hook | None, hear: Callable[[BulkProgress], None], **arguments: Any) -> str | None:
    """A caller that dies; the cursor of the last progress that it heard."""
    heard = list[str]()

    def on_progress(progress: BulkProgress) -> None:
        heard.append(progress.cursor)
        hear(progress)

    with pytest.raises(Crash):
        world.owner(hook).bulk("trigger", prefix="team/", on_progress=on_progress, **arguments)
    return heard[-1] if heard else None


@pytest.mark.parametrize("point", range(len(NAMES) + 1))
def test_who_dies_while_it_hears_of_progress_triggers_each_once(point: int) -> None:
    world = many()

    def hear(progress: BulkProgress) -> None:
        if progress.done >= point:
            raise Crash

    cursor = dies(world, None, hear)
    rest = world.scheduler.bulk("trigger", prefix="team/", cursor=cursor)
    assert rest.count >= len(NAMES) - point
    assert triggered(world) == dict.fromkeys(NAMES, 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(1, 40, 3))
@pytest.mark.parametrize("arguments", [{}, {"client_token": "t"}], ids=["cursor", "token"])
def test_who_dies_at_any_request_triggers_each_once(arguments: Arguments, call: int, after: bool) -> None:
    world = many()
    cursor = dies(world, Mortal(call, after=after), lambda progress: None, **arguments)
    again: Arguments = {} if "client_token" in arguments else {"cursor": cursor}
    world.scheduler.bulk("trigger", prefix="team/", **arguments, **again)
    assert triggered(world) == dict.fromkeys(NAMES, 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", range(1, 8))
def test_one_trigger_with_a_key_is_one_run_wherever_its_caller_died(call: int, after: bool) -> None:
    world = many(NAMES[:1])
    try:
        world.owner(Mortal(call, after=after)).trigger(NAMES[0], idempotency_key="k")
    except Crash:
        world.scheduler.trigger(NAMES[0], idempotency_key="k")
    assert triggered(world) == {NAMES[0]: 1}


def test_a_trigger_with_a_key_costs_one_request_more() -> None:
    world, plain, keyed = many(NAMES[:1]), Faults(), Faults()
    world.owner(plain).trigger(NAMES[0])
    world.owner(keyed).trigger(NAMES[0], idempotency_key="k")
    assert len(keyed.calls) == len(plain.calls) + 1


# Progress.


class Gate(Hook):
    """Changes of one schedule wait until they are let through."""

    def __init__(self, name: str) -> None:
        self.name, self.open = name, threading.Event()

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if operation == "TransactWriteItems" and detail.items[0] == ("acme", self.name):
            assert self.open.wait(60)
        return ()


def test_progress_comes_with_each_end_and_the_cursor_stays_before_what_has_not_ended() -> None:
    world, gate, told = many(), Gate(NAMES[2]), list[BulkProgress]()

    def hear(progress: BulkProgress) -> None:
        told.append(progress)
        if progress.done == len(NAMES) - 1:  # all others
            gate.open.set()

    world.owner(gate).bulk("pause", prefix="team/", on_progress=hear)
    assert [progress.done for progress in told] == list(range(len(NAMES) + 1))
    reached = [progress.cursor.partition("~")[0] for progress in told]
    assert (reached[0], reached[-2], reached[-1]) == ("", NAMES[1], NAMES[-1])


class OneNow:
    """A rate at which the second start is ten minutes after the first."""

    def __init__(self, rate: float, clock: object, stop: StopSignal) -> None:
        self._stop, self._first = stop, True

    def go_on(self, *, wait: bool) -> bool:
        first, self._first = self._first, False
        return first or not self._stop.wait(600)


def test_an_end_is_told_while_the_next_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.sdk.schedules.bulk.TokenBucket", OneNow)
    world, stop = many(), threading.Event()

    def hear(progress: BulkProgress) -> None:
        if progress.done:
            stop.set()

    done = world.scheduler.bulk("pause", prefix="team/", on_progress=hear, stop=stop)
    assert done.done == NAMES[:1]


# Stop.


@pytest.mark.parametrize("after", range(5))
def test_nothing_begins_after_stop_and_what_had_begun_is_counted(after: int) -> None:
    world, stop, faults = many(), threading.Event(), Faults()
    begun = list[int]()

    def hear(progress: BulkProgress) -> None:
        if progress.done == after:
            stop.set()
            begun.append(AT_ONCE - 1 + after if after else 0)

    part = world.owner(faults).bulk("pause", prefix="team/", on_progress=hear, stop=stop)
    changed = [head.name for head in world.memory.heads() if head.version == 2]
    assert part.done == changed == NAMES[: part.count]
    assert part.count <= begun[0]
    rest = world.scheduler.bulk("pause", prefix="team/", cursor=part.cursor)
    assert [*part.done, *rest.done] == NAMES
