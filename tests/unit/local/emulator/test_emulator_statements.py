"""Statements whose shape is remembered mean what MiniStack reads in them, and a batch of them is answered as MiniStack answers it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.local.emulator.items import quicken_items
from quarterjack.local.emulator.statements import Shapes, quicken_statements

from tests.support.ministack import dynamodb, fresh_dynamodb

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


ITEMS: list[dict[str, Any]] = [
    {},
    {"k": {"S": "QUEUED"}, "n": {"N": "5"}, "list": {"L": [{"N": "5"}]}, "other": {"S": "a"}, "fence": {"N": "3"}},
    {"k": {"N": "5"}, "n": {"S": ""}, "x": {"NULL": True}},
]
ORDINARY: list[tuple[str, list[Any]]] = [  # statements that succeed, or are refused by their guard
    ("INSERT INTO \"table-1\" VALUE {'k': ?, 'n': 7, 'f': {'g': 1}}", [{"S": "new"}]),
    (
        'UPDATE "table-1" SET "n"=8 REMOVE "x" WHERE "k"=? AND "n" = 5 AND "x" IS MISSING RETURNING ALL NEW *',
        [{"S": "a"}],
    ),
    ('UPDATE "table-1" SET "n"=9 WHERE "k"=? AND "n" > 100', [{"S": "QUEUED"}]),
    ('UPDATE "table-1" SET "n"=9 WHERE "k"=\'a\' RETURNING MODIFIED OLD *', []),
    ('UPDATE "table-1" SET "f"."g"=2 WHERE "k"=?', [{"S": "new"}]),
    ('DELETE FROM "table-1" WHERE "k"=? RETURNING ALL OLD *', [{"S": "QUEUED"}]),
    ('SELECT * FROM "table-1" WHERE "k"=?', [{"S": "a"}]),
    ('UPDATE "nowhere" SET "n"=9 WHERE "k"=?', [{"S": "a"}]),
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
    """What a statement is read as, and whether its guard holds for some items."""
    try:
        parsed = parse(text, parameters)
    except ValueError as refused:
        return str(refused)
    holds = parsed.get("where_fn")
    return _places_left_out(parsed), holds and [_held(holds, item) for item in ITEMS]


def _held(holds: Any, item: Any) -> bool | str:
    try:
        return bool(holds(item))
    except ValueError as refused:
        return str(refused)


def _places_left_out(node: Any) -> Any:
    """A parsed statement without places in the text, and without how a value was written."""
    if isinstance(node, tuple) and node[:1] in (("path",), ("lit",)):
        return node[:2]
    if isinstance(node, dict):
        return {key: _places_left_out(value) for key, value in node.items() if key not in ("item_token", "where_fn")}
    return [_places_left_out(part) for part in node] if isinstance(node, (list, tuple)) else node


def shapes_over(parse: Any) -> Shapes:
    return Shapes(SimpleNamespace(**vars(dynamodb) | {"_parse_partiql": parse}))


@given(st.lists(statements(), min_size=2, max_size=6), st.integers(0, 99))
def test_every_statement_means_what_ministack_reads(drawn: list[tuple[str, list[Any]]], other: int) -> None:
    shapes = shapes_over(dynamodb._parse_partiql)
    for text, parameters in drawn:
        for each in (text, text.replace("5", str(other)), text):
            read = outcome(shapes.parse, each, parameters)
            assert read == outcome(dynamodb._parse_partiql, each, parameters)


@pytest.mark.parametrize(
    "text", ['"a 5"=5', "\"a\"='x 5'", '"a"=?5', '"a"=?', "\"a\"='?'", '"a"=5.0', '"a"=05', '"a" = 5 AND "b5"=5']
)
def test_numbers_in_names_and_texts_are_no_numbers(text: str) -> None:
    shapes = shapes_over(dynamodb._parse_partiql)
    for parameters in ([{"N": "5"}], []):
        for number in ("5", "6", "5"):
            statement = f'DELETE FROM "t" WHERE {text.replace("5", number)}'
            assert outcome(shapes.parse, statement, parameters) == outcome(
                dynamodb._parse_partiql, statement, parameters
            )


def test_a_statement_with_hundreds_of_conditions_is_read() -> None:
    text = 'DELETE FROM "t" WHERE ' + " AND ".join(f'"a{number}" < {number}' for number in range(400))
    shapes = shapes_over(dynamodb._parse_partiql)
    for _ in range(2):
        assert outcome(shapes.parse, text, []) == outcome(dynamodb._parse_partiql, text, [])


def test_a_shape_is_parsed_once_and_its_statements_share_nothing() -> None:
    parsed = list[str]()

    def parse(text: str, parameters: Any) -> Any:
        parsed.append(text)
        return dynamodb._parse_partiql(text, parameters)

    shapes = shapes_over(parse)
    made = [
        shapes.parse(f"INSERT INTO \"t-1\" VALUE {{'k': ?, 'n': {number}, 'state': 'QUEUED'}}", [{"S": str(number)}])
        for number in range(10)
    ]
    assert len(parsed) == 2, "as it stands, and with placeholders"
    made[0]["item"]["state"]["S"] = "changed"
    assert made[1]["item"] == {"k": {"S": "1"}, "n": {"N": "1"}, "state": {"S": "QUEUED"}}


@pytest.mark.parametrize(
    "parameters", [[], [{"S": "a"}, {"S": "b"}], [{"S": "a", "N": "1"}], ["a"], [{"N": "1e400"}], [{"N": "x"}]]
)
def test_wrong_parameters_get_ministacks_answer(parameters: list[Any]) -> None:
    text = 'UPDATE "t" SET "a"=? WHERE "k"=1'
    shapes = shapes_over(dynamodb._parse_partiql)
    for right in ({"S": "a"}, {"N": "1"}):
        shapes.parse(text, [right])
    assert outcome(shapes.parse, text, parameters) == outcome(dynamodb._parse_partiql, text, parameters)


def batch(module: Any, drawn: Sequence[tuple[str, Sequence[Any]]]) -> Any:
    """The status and the body of a batch of statements on a table with two items, and what the table has then."""
    items: dict[str, Any] = {key: {"__no_sort__": {"k": {"S": key}, "n": {"N": "5"}}} for key in ("QUEUED", "a")}
    module._tables["table-1"] = {
        "TableName": "table-1",
        "pk_name": "k",
        "sk_name": None,
        "items": items,
        "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}],
    }
    asked = [
        {"Statement": text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        for text, parameters in drawn
    ]
    status, _, body = module._batch_execute_statement({"Statements": asked, "ReturnConsumedCapacity": "TOTAL"})
    return status, json.loads(body), {key: dict(kept) for key, kept in items.items() if kept}


@given(st.lists(st.one_of(statements(), st.sampled_from(ORDINARY)), min_size=1, max_size=5))
def test_a_batch_is_answered_as_ministack_answers_it(drawn: list[tuple[str, list[Any]]]) -> None:
    quick = fresh_dynamodb(quicken_items, quicken_statements)
    for _ in range(2):
        assert batch(quick, drawn) == batch(dynamodb, drawn)
    assert quick.json_response({"a": 1})[2] == b'{"a": 1}', "outside a batch"


def test_a_release_that_works_otherwise_is_left_as_it_is() -> None:
    module = SimpleNamespace(json=1)
    quicken_statements(module)
    assert vars(module) == {"json": 1}
