"""Clauses: conditions as data, evaluated as DynamoDB evaluates them."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.state.transition import OPERATORS, Absent, Compare, Condition, OneOf, Row, all_of, any_of, holds

ROW: Row = {"n": 5, "s": "b", "yes": True}
LOWER, EQUAL, HIGHER = Compare("n", "<", 5), Compare("n", "=", 5), Compare("n", ">=", 6)


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("value", [4, 5, 6])
def test_comparisons_are_what_they_say(symbol: str, value: int) -> None:
    meaning = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">=": operator.ge}[symbol]
    assert holds(Compare("n", symbol, value), ROW) == meaning(5, value)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_a_comparison_with_what_is_not_there_is_false_even_unequal(symbol: str) -> None:
    assert not holds(Compare("missing", symbol, 5), ROW)


@pytest.mark.parametrize(
    ("clause", "result"),
    [
        (OneOf("s", ("a", "b")), True),
        (OneOf("s", ("a", "c")), False),
        (OneOf("missing", ("a", "b")), False),
        (Absent("missing"), True),
        (Absent("n"), False),
        (Compare("yes", "=", True), True),
        (all_of(EQUAL, Absent("missing")), True),
        (all_of(EQUAL, LOWER), False),
        (any_of(LOWER, EQUAL), True),
        (any_of(LOWER, HIGHER), False),
        (all_of(), True),
        (any_of(), False),
    ],
)
def test_parts_combine(clause: Condition, result: bool) -> None:
    assert holds(clause, ROW) is result


clauses: st.SearchStrategy[Condition] = st.recursive(
    st.sampled_from([LOWER, EQUAL, HIGHER, Absent("n"), Absent("x"), OneOf("s", ("b",))]),
    lambda inner: st.lists(inner, max_size=3).flatmap(lambda parts: st.sampled_from([all_of(*parts), any_of(*parts)])),
    max_leaves=8,
)


@given(clauses, clauses)
def test_and_and_or_are_what_they_are_everywhere(one: Condition, other: Condition) -> None:
    a, b = holds(one, ROW), holds(other, ROW)
    assert holds(all_of(one, other), ROW) == (a and b)
    assert holds(any_of(one, other), ROW) == (a or b)
