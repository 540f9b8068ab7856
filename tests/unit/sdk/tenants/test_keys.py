"""API keys, as operators make and revoke them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Tenants
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.testing import ManualClock, Memory

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def tenants(clock: ManualClock) -> Tenants:
    return Tenants(services=Memory(clock).connect(), clock=clock, actor="ada")


def test_a_key_is_made_listed_and_revoked(tenants: Tenants) -> None:
    end = START + timedelta(days=90)
    made = tenants.create_key("acme", "crm", "submit", jobs=["crm.*"], expires_at=end)
    assert made.text.startswith("qj_acme_crm.1_")
    assert made.text not in repr(made)
    assert (made.key.id, made.key.can, made.key.jobs) == ("crm.1", ("submit",), ("crm.*",))
    assert (made.key.created_at, made.key.created_by, made.key.expires_at) == (START, "app:ada", end)
    assert made.key.last_used_on is None
    assert tenants.keys("acme") == [made.key]
    assert tenants.keys("beta") == []
    assert tenants.revoke_key("acme", "crm.1") == made.key
    assert tenants.keys("acme") == []
    with pytest.raises(NotFound, match="crm"):
        tenants.revoke_key("acme", "crm.1")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tenant": "a/b"}, "tenant"),
        ({"tenant": "~installation"}, "tenant"),
        ({"name": "a_b"}, "name"),
        ({"can": "everything"}, "can"),
        ({"can": []}, "can"),
        ({"can": "manage-tenants"}, "can"),
        ({"jobs": []}, "jobs"),
        ({"jobs": "a b"}, "jobs"),
        ({"expires_at": START}, "expires_at"),
        ({"expires_at": datetime(2027, 1, 1)}, "expires_at"),  # noqa: DTZ001 (naive on purpose)
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(tenants: Tenants, given: dict[str, Any], field: str) -> None:
    whole = {"tenant": "acme", "name": "crm", "can": "submit"} | given
    with pytest.raises(InvalidInput) as problem:
        tenants.create_key(whole.pop("tenant"), whole.pop("name"), whole.pop("can"), **whole)
    assert problem.value.field == field
    assert tenants.keys("acme") == []


@pytest.mark.parametrize("key", ["", None, 7])
def test_an_id_that_is_none(tenants: Tenants, key: Any) -> None:
    with pytest.raises(InvalidInput, match="key="):
        tenants.revoke_key("acme", key)
