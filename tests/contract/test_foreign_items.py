"""Items that another release wrote, or nobody should have: they are told apart, and spoil no answer about the others."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.times import MINUTE

from tests.support.builders import NOON, a_head, a_revision, a_run
from tests.support.engines import Engine

ODD_ROWS: list[dict[str, Any]] = [
    {"state": "DREAMING", "rev": 1, "job": "report", "due": NOON, "not_before": NOON},
    {"state": "QUEUED"},
    {},
]


def put(engine: Engine, table: str, item: dict[str, Any]) -> None:
    assert engine.settings is not None
    engine.clients["dynamodb"].put_item(TableName=engine.settings.table(table), Item=item)


@pytest.mark.parametrize("odd", ODD_ROWS)
def test_an_odd_row_under_a_claimed_key_is_told_apart(engine: Engine, odd: dict[str, Any]) -> None:
    runs = [a_run(NOON + i * MINUTE) for i in range(3)]
    ref = runs[1].ref
    if engine.settings is None:
        engine.memory.put_row(ref, {"owner": ref.owner, "key": ref.key} | odd)
    else:
        types = {"state": "S", "job": "S"}
        item = {name: {types.get(name, "N"): str(value)} for name, value in odd.items()}
        put(engine, "runs", {"owner": {"S": ref.owner}, "key": {"S": ref.key}} | item)
    engine.services.ledger.claim([runs[0]])
    claimed = engine.services.ledger.claim(runs)
    assert claimed.created == {runs[2].ref}
    assert set(claimed.existing) == {runs[0].ref}
    assert claimed.unreadable == {ref}


@pytest.mark.parametrize(
    "odd",
    [
        {"active_from": {"N": "1.5"}},
        {"rule": {"S": "{}"}},
        {"rule": {"S": "not JSON"}},
        {"rule": {"S": '{"expression":"* * * * *","of a later release":1}'}},
        {"closed_by": {"S": "an act of a later release"}},
        {"overrides": {"S": "[]"}},
        {"shard": {"L": []}},
    ],
)
def test_an_odd_revision_is_told_apart(engine: Engine, odd: dict[str, Any]) -> None:
    if engine.settings is None:
        pytest.skip("the items of this test are in the JSON of DynamoDB")
    for name in ("good", "odd"):
        head, revision = a_head(name=name), a_revision(name=name)
        engine.services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=None)
    key = {"owner": {"S": "acme/odd"}, "number": {"N": "1"}}
    table = engine.settings.table("revisions")
    there = engine.clients["dynamodb"].get_item(TableName=table, Key=key)["Item"]
    put(engine, "revisions", there | odd)
    answer = engine.services.schedules.revisions([("acme/good", 1), ("acme/odd", 1)])
    assert set(answer.found) | set(answer.broken) == {("acme/good", 1), ("acme/odd", 1)}
    assert ("acme/good", 1) in answer.found
    if "shard" not in odd:
        assert ("acme/odd", 1) in answer.broken


@pytest.mark.parametrize("odd", [{"state": {"S": "DREAMING"}}, {"revision": None}, {"tags": {"S": "["}}])
def test_an_odd_head_hides_no_other(engine: Engine, odd: dict[str, Any]) -> None:
    if engine.settings is None:
        pytest.skip("the items of this test are in the JSON of DynamoDB")
    for name in ("a", "b", "c"):
        head, revision = a_head(name=name), a_revision(name=name)
        engine.services.schedules.arm(head, expected=0, previous=None, revision=revision, entry=None)
    key = {"tenant": {"S": "acme"}, "name": {"S": "b"}}
    there = engine.clients["dynamodb"].get_item(TableName=engine.settings.table("schedules"), Key=key)["Item"]
    put(engine, "schedules", {n: v for n, v in (there | odd).items() if v is not None})
    assert [head.name for head in engine.services.schedules.scan_heads("", limit=1_000)[0]] == ["a", "c"]
    page = engine.services.schedules.page("acme", prefix="", limit=2, cursor=None)
    assert [head.name for head in page.items] == ["a"]
    assert page.cursor == "b"
    rest = engine.services.schedules.page("acme", prefix="", limit=2, cursor=page.cursor)
    assert [(head.name, head.state) for head in rest.items] == [("c", ScheduleState.ACTIVE)]
