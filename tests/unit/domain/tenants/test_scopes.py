"""What a caller may do that brings a scope along: an API key."""

from __future__ import annotations

import pytest
from quarterjack.domain.tenants.access import OF_INSTALLATION, Role, Verb, scoped, verbs_of
from quarterjack.domain.tenants.caller import AccessScope
from quarterjack.domain.tenants.profile import INSTALLATION, Grant


def a_scope(*can: str, jobs: tuple[str, ...] = ("*",)) -> AccessScope:
    return AccessScope(tenant="acme", grant=Grant(to="key:crm", can=can, jobs=jobs))


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("role", Role)
def test_it_gives_what_its_role_has_and_nothing_of_the_whole_installation(role: Role, verb: Verb) -> None:
    assert scoped(a_scope(role), "acme", verb).covers(None) is (verb in verbs_of([role]) - OF_INSTALLATION)


@pytest.mark.parametrize("tenant", ["acme2", "ACME", "beta", INSTALLATION])
@pytest.mark.parametrize("verb", Verb)
def test_it_gives_nothing_of_another_tenant(tenant: str, verb: Verb) -> None:
    found = scoped(a_scope("admin"), tenant, verb)
    assert found.nobody == "key:crm"
    assert not found.covers("any.job")


def test_it_is_limited_to_its_jobs() -> None:
    found = scoped(a_scope("editor", jobs=("crm.*", "mail")), "acme", Verb.SUBMIT)
    assert [found.covers(job) for job in ("crm.sync", "mail", "mail.send", None)] == [True, True, False, False]
