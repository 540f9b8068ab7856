"""Secrets of tenants: each under its tenant's path, replaced and removed by name, listed without values."""

from __future__ import annotations

import pytest
from quarterjack.errors import InvalidInput, Misconfigured
from quarterjack.ports.services import Services


def test_a_tenant_has_its_own(services: Services) -> None:
    secrets = services.secrets
    for tenant in ("acme", "acme2", "beta"):
        secrets.put(tenant, "crm-token", f"hush-of-{tenant}")
    assert [secrets.get(tenant, "crm-token") for tenant in ("acme", "acme2", "beta")] == [
        "hush-of-acme",
        "hush-of-acme2",
        "hush-of-beta",
    ]
    assert [secret.name for secret in secrets.list("acme")] == ["crm-token"]
    assert secrets.delete("acme", "crm-token")
    assert secrets.list("acme") == []
    assert secrets.get("acme2", "crm-token") == "hush-of-acme2"


def test_a_new_value_replaces_the_old_one(services: Services) -> None:
    services.secrets.put("acme", "crm", "hush-first")
    services.secrets.put("acme", "crm", ' zwei "Wörter" \n')
    assert services.secrets.get("acme", "crm") == 'zwei "Wörter"'
    (listed,) = services.secrets.list("acme")
    assert (listed.name, listed.version, listed.changed_at is not None) == ("crm", 2, True)
    assert "hush" not in repr(listed)


def test_all_are_listed_by_name(services: Services) -> None:
    names = [f"s{number:02}" for number in range(25)]
    for name in reversed(names):
        services.secrets.put("acme", name, "hush-0123")
    assert [secret.name for secret in services.secrets.list("acme")] == names


def test_what_is_not_there_says_where_it_would_be(services: Services) -> None:
    with pytest.raises(Misconfigured, match=r"no parameter /\S+/tenants/acme/crm; store it"):
        services.secrets.get("acme", "crm")
    assert not services.secrets.delete("acme", "crm")
    assert services.secrets.list("acme") == []


@pytest.mark.parametrize("name", ["..", "../beta/crm", "a/b", "a:1", "", "-a"])
def test_no_name_leads_elsewhere(services: Services, name: str) -> None:
    for call in (services.secrets.get, services.secrets.delete):
        with pytest.raises(InvalidInput):
            call("acme", name)
