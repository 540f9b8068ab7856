"""Clauses: conditions as data, evaluated as DynamoDB evaluates them."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from minutehand.runs.clauses import OPERATORS, Absent, Clause, Compare, OneOf, Row, either, every, holds

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
        (every(EQUAL, Absent("missing")), True),
        (every(EQUAL, LOWER), False),
        (either(LOWER, EQUAL), True),
        (either(LOWER, HIGHER), False),
        (every(), True),
        (either(), False),
    ],
)
def test_parts_combine(clause: Clause, result: bool) -> None:
    assert holds(clause, ROW) is result


clauses: st.SearchStrategy[Clause] = st.recursive(
    st.sampled_from([LOWER, EQUAL, HIGHER, Absent("n"), Absent("x"), OneOf("s", ("b",))]),
    lambda inner: st.lists(inner, max_size=3).flatmap(lambda parts: st.sampled_from([every(*parts), either(*parts)])),
    max_leaves=8,
)


@given(clauses, clauses)
def test_and_and_or_are_what_they_are_everywhere(one: Clause, other: Clause) -> None:
    a, b = holds(one, ROW), holds(other, ROW)
    assert holds(every(one, other), ROW) == (a and b)
    assert holds(either(one, other), ROW) == (a or b)
