"""The SDK's door: whatever is passed, a call does its work or raises one of our errors, soon; and refused it has written nothing."""

from __future__ import annotations

import inspect
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from quarterjack import Scheduler
from quarterjack.errors import InvalidInput, QuarterjackError, Unavailable
from quarterjack.sdk.requests import ScheduleWords

from tests.support.counted import calls_of
from tests.support.hostile.pools import HOSTILE, fine
from tests.support.hostile.snapshot import differences, snapshot
from tests.support.parts import in_turn
from tests.support.scenes.world import START, World

MOST_CALLS = 1_000_000  # of functions, for one call of the SDK: none of them spins; a usual one takes 3,000 at the most
OBJECTS = {"on_progress", "on_change", "stop"}  # code and events of the caller's own
COMPARED = {"carry_out", "compare_declared"}  # their arguments are this package's own objects: see test_apply
CALLS = 8  # one after the other on the same installation
METHODS = sorted(
    name
    for name, method in inspect.getmembers(Scheduler, inspect.isfunction)
    if not name.startswith("_") and name not in COMPARED
)


def parameters(method: str) -> dict[str, bool]:
    """The parameters of a method by name, and whether it needs them."""
    found: dict[str, bool] = {}
    for name, parameter in inspect.signature(getattr(Scheduler, method)).parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found |= dict.fromkeys(ScheduleWords.__annotations__, False)
        elif name != "self" and name not in OBJECTS:
            found[name] = parameter.default is inspect.Parameter.empty
    return found


class Installed:
    """A tenant with a bit of everything: schedules, runs that wait, ended and died, a backfill."""

    def __init__(self) -> None:
        self.world = World()
        owner = self.world.scheduler
        owner.create_schedule("s", "note", "* * * * *", tags={"team": "a"})
        owner.create_schedule("rests", "bad", "0 18 * * *")
        owner.pause_schedule("rests")
        self.runs = [owner.submit("note").id, owner.submit("bad").id, owner.submit("note", delay=3_600).id]
        self.world.live(180)
        self.world.reach(self.world.clock() + 1)
        begin = START + timedelta(seconds=1)
        made = owner.backfill("s", begin, begin + timedelta(minutes=1), dry_run=False, current=True)
        self.ids = [str(made.id), "none"]

    def value(self, data: st.DataObject, method: str, name: str) -> Any:
        known = {"run_id": self.runs, "id": self.ids}.get(name)
        return data.draw(fine(method, name) if known is None else st.sampled_from(known), label=name)


def arguments(data: st.DataObject, method: str, there: Installed) -> dict[str, Any]:
    known = parameters(method)
    odd = data.draw(st.sets(st.sampled_from(sorted(known)), max_size=2)) if known else set()
    given = {name for name, needed in known.items() if needed} | odd
    given |= data.draw(st.sets(st.sampled_from(sorted(known)), max_size=3)) if known else set()
    return {
        name: data.draw(HOSTILE, label=name).value if name in odd else there.value(data, method, name)
        for name in sorted(given)
    }


def check(method: str, data: st.DataObject) -> None:
    there = Installed()
    for _ in range(CALLS):
        said = arguments(data, method, there)
        if method == "wait_for":
            said = {"timeout": 0.001} | said
            if said["run_id"] == there.runs[-1] and said["timeout"] != 0.001:
                said["run_id"] = there.runs[0]  # it has ended: who asks to wait long for one that has not, does
        assert calls_of(partial(ask, there, method, said)) < MOST_CALLS


def ask(there: Installed, method: str, said: dict[str, Any]) -> None:
    before = snapshot(there.world.memory)
    try:
        getattr(there.world.scheduler, method)(**said)
    except QuarterjackError as problem:
        check_refusal(problem, differences(before, snapshot(there.world.memory)))


def check_refusal(problem: QuarterjackError, changed: list[str]) -> None:
    assert type(problem) is not QuarterjackError, "an error has a kind"
    assert not isinstance(problem, Unavailable), "nothing failed"
    assert not isinstance(problem, InvalidInput) or (problem.field and problem.remedy), "it says what to do"
    assert len(str(problem)) < 1_500, "a value is shown in short"
    assert changed == [], f"{problem!r} left something behind"


BRIEF = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=(Phase.generate,),
)
LONG = settings(
    max_examples=100, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
)


@in_turn("method", METHODS, METHODS, of=6)
@BRIEF
@given(data=st.data())
def test_a_call_does_its_work_or_is_refused_without_a_trace(method: str, data: st.DataObject) -> None:
    check(method, data)


@pytest.mark.proof
@pytest.mark.parametrize("method", METHODS)
@LONG
@given(data=st.data())
def test_many_more_calls(method: str, data: st.DataObject) -> None:
    check(method, data)
