"""The registry of tenants, as operators use it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Grant, Scheduler, Tenants, TenantState
from quarterjack.auditor.log_closing import close_days
from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.editing import MAX_TEXT
from quarterjack.domain.tenants.profile import INSTALLATION, MAX_GRANTS, TenantProfile
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, NotFound, TenantSuspended
from quarterjack.testing import ManualClock, Memory
from quarterjack.testing.memory.calls import Detail, Hook

ALICE = "app:alice@acme"
START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def memory(clock: ManualClock) -> Memory:
    return Memory(clock)


@pytest.fixture
def tenants(memory: Memory, clock: ManualClock) -> Tenants:
    return Tenants(services=memory.connect(), clock=clock)


def with_admins(memory: Memory) -> None:
    """Everybody may do everything by the installation's grants: a tenant whose grants leave nobody who gives grants is refused."""
    admins = tuple(Grant(to=to, can=("admin",)) for to in ("iam:*", "app:*"))
    memory.connect().tenants.put(TenantProfile(tenant=INSTALLATION, grants=admins), expected=0)


def test_a_tenant_is_created_changed_and_shown(tenants: Tenants, clock: ManualClock) -> None:
    made = tenants.create("acme", jobs=["report.*", "report.*"], queue="bulk", description="Acme Ltd.")
    assert (made.jobs, made.queue, made.description, made.version) == (("report.*",), "bulk", "Acme Ltd.", 1)
    assert made.state is TenantState.ACTIVE
    assert made == tenants.get("acme")
    clock.advance(timedelta(seconds=7))
    changed = tenants.set("acme", jobs=None, description="x")
    assert (changed.jobs, changed.queue, changed.description, changed.version) == (None, "bulk", "x", 2)
    assert (changed.created_at, changed.updated_at) == (START, START + timedelta(seconds=7))
    tenants.set(INSTALLATION, jobs=["a"])
    tenants.create("aaa")
    assert [each.name for each in tenants.list()] == [INSTALLATION, "aaa", "acme"]


def test_a_second_creation_is_refused(tenants: Tenants) -> None:
    tenants.create("acme")
    with pytest.raises(AlreadyExists, match="acme"):
        tenants.create("acme")


def test_a_tenant_without_a_profile_is_named_as_one(tenants: Tenants) -> None:
    with pytest.raises(NotFound, match="defaults of the installation"):
        tenants.get("acme")
    assert tenants.list() == []


def test_what_changes_nothing_writes_nothing(tenants: Tenants, memory: Memory) -> None:
    with_admins(memory)
    tenants.create("acme", description="x")
    tenants.grant("acme", ALICE, "operator")
    lines = len(memory.audit_entries())
    tenants.set("acme", description="x")
    tenants.grant("acme", ALICE, "operator")
    tenants.resume("acme")
    assert tenants.get("acme").version == 2
    tenants.resume("new")
    assert len(memory.audit_entries()) == lines
    with pytest.raises(NotFound):
        tenants.get("new")


def test_jobs_are_added_and_removed(tenants: Tenants) -> None:
    tenants.create("acme", jobs=["a", "b"])
    assert tenants.set("acme", add_jobs=["c", "a"], remove_jobs=["b"]).jobs == ("a", "c")
    with pytest.raises(InvalidInput, match="remove_jobs"):
        tenants.set("acme", remove_jobs=["x"])
    assert tenants.get("acme").version == 2


def test_jobs_are_added_to_those_of_the_installation(tenants: Tenants) -> None:
    with pytest.raises(InvalidInput, match="may run all jobs"):
        tenants.set("acme", add_jobs=["c"])
    tenants.create(INSTALLATION, jobs=["a", "b"])
    assert tenants.set("acme", add_jobs=["c"]).jobs == ("a", "b", "c")


def test_a_tenant_is_suspended_and_resumed(tenants: Tenants) -> None:
    """Also one without a profile: it must be possible at once."""
    found = tenants.suspend("acme", reason="unpaid")
    assert (found.state, found.suspension_reason, found.version) == (TenantState.SUSPENDED, "unpaid", 1)
    assert tenants.suspend("acme").version == 1
    assert tenants.suspend("acme", reason="still unpaid").version == 2
    resumed = tenants.resume("acme")
    assert (resumed.state, resumed.suspension_reason, resumed.version) == (TenantState.ACTIVE, None, 3)


def test_the_note_of_a_suspension_leaves_that_of_the_profile(tenants: Tenants) -> None:
    tenants.create("acme", description="Acme Ltd.")
    assert tenants.suspend("acme", reason="unpaid").description == "Acme Ltd."
    assert tenants.resume("acme").description == "Acme Ltd."


def test_a_list_of_jobs_and_changes_of_it_exclude_each_other(tenants: Tenants) -> None:
    tenants.create("acme", jobs=["a"])
    for jobs in (["b"], None):
        with pytest.raises(InvalidInput, match=r"jobs=.* replaces the list"):
            tenants.set("acme", jobs=jobs, add_jobs=["c"])
    assert tenants.get("acme").jobs == ("a",)


def test_the_installation_is_never_suspended(tenants: Tenants) -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        tenants.suspend(INSTALLATION)


def test_grants_are_given_joined_and_taken(tenants: Tenants, memory: Memory) -> None:
    with_admins(memory)
    tenants.grant("acme", ALICE, "operator", jobs="report.*")
    tenants.grant("acme", ALICE, ["submit", "operator"], jobs=["report.*"])
    tenants.grant("acme", ALICE, ["viewer"])
    assert tenants.get("acme").grants == (
        Grant(to=ALICE, can=("operator", "submit"), jobs=("report.*",)),
        Grant(to=ALICE, can=("viewer",)),
    )
    assert tenants.revoke("acme", ALICE, can="operator").grants[0].can == ("submit",)
    assert tenants.revoke("acme", ALICE, jobs=["report.*"]).grants == (Grant(to=ALICE, can=("viewer",)),)
    with pytest.raises(NotFound, match="alice"):
        tenants.revoke("acme", "app:bob")
    assert tenants.revoke("acme", ALICE).grants == ()
    with pytest.raises(NotFound, match="there are no grants"):
        tenants.revoke("acme", ALICE)


@pytest.mark.parametrize("tenant", [INSTALLATION, "acme"])
def test_a_first_grant_that_locks_its_caller_out_is_refused(tenants: Tenants, tenant: str) -> None:
    """A typo in the principal, or in the role, would leave an installation that nobody in sight may govern."""
    with pytest.raises(InvalidInput, match=r"lock its caller out.*your own principal"):
        tenants.grant(tenant, "iam:arn:aws:sts::123456789012:assumed-role/deplyoer/*", "admin")
    with pytest.raises(NotFound):
        tenants.get(tenant)
    tenants.grant(tenant, "iam:*", "admin")
    assert len(tenants.grant(tenant, "iam:arn:aws:sts::123456789012:assumed-role/other/*", "admin").grants) == 2


def test_the_first_grant_of_a_tenant_may_be_another_s_where_the_installation_s_hold(
    tenants: Tenants, memory: Memory
) -> None:
    with_admins(memory)
    assert len(tenants.grant("acme", "iam:arn:aws:sts::123456789012:assumed-role/other/*", "admin").grants) == 1


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda on: on.create("a/b"), "tenant"),
        (lambda on: on.create("~a/b"), "tenant"),
        (lambda on: on.create("a", jobs="report.*"), "jobs"),
        (lambda on: on.create("a", jobs=["re port"]), "jobs"),
        (lambda on: on.create("a", queue="Not A Queue"), "queue"),
        (lambda on: on.create("a", description="x" * 5_000), "description"),
        (lambda on: on.set("a", jobs=[f"{n:0199}" for n in range(100)]), "tenant"),
        (lambda on: on.set("a", add_jobs=7), "add_jobs"),
        (lambda on: on.set("a", expected_version=-1), "expected_version"),
        (lambda on: on.grant("a", "alice", "operator"), "to"),
        (lambda on: on.grant("a", ALICE, "opperator"), "can"),
        (lambda on: on.grant("a", ALICE, []), "can"),
        (lambda on: on.grant("a", ALICE, [7]), "can"),
        (lambda on: on.grant("a", ALICE, None), "can"),
        (lambda on: on.grant("a", ALICE, "manage-tenants"), "can"),
        (lambda on: on.grant("a", ALICE, "viewer", jobs=[]), "jobs"),
        (lambda on: on.revoke("a", ""), "to"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    tenants: Tenants, memory: Memory, call: Callable[[Tenants], Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        call(tenants)
    assert refused.value.field == field
    assert refused.value.remedy
    assert tenants.list() == []
    assert memory.audit_rows() == []


def test_a_near_word_is_hinted_at(tenants: Tenants) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'operator'"):
        tenants.grant("a", ALICE, "opperator")


def test_a_profile_stays_small(tenants: Tenants, memory: Memory) -> None:
    """It is read with every batch of a worker."""
    with_admins(memory)
    for number in range(75):
        tenants.grant("acme", f"app:{number:0200}", "viewer")
    with pytest.raises(InvalidInput, match=f"{MAX_TEXT:,}"):
        tenants.grant("acme", f"app:{75:0200}", "viewer")
    other = Tenants(services=tenants.session.services)
    for number in range(MAX_GRANTS):
        other.grant("b", f"app:{number}", "viewer")
    with pytest.raises(InvalidInput, match=str(MAX_GRANTS)):
        other.grant("b", "app:x", "viewer")


def test_every_act_has_a_line_in_its_transaction(tenants: Tenants, memory: Memory) -> None:
    with_admins(memory)
    on = tenants.acting_as("boss", reason="because")
    on.create("acme", jobs=["a"])
    on.set("acme", description="Acme Ltd.")
    on.suspend("acme", reason="unpaid")
    on.resume("acme")
    on.grant("acme", ALICE, "operator")
    on.revoke("acme", ALICE)
    lines = memory.audit_entries()
    assert [line.act for line in lines] == [
        AuditAct.CREATE_TENANT,
        AuditAct.SET_TENANT,
        AuditAct.SUSPEND_TENANT,
        AuditAct.RESUME_TENANT,
        AuditAct.GRANT,
        AuditAct.REVOKE,
    ]
    assert {(line.tenant, line.target, line.actor) for line in lines} == {("acme", "acme", "app:boss")}
    assert [line.reason for line in lines] == ["because", "because", "because; unpaid", "because", "because", "because"]
    assert lines[0].detail == {"profile": 1, "jobs": ["a"]}
    assert lines[4].detail["grant"] == {"to": ALICE, "can": ["operator"], "jobs": ["*"]}


class Races(Hook):
    """Before a profile is put, somebody else changes it."""

    def __init__(self, other: Callable[[], object], times: int) -> None:
        self.other, self.times = other, times

    def before_call(self, operation: str, detail: Detail) -> frozenset[int]:
        if detail.verb == "put_profile" and self.times:
            self.times -= 1
            self.other()
        return frozenset()


def test_two_changes_at_once_both_count(memory: Memory, clock: ManualClock) -> None:
    with_admins(memory)
    other = Tenants(services=memory.connect(), clock=clock)
    races = Races(lambda: other.grant("acme", ALICE, "viewer"), 1)
    Tenants(services=memory.connect(races), clock=clock).suspend("acme")
    found = other.get("acme")
    assert (found.state, found.version, len(found.grants)) == (TenantState.SUSPENDED, 2, 1)
    assert len(memory.audit_entries()) == 2


def test_who_loses_every_race_is_told(memory: Memory, clock: ManualClock) -> None:
    other, notes = Tenants(services=memory.connect(), clock=clock), iter(range(99))
    races = Races(lambda: other.set("acme", description=str(next(notes))), 99)
    with pytest.raises(Conflict, match="acme"):
        Tenants(services=memory.connect(races), clock=clock).suspend("acme")


def test_a_change_of_what_the_caller_did_not_see_is_refused(tenants: Tenants) -> None:
    tenants.create("acme")
    assert tenants.set("acme", description="x", expected_version=1).version == 2
    with pytest.raises(Conflict, match="version 2"):
        tenants.set("acme", description="y", expected_version=1)


@pytest.mark.parametrize("state", [TenantState.ERASING, TenantState.ERASED])
def test_an_erased_tenant_does_not_come_back(tenants: Tenants, memory: Memory, state: TenantState) -> None:
    memory.connect().tenants.put(TenantProfile(tenant="acme", state=state), expected=0)
    for call in (tenants.resume, tenants.suspend, lambda name: tenants.grant(name, ALICE, "viewer")):
        with pytest.raises((Conflict, TenantSuspended), match="acme"):
            call("acme")
    with pytest.raises(AlreadyExists, match="not used again"):
        tenants.create("acme")


def test_acts_on_the_installations_profile_are_listed_and_verified(memory: Memory, clock: ManualClock) -> None:
    on = Scheduler("acme", services=memory.connect(), clock=clock)
    Tenants(services=memory.connect(), clock=clock).set(INSTALLATION, jobs=["a"])
    (line,) = on.audit(installation=True).items
    assert (line.act, line.target) == ("set-tenant", INSTALLATION)
    assert on.audit().items == []
    assert on.tenant == "acme"
    assert on.verify_audit(installation=True).entries == 1
    assert on.verify_audit().entries == 0
    clock.advance(timedelta(days=2))
    close_days(memory.connect(), clock=clock)
    verdict = on.verify_audit(installation=True)
    assert (verdict.closes, verdict.problems) == (1, [])
