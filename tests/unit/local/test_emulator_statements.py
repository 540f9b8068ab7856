"""Statements whose shape is remembered mean what MiniStack reads in them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.local.emulator.statements import Shapes, remember_statements

_dynamodb_keywords: Any = import_module("ministack.services._dynamodb_keywords")

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=5).map(lambda text: {"S": text}),
    st.integers(-5, 10**20).map(lambda number: {"N": str(number)}),
    st.booleans().map(lambda flag: {"BOOL": flag}),
    st.just({"NULL": True}),
    st.lists(st.text(max_size=3), max_size=2).map(lambda texts: {"L": [{"S": text} for text in texts]}),
)
OPERANDS = st.one_of(
    st.integers(-3, 10**20).map(str),
    st.sampled_from(
        ["'QUEUED'", "'it''s 5 ?'", "1.5", "1e3", "007", "TRUE", "NULL", '"other"', '"fence" + 1', "<<1, 1>>"]
    ),
    VALUES,
)
CONDITIONS = [
    '"k" = {}',
    '"n" < {}',
    '"n" IN [{}, {}]',
    '"n" BETWEEN {} AND {}',
    'begins_with("k", {})',
    '"x" IS MISSING',
    'NOT "n" = {}',
    '"list"[0] = {}',
]


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, list[Any]]:
    parameters = list[Any]()

    def operand() -> str:
        value = draw(OPERANDS)
        if isinstance(value, str):
            return value
        parameters.append(value)
        return "?"

    def filled(text: str) -> str:
        return text.format(*[operand() for _ in range(text.count("{}"))])

    names = draw(st.lists(st.sampled_from(["a", "b", "c7", "d?"]), min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(["insert", "update", "delete", "select"]))
    if kind == "insert":
        fields = ", ".join([f"'{name}': {operand()}" for name in names])
        return f'INSERT INTO "table-1" VALUE {{{fields}}}', parameters
    head = {"update": 'UPDATE "table-1" ', "delete": 'DELETE FROM "table-1" ', "select": 'SELECT * FROM "table-1" '}[
        kind
    ]
    if kind == "update":
        head += " ".join([f'SET "{name}"={operand()}' for name in names]) + " "
    where = " AND ".join([filled(each) for each in draw(st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=3))])
    return f"{head}WHERE {where}", parameters


def outcome(parse: Any, text: str, parameters: Sequence[Any]) -> Any:
    try:
        return _places_left_out(parse(text, parameters))
    except ValueError as refused:
        return str(refused)


def _places_left_out(node: Any) -> Any:
    """A parsed statement without places in the text, and without how a value was written."""
    if isinstance(node, tuple) and node[:1] in (("path",), ("lit",)):
        return node[:2]
    if isinstance(node, dict):
        return {key: _places_left_out(value) for key, value in node.items() if key != "item_token"}
    return [_places_left_out(part) for part in node] if isinstance(node, (list, tuple)) else node


@given(st.lists(statements(), min_size=2, max_size=6), st.integers(0, 99))
def test_every_statement_means_what_ministack_reads(drawn: list[tuple[str, list[Any]]], other: int) -> None:
    shapes = Shapes(_dynamodb_keywords.parse_statement)
    for text, parameters in drawn:
        for each in (text, text.replace("5", str(other)), text):
            read = outcome(shapes.parse, each, parameters)
            assert read == outcome(_dynamodb_keywords.parse_statement, each, parameters)


def test_a_shape_is_parsed_once_and_its_statements_share_nothing() -> None:
    parsed = list[str]()

    def parse(text: str, parameters: Any) -> Any:
        parsed.append(text)
        return _dynamodb_keywords.parse_statement(text, parameters)

    shapes = Shapes(parse)
    made = [
        shapes.parse(f"INSERT INTO \"t\" VALUE {{'k': ?, 'n': {number}, 'state': 'QUEUED'}}", [{"S": str(number)}])
        for number in range(10)
    ]
    assert len(parsed) == 2, "as it stands, and with placeholders"
    made[0]["item"]["state"]["S"] = "changed"
    assert made[1]["item"] == {"k": {"S": "1"}, "n": {"N": "1"}, "state": {"S": "QUEUED"}}


@pytest.mark.parametrize("parameters", [[], [{"S": "a"}, {"S": "b"}], [{"S": "a", "N": "1"}], ["a"]])
def test_wrong_parameters_get_ministacks_answer(parameters: list[Any]) -> None:
    text = 'UPDATE "t" SET "a"=? WHERE "k"=1'
    shapes = Shapes(_dynamodb_keywords.parse_statement)
    shapes.parse(text, [{"S": "a"}])
    assert outcome(shapes.parse, text, parameters) == outcome(_dynamodb_keywords.parse_statement, text, parameters)


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(other=1)
    remember_statements(module)
    assert vars(module) == {"other": 1}
