"""Profiles of tenants: one transaction or nothing, conditional on the version; read alone, with the revisions, and all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.schedule import freeze_key
from quarterjack.domain.tenants.profile import INSTALLATION, Grant, TenantProfile, TenantState
from quarterjack.ports.services import Services

from tests.support.builders import NOON, a_definition, a_head, a_revision, an_audit_entry

FULL = TenantProfile(
    tenant="acme",
    state=TenantState.SUSPENDED,
    jobs=("report.*", "http.get"),
    grants=(
        Grant(to="app:alice@acme", can=("operator", "submit"), jobs=("report.*",)),
        Grant(to="iam:*", can=("viewer",)),
    ),
    queue="bulk",
    description="Ümlaut Ltd.",
    suspension_reason="unpaid",
    created_at=NOON,
    updated_at=NOON + 1,
)


def test_a_profile_comes_back_whole(services: Services) -> None:
    least, nothing = TenantProfile(tenant="beta"), TenantProfile(tenant="gamma", jobs=())
    for profile in (FULL, least, nothing):
        assert services.tenants.put(profile, expected=0)
        assert services.tenants.profile(profile.tenant) == replace(profile, version=1)
    assert services.tenants.profile("other") is None


def test_a_change_is_conditional_on_the_version(services: Services) -> None:
    assert not services.tenants.put(FULL, expected=1)
    assert services.tenants.put(FULL, expected=0)
    assert not services.tenants.put(TenantProfile(tenant="acme"), expected=0)
    assert services.tenants.put(TenantProfile(tenant="acme", version=1), expected=1)
    assert services.tenants.profile("acme") == TenantProfile(tenant="acme", version=2)  # nothing of the former stays


def test_the_line_and_the_profile_stand_or_fall_together(services: Services) -> None:
    line = replace(an_audit_entry(), act=AuditAct.CREATE_TENANT, target="acme")
    assert not services.tenants.put(FULL, expected=3, audit=line)
    assert not list(services.audit.entries(line.tenant, line.day))
    assert services.tenants.put(FULL, expected=0, audit=line)
    assert [stored.entry for stored in services.audit.entries(line.tenant, line.day)] == [line]


def test_all_profiles_are_listed(services: Services) -> None:
    names = {INSTALLATION, *(f"t{number}" for number in range(30))}
    for name in names:
        assert services.tenants.put(TenantProfile(tenant=name), expected=0)
    assert {profile.tenant for profile in services.tenants.profiles()} == names


def test_what_holds_for_a_tenant(services: Services) -> None:
    assert services.tenants.governance("acme", NOON).own is None
    default = TenantProfile(tenant=INSTALLATION, jobs=("a",))
    services.tenants.put(default, expected=0)
    services.tenants.put(FULL, expected=0)
    found = services.tenants.governance("acme", NOON)
    assert (found.own, found.installation) == (replace(FULL, version=1), replace(default, version=1))
    of_installation = services.tenants.governance(INSTALLATION, NOON)
    assert of_installation.own == of_installation.installation == replace(default, version=1)


@pytest.mark.parametrize("number", [1, 130])
def test_profiles_are_read_with_revisions_and_freezes(services: Services, number: int) -> None:
    """Also if they are more than one request takes."""
    services.schedules.arm(
        a_head(), expected=0, previous=None, revision=a_revision(definition=a_definition()), entry=None
    )
    services.tenants.put(FULL, expected=0)
    tenants = {"acme", *(f"t{each}" for each in range(number))}
    keys = [(a_head().owner, 1), *map(freeze_key, tenants)]
    batch = services.schedules.revisions_freezes_profiles(keys, tenants, NOON)
    assert set(batch.found) == {(a_head().owner, 1)}
    assert (batch.unanswered, batch.frozen, batch.broken) == (frozenset(), {}, {})
    assert set(batch.governance) == tenants
    assert batch.governance["acme"].own == replace(FULL, version=1)
    assert batch.governance["t0"].own is None
