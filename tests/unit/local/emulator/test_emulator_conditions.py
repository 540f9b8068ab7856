"""Conditions that the emulator remembers mean what MiniStack reads in them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.local.emulator.conditions import quicken_conditions

from tests.support.ministack import dynamodb, fresh_dynamodb

NAMES = {"#t": "tenant", "#n": "name"}
VALUES: dict[str, Any] = {":a": {"S": "a"}, ":n": {"S": "n"}, ":z": {"S": "z"}, ":one": {"N": "1"}, ":ten": {"N": "10"}}
KEYS = "KeyConditionExpression"

CLAUSES = st.builds(
    str.format,
    st.sampled_from(["{0} = {1}", "{0} < {1}", "{0} >= {1}", "{0} BETWEEN {1} AND {2}", "begins_with({0}, {1})"]),
    st.sampled_from(["#t", "#n", "tenant", "name", "#n.part"]),
    st.sampled_from([*VALUES, ":none"]),
    st.sampled_from([*VALUES]),
)
CONDITIONS = st.builds(
    lambda clauses, word, form: form.format(f" {word} ".join(clauses)),
    st.lists(CLAUSES, min_size=1, max_size=3),
    st.sampled_from(["AND", "and", "OR"]),
    st.sampled_from(["{}", "({})", "NOT {}"]),
)
PARTS = st.sampled_from([{"S": "a"}, {"S": "n"}, {"S": "nn"}, {"N": "1"}, {"N": "9"}, {"NULL": True}])
ITEMS = st.fixed_dictionaries({}, optional={"tenant": PARTS, "name": PARTS})


def outcome(module: Any, condition: str, item: Any, slot: str) -> Any:
    try:
        return bool(module._evaluate_condition(condition, item, VALUES, NAMES, slot=slot))
    except ValueError as refused:
        return str(refused)


@given(CONDITIONS, st.lists(ITEMS, min_size=2, max_size=5), st.sampled_from([KEYS, "FilterExpression"]))
def test_a_condition_means_what_it_meant(condition: str, items: list[Any], slot: str) -> None:
    quick = fresh_dynamodb(quicken_conditions)
    for item in items:
        assert outcome(quick, condition, item, slot) == outcome(dynamodb, condition, item, slot)


@pytest.mark.parametrize("condition", ["#t = :a", "(#t = :a AND #n BETWEEN :n AND :z)", "#t = :a AND #n > :n"])
def test_the_condition_of_a_query_is_parsed_once_for_all_items(condition: str) -> None:
    parsed = list[str]()

    def evaluate(expression: str, *rest: Any, slot: str) -> Any:
        parsed.append(expression)
        return dynamodb._evaluate_condition(expression, *rest, slot=slot)

    quick = SimpleNamespace(**vars(dynamodb) | {"_evaluate_condition": evaluate})
    quicken_conditions(quick)
    for tenant in ("a", "b", "a"):
        item = {"tenant": {"S": tenant}, "name": {"S": "nn"}}
        assert quick._evaluate_condition(condition, item, VALUES, NAMES, slot=KEYS) is (tenant == "a")
    assert parsed == [condition]


def test_a_text_is_split_once() -> None:
    quick = SimpleNamespace(**vars(dynamodb))
    quicken_conditions(quick)
    assert quick._tokenize("attribute_exists(#t)") is quick._tokenize("attribute_exists(#t)")


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(_evaluate_condition=len)
    quicken_conditions(module)
    assert vars(module) == {"_evaluate_condition": len}
