"""Errors of the SDK name the parameter of the call that was made, and show what was passed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, get_type_hints

import pytest
from quarterjack import Scheduler
from quarterjack.domain.options import OptionWords
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.requests import ScheduleWords

from tests.support.arguments import untyped
from tests.support.hostile.pools import Mute
from tests.support.scenes.world import START, World

HOUR = timedelta(hours=1)
WORDS = (*get_type_hints(ScheduleWords), *get_type_hints(OptionWords))
# Arguments of a call that succeeds.
CALLS: Mapping[str, Mapping[str, Any]] = {
    "create_schedule": {"name": "n", "job": "note", "expression": "* * * * *"},
    "upsert_schedule": {"name": "s", "job": "note", "expression": "* * * * *"},
    "update_schedule": {"name": "s"},
    "pause_schedule": {"name": "s"},
    "resume_schedule": {"name": "s"},
    "delete_schedule": {"name": "s"},
    "skip_next": {"name": "s"},
    "get_schedule": {"name": "s"},
    "describe_schedule": {"name": "s"},
    "preview": {"name": "s"},
    "list_schedules": {},
    "forecast": {},
    "trigger": {"name": "s"},
    "bulk": {"action": "pause", "prefix": "s"},
    "backfill": {"name": "s", "start": START - HOUR, "end": START, "dry_run": False},
    "get_backfill": {"name": "s", "id": "x"},
    "list_backfills": {"name": "s"},
    "pause_backfill": {"name": "s", "id": "x"},
    "resume_backfill": {"name": "s", "id": "x"},
    "cancel_backfill": {"name": "s", "id": "x"},
    "backfill_runs": {"name": "s", "id": "x"},
    "submit": {"job": "note"},
    "get_run": {"run_id": "acme/~a#once"},
    "run_logs": {"run_id": "acme/~a#once"},
    "wait_for": {"run_id": "acme/~a#once"},
    "cancel_run": {"run_id": "acme/~a#once"},
    "cancel_runs": {"name": "s", "between": (START, START)},
    "retry_run": {"run_id": "acme/~a#once"},
    "list_runs": {"name": "s"},
    "list_dead": {},
    "replay_run": {"run_id": "acme/~a#once"},
    "redrive": {"job": "note"},
    "purge": {"job": "note"},
    "freeze": {"until": START + HOUR},
}
# What is called, or only asked whether it is true.
UNCHECKED = {"on_progress", "stop"}


def parameters(call: str) -> list[str]:
    found = inspect.signature(getattr(Scheduler, call)).parameters
    own = [name for name, one in found.items() if name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD]
    return [*own, *(WORDS if len(own) + 1 < len(found) else ())]


BAD: list[Any] = ["a, b", Mute(), [], -1, (Mute(), Mute())]
# Looked at after what the call is about was found, which is not there.
BEHIND_A_READ = {
    ("run_logs", "limit"),
    ("run_logs", "cursor"),
    ("backfill_runs", "limit"),
    ("backfill_runs", "cursor"),
    ("replay_run", "payload"),
}
CASES = [(call, name) for call in CALLS for name in parameters(call) if name not in UNCHECKED]


@pytest.mark.parametrize(("call", "name"), CASES)
def test_an_error_names_the_parameter(call: str, name: str) -> None:
    refused = 0
    for value in BAD:
        world = World()
        world.scheduler.create_schedule("s", "note", "* * * * *")
        found = problem_of(world, call, {**CALLS[call], name: value})
        if isinstance(found, InvalidInput):
            refused += 1
            assert found.field.partition("[")[0] == name, str(found)
            assert not isinstance(value, str | int) or found.value == value or name == "tags", "it is shown"
        elif found is not None:
            assert str(found).partition("=")[0] in CALLS[call], "of the rest of the call"
    assert refused or (call, name) in BEHIND_A_READ, "something of these is wrong for every parameter"


def problem_of(world: World, call: str, arguments: Mapping[str, Any]) -> QuarterjackError | None:
    try:
        getattr(world.scheduler, call)(**arguments)
    except QuarterjackError as problem:
        return problem
    return None


@pytest.mark.parametrize("value", ["job:", "job:a b", "", "arn:aws:sqs:eu-west-1:1:x"])
@pytest.mark.parametrize("field", ["on_failure", "on_recovery"])
def test_a_place_for_notices_is_shown_as_it_was_passed(field: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{field}={value!r}: is no place for a notice; use the ARN"):
        untyped(World().scheduler).create_schedule("s", "note", "* * * * *", **{field: value})


@pytest.mark.parametrize("place", [0, 1])
def test_the_end_of_a_span_is_named(place: int) -> None:
    span: Any = [START, START]
    span[place] = "now"
    with pytest.raises(InvalidInput, match=rf"^between\[{place}\]='now': is not a datetime"):
        World().scheduler.cancel_runs("s", between=tuple(span))
