"""The requests of the control plane, and what their answers mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from quarterjack.aws import BatchBackoff, ConditionFailed, TransactionRefused, translated
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import fire_ref
from quarterjack.dynamodb.dynamo_tables import DynamoTables
from quarterjack.dynamodb.expressions import expressions
from quarterjack.dynamodb.statements import statement
from quarterjack.dynamodb.table_client import TableClient
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.state.transition import RUNNING, Absent, AllOf, AnyOf, Change, Compare, Condition, Once, OneOf, Plus
from quarterjack.stores.dead_index import DeadIndex
from quarterjack.stores.records import Record, Records
from quarterjack.stores.schedules import IncidentChange, ScheduleStore
from quarterjack.stores.tables import REVISIONS, RUNS, TABLES, RowQuery, RowWrite

from tests.support.builders import NOON, OWNER, a_head, a_revision, an_entry

RECORD = Record(owner=OWNER, key="~turns", version=2, body={})
DEAD = DeadRunRow(run=fire_ref(OWNER, NOON), job="report", ended_at=NOON, fence=1, attempts=1, reason="failed")
NOTHING = {"Items": [], "Count": 0, "ScannedCount": 0}


class RecordingClient:
    """Records what it is asked for. ``fails``: the errors of the first calls."""

    def __init__(self, *fails: QuarterjackError) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._fails = list(fails)

    def call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        self.requests.append((operation, arguments))
        if self._fails:
            raise self._fails.pop(0)
        return NOTHING


class Installation:
    """The control plane over one client; rounds are without waits."""

    def __init__(self, client: RecordingClient) -> None:
        given: Any = client
        backoff = BatchBackoff(rounds=3, wait=lambda seconds: None)
        tables = DynamoTables({each: TableClient(given, f"p-{each.suffix}", backoff=backoff) for each in TABLES})
        self.schedules, self.records, self.dead = ScheduleStore(tables), Records(tables), DeadIndex(tables)


Act = Callable[[Installation], object]

READS: list[tuple[str, str, Act]] = [
    ("get_item", "p-schedules", lambda on: on.schedules.head("acme", "report")),
    ("query", "p-revisions", lambda on: list(on.schedules.history(OWNER))),
    ("query", "p-schedules", lambda on: on.schedules.page("acme", prefix="r", limit=5, cursor="q")),
    ("scan", "p-schedules", lambda on: on.schedules.scan_heads("", limit=5)),
    ("query", "p-runs", lambda on: list(on.records.listed(OWNER, "~"))),
    ("query", "p-runs", lambda on: list(on.dead.read("acme", after=0, upto=1, only=None, before=None, page=None))),
]
CHANGES: list[tuple[str, str, Act]] = [
    ("update_item", "p-runs", lambda on: on.records.write(RECORD)),
    ("delete_item", "p-runs", lambda on: on.records.remove(RECORD)),
    ("put_item", "p-runs", lambda on: on.dead.put(DEAD, expires=1)),
    ("update_item", "p-runs", lambda on: on.dead.mark(DEAD, redriven_as="acme/~r#once")),
]


def arm(on: Installation) -> bool:
    return on.schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(), entry=an_entry())


@pytest.mark.parametrize(("operation", "table", "act"), READS)
def test_every_read_is_one_strong_request_of_our_client(operation: str, table: str, act: Act) -> None:
    client = RecordingClient()
    act(Installation(client))
    ((asked, arguments),) = client.requests
    assert (asked, arguments["TableName"], arguments["ConsistentRead"]) == (operation, table, True)


@pytest.mark.parametrize(("operation", "table", "act"), CHANGES)
def test_every_change_of_a_row_is_one_request_that_brings_the_row_that_refused_it(
    operation: str, table: str, act: Act
) -> None:
    client = RecordingClient()
    act(Installation(client))
    ((asked, arguments),) = client.requests
    assert (asked, arguments["TableName"]) == (operation, table)
    assert "ConditionExpression" not in arguments or arguments["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert "ConditionExpression" in arguments


def test_a_refused_row_is_a_normal_answer() -> None:
    for _, _, act in CHANGES:
        assert act(Installation(RecordingClient(ConditionFailed(None)))) is False


def test_what_is_unavailable_says_so_as_every_other_call_does() -> None:
    for _, _, act in (*READS, *CHANGES):
        with pytest.raises(Unavailable, match="away"):
            act(Installation(RecordingClient(Unavailable("away"))))
    with pytest.raises(Unavailable, match="away"):
        arm(Installation(RecordingClient(Unavailable("away"))))


# Transactions.


def refusal(*codes: str) -> QuarterjackError:
    """The answer to a transaction with a reason for each of its items."""
    reasons = [{"Code": code} for code in codes]
    error = {"Code": "TransactionCanceledException", "Message": "cancelled"}
    return translated({"Error": error, "CancellationReasons": reasons}, "transact_write_items")


def test_a_transaction_is_one_request() -> None:
    client = RecordingClient()
    assert arm(Installation(client))
    ((operation, arguments),) = client.requests
    assert operation == "transact_write_items"
    tables = [part["TableName"] for item in arguments["TransactItems"] for part in item.values()]
    assert sorted(tables) == ["p-agenda", "p-revisions", "p-schedules"]


def test_one_false_condition_among_conflicts_is_final() -> None:
    client = RecordingClient(refusal("TransactionConflict", "ConditionalCheckFailed", "None"))
    assert not arm(Installation(client))
    assert len(client.requests) == 1


def test_a_transaction_that_met_another_is_sent_again() -> None:
    client = RecordingClient(refusal("None", "TransactionConflict"), refusal("TransactionConflict", "None"))
    assert arm(Installation(client))
    assert len(client.requests) == 3


@pytest.mark.parametrize("act", [arm, lambda on: on.schedules.note(IncidentChange(head=a_head(2), expected=1))])
def test_conflicts_without_an_end_are_said_with_the_name_of_the_schedule(act: Act) -> None:
    client = RecordingClient(*(refusal("TransactionConflict") for _ in range(3)))
    with pytest.raises(Unavailable, match=OWNER):
        act(Installation(client))
    assert len(client.requests) == 3


def test_a_throttled_item_makes_a_transaction_unavailable() -> None:
    with pytest.raises(Unavailable):
        arm(Installation(RecordingClient(refusal("ThrottlingError", "None"))))
    assert not isinstance(refusal("ValidationError"), (TransactionRefused, Unavailable))


# Expressions.


@pytest.mark.parametrize(
    ("clause", "expression", "values"),
    [
        (Compare("job", "=", "x"), "#0 = :0", [{"S": "x"}]),
        (Compare("version", "<=", 3), "#0 <= :0", [{"N": "3"}]),
        (OneOf("state", ("A", "B")), "#0 IN (:0, :1)", [{"S": "A"}, {"S": "B"}]),
        (Absent("note"), "attribute_not_exists (#0)", []),
        (AllOf((Compare("job", "=", "x"), Absent("note"))), "(#0 = :0 AND attribute_not_exists (#1))", [{"S": "x"}]),
        (AnyOf((Compare("job", "=", "x"), Absent("note"))), "(#0 = :0 OR attribute_not_exists (#1))", [{"S": "x"}]),
        (
            RowQuery(table=REVISIONS, partition=OWNER, first=1, last=9),
            "(#0 = :0 AND #1 BETWEEN :1 AND :2)",
            [{"S": OWNER}, {"N": "1"}, {"N": "9"}],
        ),
    ],
)
def test_a_clause_becomes_a_condition(clause: Condition | RowQuery, expression: str, values: list[object]) -> None:
    arguments = expressions(ConditionExpression=clause)
    assert arguments["ConditionExpression"] == expression
    assert list(arguments.get("ExpressionAttributeValues", {}).values()) == values


def test_changes_become_an_update_of_the_attributes_that_they_name() -> None:
    arguments = expressions({"state": "RUNNING", "reason": None, "fence": Plus(1), "slices": Once(0)})
    assert arguments == {
        "UpdateExpression": "SET #0 = :0, #1 = if_not_exists (#1, :1) REMOVE #2 ADD #3 :2",
        "ExpressionAttributeNames": {"#0": "state", "#1": "slices", "#2": "reason", "#3": "fence"},
        "ExpressionAttributeValues": {":0": {"S": "RUNNING"}, ":1": {"N": "0"}, ":2": {"N": "1"}},
    }


def test_what_states_nothing_needs_no_arguments() -> None:
    assert expressions(FilterExpression=None) == {}


def test_numbers_and_states_stand_in_a_statement_and_all_else_is_a_parameter() -> None:
    row: dict[str, Change] = {
        "owner": "a'b",
        "key": "k",
        "fence": 1,
        "missing": None,
        "reason": 'x" --',
        "unstarted": True,
        "skew": -1,
    }
    only_if = AllOf((Compare("rev", "=", 7), RUNNING, OneOf("state", ("QUEUED", 3)), Absent("backfill")))
    rendered = statement("p-runs", RowWrite(table=RUNS, row=row, only_if=only_if))
    assert rendered["Statement"] == (
        'UPDATE "p-runs" SET "fence"=1 REMOVE "missing" SET "reason"=? SET "unstarted"=? SET "skew"=? '
        'WHERE "owner"=? AND "key"=? AND "rev" = 7 AND "state" = \'RUNNING\' '
        'AND "state" IN [?, 3] AND "backfill" IS MISSING'
    )
    assert rendered["Parameters"] == [
        {"S": 'x" --'},
        {"BOOL": True},
        {"N": "-1"},
        {"S": "a'b"},
        {"S": "k"},
        {"S": "QUEUED"},
    ]
