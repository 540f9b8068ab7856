"""A job's own items are written with the record of its step, while its lease holds the run, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import RunRow
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.state.lease import lease, succeed
from quarterjack.stores.siblings import CommitResult

from tests.support.builders import NOON, a_one_off
from tests.support.engines import Engine
from tests.support.job_tables import DictClient, items_of, make_table, put


@pytest.fixture
def table(engine: Engine) -> str:
    if engine.settings is not None:
        return make_table(engine.clients["dynamodb"])
    engine.memory.dynamodb = DictClient()
    return "orders"


def keys(engine: Engine, table: str) -> list[str]:
    if engine.settings is None:
        return sorted(engine.memory.dynamodb.stored)
    return [item["id"]["S"] for item in items_of(engine.clients["dynamodb"], table)]


def leased(engine: Engine, run: RunRow) -> RunRef:
    ledger = engine.services.ledger
    assert ledger.submit(run) is None
    to = lease(revision=run.revision, now=run.not_before, token="t", worker="w", max_attempts=3, steal=False)
    assert ledger.move(run.ref, to).applied
    return run.ref


def commit(
    engine: Engine, ref: RunRef, items: list[dict[str, Any]], *, fence: int = 1, step: str = "s"
) -> CommitResult:
    return engine.services.siblings.commit(ref, fence=fence, step=step, text='"done"', expires=NOON, items=items)


def test_items_and_step_are_written_together_once(engine: Engine, table: str) -> None:
    ref = leased(engine, a_one_off("both"))
    items = [put("a", table=table, new=True), put("b", table=table)]
    assert commit(engine, ref, items) == CommitResult(committed=True)
    assert keys(engine, table) == ["a", "b"]
    assert engine.services.siblings.read(ref).steps == {"s": '"done"'}
    assert commit(engine, ref, [put("c", table=table)]) == CommitResult(recorded=True)
    assert commit(engine, ref, items) == CommitResult(recorded=True), (
        "although its own condition does not hold any more"
    )
    assert keys(engine, table) == ["a", "b"]


def test_who_has_lost_the_run_writes_nothing(engine: Engine, table: str) -> None:
    ref = leased(engine, a_one_off("lost"))
    assert commit(engine, ref, [put("a", table=table)], fence=2) == CommitResult()
    engine.services.ledger.move(ref, succeed(fence=1, now=NOON, expires=2 * NOON))
    assert commit(engine, ref, [put("a", table=table)]) == CommitResult(), "the run has ended"
    assert keys(engine, table) == []
    assert engine.services.siblings.read(ref).steps == {}


def test_an_item_whose_condition_does_not_hold_is_named_and_nothing_is_written(engine: Engine, table: str) -> None:
    ref = leased(engine, a_one_off("refused"))
    assert commit(engine, ref, [put("there", table=table)], step="first").committed
    items = [put("a", table=table), put("there", table=table, new=True), put("b", table=table)]
    assert commit(engine, ref, items) == CommitResult(refused=1)
    assert keys(engine, table) == ["there"]
    assert set(engine.services.siblings.read(ref).steps) == {"first"}


def test_tables_of_quarterjack_and_none_at_all_are_refused(engine: Engine) -> None:
    if engine.settings is None:
        pytest.skip("in memory tables have no names")
    ref = leased(engine, a_one_off("whose"))
    for name in (
        engine.settings.table("runs"),
        f"arn:aws:dynamodb:us-east-1:1:table/{engine.settings.table('agenda')}",
    ):
        with pytest.raises(InvalidInput, match=r"items\[0\].TableName='.*': is a table of Quarterjack"):
            commit(engine, ref, [put("a", table=name)])
    with pytest.raises((Misconfigured, InvalidInput), match="nowhere"):
        commit(engine, ref, [put("a", table="nowhere")])
    assert engine.services.siblings.read(ref).steps == {}


def test_every_action_of_dynamodb(engine: Engine, table: str) -> None:
    """As boto3's client takes them, bytes and sets too."""
    if engine.settings is None:
        pytest.skip("in memory a job's tables are whatever the test brings")
    ref, client = leased(engine, a_one_off("all")), engine.clients["dynamodb"]
    assert commit(engine, ref, [put("old", table=table), put("checked", table=table)], step="before").committed
    items: list[dict[str, Any]] = [
        {"Put": {"TableName": table, "Item": {"id": {"S": "new"}, "b": {"B": b"\x00\xff"}, "s": {"NS": ["1", "2"]}}}},
        {
            "Update": {
                "TableName": table,
                "Key": {"id": {"S": "count"}},
                "UpdateExpression": "ADD #n :one",
                "ExpressionAttributeNames": {"#n": "n"},
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
        },
        {"Delete": {"TableName": table, "Key": {"id": {"S": "old"}}}},
        {
            "ConditionCheck": {
                "TableName": table,
                "Key": {"id": {"S": "checked"}},
                "ConditionExpression": "attribute_exists(id)",
            }
        },
    ]
    assert commit(engine, ref, items).committed
    assert items_of(client, table) == [
        {"id": {"S": "checked"}},
        {"id": {"S": "count"}, "n": {"N": "1"}},
        {"id": {"S": "new"}, "b": {"B": b"\x00\xff"}, "s": {"NS": ["1", "2"]}},
    ]
