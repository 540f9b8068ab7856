"""What a tenant's state forbids."""

from __future__ import annotations

import pytest
from quarterjack.domain.tenants.access import ACCEPTS, Verb, forbids, not_served
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile, TenantState


def in_state(state: TenantState, note: str | None = None) -> Governance:
    return Governance(tenant="acme", own=TenantProfile(tenant="acme", state=state, suspension_reason=note))


@pytest.mark.parametrize("verb", Verb)
def test_a_suspended_tenant_takes_no_new_work_and_an_erased_one_nothing(verb: Verb) -> None:
    assert (forbids(in_state(TenantState.SUSPENDED), verb) is not None) == (verb in ACCEPTS)
    left = {Verb.READ_TENANT, Verb.MANAGE_TENANTS, Verb.READ_AUDIT}
    for state in (TenantState.ERASING, TenantState.ERASED):
        assert (forbids(in_state(state), verb) is None) == (verb in left)
    assert forbids(in_state(TenantState.ACTIVE), verb) is None
    assert forbids(Governance(tenant="acme"), verb) is None


def test_the_installations_state_is_nobodys() -> None:
    default = TenantProfile(tenant=INSTALLATION, state=TenantState.SUSPENDED)
    assert not_served(Governance(tenant="acme", installation=default)) is None


def test_the_words_name_the_reason_and_the_remedy() -> None:
    said = not_served(in_state(TenantState.SUSPENDED, "unpaid"))
    assert said == "tenant 'acme' is suspended (unpaid); ask an operator of the installation to resume it"
    assert "not used again" in (not_served(in_state(TenantState.ERASED)) or "")
