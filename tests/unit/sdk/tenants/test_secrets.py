"""Secrets of tenants for operators: set, listed and deleted by who may, and shown to nobody."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack import Tenants
from quarterjack.errors import Forbidden, InvalidInput, NotFound, Unavailable
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.memory.calls import Detail, Hook
from quarterjack.testing.memory.installation import IDENTITY

HUSH = "hush-0123456789"


@pytest.fixture
def memory() -> Memory:
    return Memory(ManualClock(datetime(2026, 5, 4, 8, tzinfo=UTC)))


@pytest.fixture
def tenants(memory: Memory) -> Tenants:
    return Tenants(services=memory.connect(), clock=memory._clock)


def test_they_are_set_listed_and_deleted_by_name(tenants: Tenants, memory: Memory) -> None:
    tenants.set_secret("acme", "crm", f" {HUSH}\n")
    tenants.set_secret("beta", "crm", "other-0123456789")
    assert memory.connect().secrets.get("acme", "crm") == HUSH
    (listed,) = tenants.secrets("acme")
    assert (listed.name, listed.version, HUSH in repr(listed)) == ("crm", 1, False)
    tenants.delete_secret("acme", "crm")
    assert tenants.secrets("acme") == []
    with pytest.raises(NotFound, match="no such secret"):
        tenants.delete_secret("acme", "crm")
    assert memory.connect().secrets.get("beta", "crm") == "other-0123456789"


@pytest.mark.parametrize(
    ("tenant", "name", "value"),
    [("acme", "../beta/crm", HUSH), ("a/b", "crm", HUSH), ("~installation", "crm", HUSH), ("acme", "crm", "abc")],
)
def test_what_cannot_be_stored_is_refused_and_the_value_not_shown(
    tenants: Tenants, tenant: str, name: str, value: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        tenants.set_secret(tenant, name, value)
    assert value not in str(raised.value)


def test_who_may_only_operate_may_not(tenants: Tenants, memory: Memory) -> None:
    tenants.set_secret("acme", "crm", HUSH)
    for to in (IDENTITY, "iam:*/somebody"):
        tenants.grant("acme", to, "admin")
    tenants.grant("acme", IDENTITY, "editor")
    tenants.revoke("acme", IDENTITY, can="admin")
    with pytest.raises(Forbidden):
        tenants.set_secret("acme", "crm", "another-0123456789")
    with pytest.raises(Forbidden):
        tenants.secrets("acme")
    with pytest.raises(Forbidden):
        tenants.delete_secret("acme", "crm")
    assert memory.connect().secrets.get("acme", "crm") == HUSH


def test_the_audit_has_the_names_and_no_value(tenants: Tenants, memory: Memory) -> None:
    tenants.acting_as("ada").set_secret("acme", "crm", HUSH)
    tenants.acting_as("ada").delete_secret("acme", "crm")
    lines = memory.audit_entries()
    assert [(line.act, line.actor, line.detail) for line in lines] == [
        ("set-secret", "app:ada", {"secret": "crm"}),
        ("delete-secret", "app:ada", {"secret": "crm"}),
    ]
    assert HUSH not in repr(memory.audit_rows())


def test_without_its_line_nothing_is_stored(memory: Memory) -> None:
    class Down(Hook):
        def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
            if operation == "TransactWriteItems":
                raise Unavailable("no answer")
            return frozenset()

    with pytest.raises(Unavailable):
        Tenants(services=memory.connect(Down()), clock=memory._clock).set_secret("acme", "crm", HUSH)
    assert Tenants(services=memory.connect(), clock=memory._clock).secrets("acme") == []
