"""Client tokens and expected revisions of what is no transaction: skip, trigger, backfill."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from quarterjack import RunState, Scheduler
from quarterjack.errors import AlreadyExists, Conflict, QuarterjackError
from quarterjack.testing import Crash

from tests.support.scenes.world import OWNER, Faults, World, at, crash

Call = Callable[[Scheduler], Any]
SKIP: Call = lambda owner: owner.skip_next("s", client_token="t")  # noqa: E731 (a table of calls)
FILL: Call = lambda owner: owner.backfill("s", at(0), at(300), current=True, client_token="t", dry_run=False)  # noqa: E731


def world(expression: str = "* * * * *") -> World:
    """A schedule that has fired for five minutes."""
    made = World()
    made.scheduler.create_schedule("s", "note", expression)
    made.live(301)
    return made


def skipped(made: World) -> list[int]:
    return [second for second, state in made.states() if state is RunState.SKIPPED]


def test_a_repeated_skip_skips_one_fire_also_when_that_is_long_past() -> None:
    made = world()
    first = SKIP(made.scheduler)
    assert SKIP(made.scheduler) == first
    made.live(600)
    made.scheduler.pause_schedule("s")
    assert SKIP(made.scheduler) == first
    assert skipped(made) == [360]
    made.scheduler.resume_schedule("s")
    made.live(86_400)
    assert SKIP(made.scheduler).due > first.due, "after a day it is forgotten"


def test_a_repeated_backfill_is_the_first() -> None:
    made = world()
    first = FILL(made.scheduler)
    assert FILL(made.scheduler).id == first.id
    made.live(60)
    assert FILL(made.scheduler).state == "DONE"
    assert [one.id for one in made.scheduler.list_backfills("s")] == [first.id]


def test_a_token_stands_for_one_call() -> None:
    made = world()
    SKIP(made.scheduler)
    for other in (FILL, lambda owner: owner.pause_schedule("s", client_token="t")):
        with pytest.raises(AlreadyExists, match="was used for skip_next"):
            other(made.scheduler)
    made.scheduler.pause_schedule("s", client_token="p")
    with pytest.raises(AlreadyExists, match="was used for pause_schedule"):
        made.scheduler.skip_next("s", client_token="p")


def test_a_dry_run_uses_no_token_up() -> None:
    made = world()
    planned = made.scheduler.backfill("s", at(0), at(300), current=True, client_token="t")
    assert planned.id is None
    assert FILL(made.scheduler).id is not None


@pytest.mark.parametrize("call", [SKIP, FILL], ids=["skip", "backfill"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_repeated_after_the_first_died_at_any_call_acts_once(call: Call, when: str) -> None:
    faults = Faults()
    call(world().owner(faults))
    for number in range(len(faults.calls)):
        made, dying = world(), Faults()
        dying.at(faults.calls[number][1].verb, **{when: crash}, skip=_earlier(faults, number))
        with suppress(Crash, QuarterjackError):
            call(made.owner(dying))
        call(made.scheduler)
        call(made.scheduler)
        made.live(120)
        if call is SKIP:
            assert skipped(made) == [360], (number, when)
        else:
            (one,) = made.scheduler.list_backfills("s")
            assert (one.state, one.done + one.skipped) == ("DONE", 5), (number, when)


def _earlier(faults: Faults, number: int) -> int:
    """Calls of the same verb before that one."""
    verbs = faults.verbs()
    return verbs[:number].count(verbs[number])


@pytest.mark.parametrize("call", [SKIP, FILL], ids=["skip", "backfill"])
@pytest.mark.parametrize("verb", ["write_record", "record"])
def test_two_with_one_token_at_once_are_one(call: Call, verb: str) -> None:
    made = world()
    faults = Faults().at(verb, before=lambda: call(made.scheduler))
    with suppress(Conflict):  # "is there already; try again"
        call(made.owner(faults))
    call(made.scheduler)
    made.live(120)
    if call is SKIP:
        assert skipped(made) == [360]
    else:
        assert len(made.scheduler.list_backfills("s")) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda owner: owner.skip_next("s", expected_revision=1),
        lambda owner: owner.trigger("s", expected_revision=1),
        lambda owner: owner.backfill("s", at(0), at(300), current=True, dry_run=False, expected_revision=1),
    ],
    ids=["skip", "trigger", "backfill"],
)
def test_who_saw_another_revision_is_told_both_and_nothing_is_written(call: Call) -> None:
    made = world()
    made.scheduler.update_schedule("s", payload=1)
    before = made.states(), made.memory.entries()
    with pytest.raises(Conflict, match="you saw revision 1, but revision 2 is current"):
        call(made.scheduler)
    assert (made.states(OWNER), made.memory.entries()) == before
    assert list(made.scheduler.list_backfills("s")) == []
