"""Copies of a Scheduler for another tenant or caller: they share its connections, and nothing of the original changes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from quarterjack import AsyncScheduler, Grant, Scheduler, Tenants
from quarterjack.domain.tenants.caller import AccessScope, Caller, Via, role
from quarterjack.errors import Forbidden, InvalidInput
from quarterjack.sdk.session import over
from quarterjack.testing.memory.installation import IDENTITY

from tests.support.scenes.world import World

DAILY = "0 0 * * *"


def test_a_copy_for_another_tenant_sees_its_schedules_alone() -> None:
    owner = World().owner()
    beta = owner.with_tenant("beta")
    beta.create_schedule("s", "note", DAILY)
    assert (owner.tenant, beta.tenant) == ("acme", "beta")
    assert owner.list_schedules().items == []
    assert [one.tenant for one in beta.list_schedules().items] == ["beta"]
    assert beta.session is owner.session


@pytest.mark.parametrize("tenant", ["no/tenant", "", "~installation", None])
def test_a_copy_for_no_tenant_is_refused(tenant: Any) -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        World().owner().with_tenant(tenant)


def test_a_copy_for_a_caller_acts_as_it_and_keeps_its_strictness() -> None:
    world = World()
    owner = world.owner()
    owner.with_caller(Caller(actor="key:crm", via=Via.API, reason="why")).create_schedule("s", "note", DAILY)
    owner.create_schedule("t", "note", DAILY)
    assert [(one.actor, one.via, one.reason) for one in world.memory.audit_entries()] == [
        ("key:crm", Via.API, "why"),
        (IDENTITY, Via.SDK, None),
    ]
    with pytest.raises(InvalidInput, match="is not registered in this process"):
        owner.strictly().with_caller(role("worker")).submit("notte")


def test_a_caller_may_do_what_its_scope_says_in_tenants_too() -> None:
    world = World()
    scope = AccessScope(tenant="acme", grant=Grant(to="key:crm", can=("viewer",)))
    caller = Caller(actor="key:crm", via=Via.API, is_remote=True, scope=scope)
    with pytest.raises(Forbidden):
        world.owner().with_caller(caller).create_schedule("s", "note", DAILY)
    with pytest.raises(Forbidden):
        Tenants(services=world.services, clock=world.clock).with_caller(caller).create("acme")


async def types(scheduler: AsyncScheduler) -> tuple[AsyncScheduler, AsyncScheduler]:
    """Never called: mypy reads it."""
    return scheduler.with_tenant("beta"), scheduler.with_caller(role("worker"))


def test_copies_of_an_asynchronous_one_share_its_threads() -> None:
    owner = World().owner()
    scheduler = AsyncScheduler.of(owner)
    assert scheduler.with_tenant("beta").tenant == "beta"
    assert scheduler.tenant == "acme"
    assert scheduler.with_caller(role("worker"))._scheduler.session.caller.is_system
    assert scheduler.with_tenant("beta")._threads is scheduler._threads


def test_a_session_is_a_value() -> None:
    owner = World().owner()
    other = over(owner, replace(owner.session, patience=0.0))
    assert isinstance(other, Scheduler)
    assert (other.session.patience, other.session.services) == (0.0, owner.session.services)
    assert owner.session.patience == 10.0
    with pytest.raises(FrozenInstanceError):
        owner.session.patience = 1.0  # type: ignore[misc]


def test_acts_of_one_call_share_an_id_and_those_of_two_do_not() -> None:
    session = World().owner().session
    calls = {session.context().caller.call for _ in range(2)}
    assert len(calls) == 2
    assert None not in calls
    one = replace(session, caller=session.caller_of_call())
    assert one.context().caller == one.caller
