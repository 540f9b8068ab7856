"""Limits of 0 and below, with which nothing would run, are refused wherever one enters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from quarterjack import Registry, schedule
from quarterjack.apply.document import read
from quarterjack.errors import InvalidInput
from quarterjack.ready_jobs.command import Command, command_job
from quarterjack.ready_jobs.http.job import http_job
from quarterjack.ready_jobs.targets import target_job

from tests.support.arguments import untyped
from tests.support.scenes.world import World

ARN = "arn:aws:lambda:eu-west-1:123456789012:function:f"
Call = Callable[[World, str, Any], object]


def in_file(world: World, field: str, value: object) -> object:
    return read(f"schedules:\n  s: {{job: note, expression: '* * * * *', {field}: {value}}}", "f.yaml")


def in_code(world: World, field: str, value: object) -> object:
    made = untyped(schedule)("* * * * *", registry=Registry(), **{field: value})
    return made(world.note)


CALLS: dict[str, Call] = {
    "job": lambda world, field, value: Registry().job("j", **{field: value}),
    "create": lambda world, field, value: untyped(world.scheduler).create_schedule(
        "s", "note", "* * * * *", **{field: value}
    ),
    "upsert": lambda world, field, value: untyped(world.scheduler).upsert_schedule(
        "s", "note", "* * * * *", **{field: value}
    ),
    "update": lambda world, field, value: untyped(world.scheduler).update_schedule("s", **{field: value}),
    "submit": lambda world, field, value: untyped(world.scheduler).submit("note", **{field: value}),
    "code": in_code,
    "file": in_file,
    "http": lambda world, field, value: http_job("h", url="https://example.com", registry=Registry(), **{field: value}),
    "command": lambda world, field, value: command_job("c", registry=Registry(), **{field: value}),
    "target": lambda world, field, value: target_job("t", ARN, registry=Registry(), **{field: value}),
}


@pytest.mark.parametrize("value", [0, 0.0, -1, -0.001, 0.0001])
@pytest.mark.parametrize("field", ["timeout", "deadline"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_time_limit_in_which_nothing_runs_is_refused(call: Call, field: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=rf"{field}={value}: .*; use .*0\.\d+ to ") as refused:
        call(World(), field, value)
    assert refused.value.field.endswith(field)


@pytest.mark.parametrize("value", [0, -1, None, True, "5", float("nan")])
def test_nobody_waits_for_no_time(value: Any) -> None:
    world = World()
    run = untyped(world.scheduler).submit("note")
    with pytest.raises(InvalidInput, match=r"^timeout=.*; use 0\.001 to "):
        untyped(world.scheduler).wait_for(run.id, timeout=value)


def test_a_commands_own_timeout() -> None:
    with pytest.raises(InvalidInput, match=r"^payload\.timeout=0: .*; use 0\.001 to "):
        Command.of({"command": "true", "timeout": 0})


def test_waits_of_no_time_are_waits() -> None:
    """Zero is a number of seconds where it is a wait, and nothing is kept from running by it."""
    world = World()
    untyped(world.scheduler).submit("note", delay=0)
    Registry().job("j", cancel_grace=0)
    untyped(world.scheduler).create_schedule("s", "note", "* * * * *", catch_up_window=0)
