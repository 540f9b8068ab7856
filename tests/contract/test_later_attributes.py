"""What a later release has put into a row survives when this release rewrites the row: attributes of any type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from quarterjack.domain.names import RunRef
from quarterjack.domain.schedule import ClosedBy, Freeze, ScheduleState, freeze_key
from quarterjack.domain.times import MINUTE
from quarterjack.state.lease import succeed
from quarterjack.stores.records import Record
from quarterjack.stores.schedules import IncidentChange

from tests.support.builders import NOON, OWNER, a_head, a_revision, a_run, an_audit_entry, an_entry
from tests.support.engines import Engine
from tests.support.lease_steps import lease_of

Item = Mapping[str, Mapping[str, Any]]

# Those of docs/adr/0029, and types that this release does not write.
LATER: Item = {
    "priority": {"S": "high"},
    "epoch": {"N": "3"},
    "agent": {"M": {"id": {"S": "arn:aws:iam::1:role/r"}, "groups": {"L": [{"S": "a"}, {"NULL": True}]}}},
    "exact": {"N": "0.125"},
    "flag": {"BOOL": True},
    "words": {"SS": ["a", "b"]},
}
HEAD = {"tenant": {"S": "acme"}, "name": {"S": "report"}}
REVISION = {"owner": {"S": OWNER}, "number": {"N": "1"}}


def item(engine: Engine, table: str, key: Item) -> dict[str, Any]:
    assert engine.settings is not None
    answer = engine.clients["dynamodb"].get_item(TableName=engine.settings.table(table), Key=key, ConsistentRead=True)
    found: dict[str, Any] = answer["Item"]
    return found


def extend(engine: Engine, table: str, key: Item) -> None:
    """Put the later attributes into a row that is there."""
    assert engine.settings is not None
    there = item(engine, table, key)
    engine.clients["dynamodb"].put_item(TableName=engine.settings.table(table), Item={**there, **LATER})


def later(engine: Engine, table: str, key: Item) -> Item:
    """What is left of them."""
    found = item(engine, table, key)
    if "words" in found:
        found["words"]["SS"].sort()
    return {name: found[name] for name in LATER if name in found}


@pytest.fixture
def stored(engine: Engine) -> Engine:
    """A schedule whose head and revision a later release has extended."""
    if engine.settings is None:
        pytest.skip("in memory a row has no attributes of types that this release does not write")
    armed = engine.services.schedules.arm(
        a_head(), expected=0, previous=None, revision=a_revision(), entry=an_entry(NOON + MINUTE)
    )
    assert armed
    extend(engine, "schedules", HEAD)
    extend(engine, "revisions", REVISION)
    return engine


def test_an_update_keeps_them_on_head_and_previous_revision(stored: Engine) -> None:
    ended = replace(a_revision(), active_until=NOON, closed_by=ClosedBy.REPLACED)
    head = a_head(2, revision=2, description="now with words")
    assert stored.services.schedules.arm(
        head, expected=1, previous=ended, revision=a_revision(2, active_from=NOON), entry=None
    )
    assert stored.services.schedules.head("acme", "report") == head
    assert later(stored, "schedules", HEAD) == LATER
    assert later(stored, "revisions", REVISION) == LATER


def test_a_pause_keeps_them_on_head_and_revision(stored: Engine) -> None:
    ended = replace(a_revision(), active_until=NOON, closed_by=ClosedBy.PAUSED)
    assert stored.services.schedules.close(a_head(2, state=ScheduleState.PAUSED), expected=1, revision=ended)
    assert stored.services.schedules.revisions([(OWNER, 1)]).found == {(OWNER, 1): ended}
    assert later(stored, "schedules", HEAD) == LATER
    assert later(stored, "revisions", REVISION) == LATER


def test_an_incident_keeps_them_on_head_and_revision(stored: Engine) -> None:
    failing = replace(a_revision(), failing=1)
    assert stored.services.schedules.note(IncidentChange(head=a_head(2, failing=1), expected=1, revision=failing))
    assert stored.services.schedules.revisions([(OWNER, 1)]).found == {(OWNER, 1): failing}
    assert later(stored, "schedules", HEAD) == LATER
    assert later(stored, "revisions", REVISION) == LATER


def test_a_completion_keeps_them(stored: Engine) -> None:
    assert stored.services.schedules.complete(an_audit_entry(), revision=1, to=ScheduleState.COMPLETED)
    assert later(stored, "schedules", HEAD) == LATER


def test_a_second_freeze_keeps_them_and_removes_a_note_that_is_gone(stored: Engine) -> None:
    owner, number = freeze_key("acme")
    key = {"owner": {"S": owner}, "number": {"N": str(number)}}
    stored.services.schedules.freeze(
        Freeze(tenant="acme", until=NOON, reason="why", created_at=1), an_audit_entry("acme")
    )
    extend(stored, "revisions", key)
    stored.services.schedules.freeze(Freeze(tenant="acme", until=NOON + MINUTE, created_at=2), an_audit_entry("acme"))
    assert later(stored, "revisions", key) == LATER
    read = stored.services.schedules.revisions([(owner, number)]).frozen
    assert read == {"acme": Freeze(tenant="acme", until=NOON + MINUTE, created_at=2)}


# Rows of the ledger's table, in memory as well.


def extend_row(engine: Engine, ref: RunRef) -> None:
    if engine.settings is None:
        engine.memory.put_row(ref, {**(engine.memory.row(ref) or {}), "priority": "high"})
    else:
        extend(engine, "runs", {"owner": {"S": ref.owner}, "key": {"S": ref.key}})


def keeps(engine: Engine, ref: RunRef) -> bool:
    if engine.settings is None:
        return (engine.memory.row(ref) or {}).get("priority") == "high"
    return later(engine, "runs", {"owner": {"S": ref.owner}, "key": {"S": ref.key}}) == LATER


FIRST = Record(owner="acme/~token", key="~token~t", version=1, body={"a": 1}, expires=NOON)


def test_the_next_version_of_a_record_keeps_them_and_removes_an_expiry_that_is_gone(engine: Engine) -> None:
    records, ref = engine.services.records, RunRef(FIRST.owner, FIRST.key)
    assert records.write(FIRST)
    extend_row(engine, ref)
    second = replace(FIRST, version=2, body={}, expires=None)
    assert records.write(second)
    assert records.read(FIRST.owner, FIRST.key) == second
    assert list(records.listed(FIRST.owner, "~token~")) == [second]
    assert keeps(engine, ref)


def test_a_repeated_write_is_recognised_beside_them(engine: Engine) -> None:
    records = engine.services.records
    assert records.write(FIRST)
    extend_row(engine, RunRef(FIRST.owner, FIRST.key))
    assert records.write(FIRST)
    assert not records.write(replace(FIRST, body={"a": 2}))
    assert not records.write(replace(FIRST, expires=None))


@pytest.mark.parametrize("by", ["token", "note"])
def test_a_record_in_a_transaction_keeps_them(engine: Engine, by: str) -> None:
    schedules, ref = engine.services.schedules, RunRef(FIRST.owner, FIRST.key)
    assert engine.services.records.write(FIRST)
    assert schedules.arm(a_head(), expected=0, previous=None, revision=a_revision(), entry=None)
    extend_row(engine, ref)
    second = replace(FIRST, version=2, body={"a": 2})
    if by == "token":
        assert schedules.close(a_head(2), expected=1, revision=None, token=second)
    else:
        assert schedules.note(IncidentChange(head=a_head(2), expected=1, records=[second]))
    assert engine.services.records.read(FIRST.owner, FIRST.key) == second
    assert keeps(engine, ref)


def test_a_run_keeps_them_through_lease_and_settlement(engine: Engine) -> None:
    run = a_run()
    engine.services.ledger.claim([run])
    extend_row(engine, run.ref)
    leased = lease_of(engine.services, run)
    settled = succeed(fence=leased.fence, now=NOON, expires=NOON + MINUTE)
    assert engine.services.ledger.move_all([(run.ref, settled)]) == {run.ref: True}
    assert keeps(engine, run.ref)
