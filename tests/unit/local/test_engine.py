"""The cure of the emulator's queries: every key condition means what it meant."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.local.engine import parse_once

ITEMS = [{"tenant": {"S": tenant}, "name": {"S": name}} for tenant in ("a", "b") for name in ("m", "n", "nn")]
NAMES = {"#t": "tenant", "#n": "name"}
VALUES = {":a": {"S": "a"}, ":n": {"S": "n"}, ":z": {"S": "z"}, ":number": {"N": "1"}}


def cured() -> tuple[Any, list[str]]:
    """MiniStack's functions with the cure, and what they still parse."""
    dynamodb, parsed = import_module("ministack.services.dynamodb"), list[str]()

    def evaluate(expression: str, *rest: Any, slot: str) -> Any:
        parsed.append(expression)
        return dynamodb._evaluate_condition(expression, *rest, slot=slot)

    module = SimpleNamespace(
        _evaluate_condition=evaluate, _tokenize=dynamodb._tokenize, _ExprEval=dynamodb._ExprEval, original=dynamodb
    )
    parse_once(module)
    return module, parsed


@pytest.mark.parametrize(
    "condition",
    [
        "#t = :a",
        "tenant = :a",
        "#t = :number",
        "#t = :a AND begins_with(#n, :n)",
        "#t = :a AND #n BETWEEN :n AND :z",
        "#t = :a AND #n > :n",
    ],
)
def test_a_condition_means_what_it_meant(condition: str) -> None:
    module, parsed = cured()
    for _ in range(2):
        for item in ITEMS:
            args = (condition, item, VALUES, NAMES)
            expected = module.original._evaluate_condition(*args, slot="KeyConditionExpression")
            assert module._evaluate_condition(*args, slot="KeyConditionExpression") == expected
    assert parsed == [condition], "once"


def test_filters_and_conditions_of_writes_are_left_alone() -> None:
    module, parsed = cured()
    for _ in range(2):
        assert module._evaluate_condition("#t = :a", ITEMS[0], VALUES, NAMES, slot="FilterExpression")
    assert len(parsed) == 2


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(_evaluate_condition=len)
    parse_once(module)
    assert module._evaluate_condition is len
