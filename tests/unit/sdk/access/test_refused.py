"""What a refusal says, what it leaves in the audit, what it does not reveal; and who passes without a grant."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from quarterjack import AsyncScheduler, Context, Grant, Registry, Retry, Scheduler, Tenants
from quarterjack.domain.tenants.access import Verb, without_admin
from quarterjack.domain.tenants.caller import Via, role
from quarterjack.domain.tenants.profile import INSTALLATION, Governance, TenantProfile, TenantState
from quarterjack.errors import Forbidden, InvalidInput, NotFound, TenantSuspended, Unavailable
from quarterjack.owner import access
from quarterjack.testing import Harness

from tests.support.scenes.granted import (
    CALLER,
    CASES,
    FOREIGN,
    GRANTED,
    LIMIT,
    OTHER,
    OWN,
    REFUSED,
    Installation,
    Things,
    at,
    is_refused,
    registry,
)
from tests.support.scenes.world import Faults


@pytest.fixture(autouse=True)
def denials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "DENIALS", access.DenialSampler())


@pytest.fixture
def here() -> Installation:
    made = Installation()
    made.close()
    return made


def give(here: Installation, *can: str, jobs: tuple[str, ...] = ("*",), to: str = CALLER) -> None:
    here.grant(OWN, Grant(to=OTHER, can=("admin",)), Grant(to=to, can=can, jobs=jobs))


def denied(here: Installation) -> list[Any]:
    return [line for line in here.memory.audit_entries() if line.act == "deny"]


# The audit.


def test_a_refusal_has_a_line_with_what_was_missing(here: Installation) -> None:
    with pytest.raises(Forbidden):
        here.caller().acting_as("alice").submit(GRANTED)
    (line,) = denied(here)
    assert (line.tenant, line.target, line.actor, line.identity) == (OWN, OWN, "app:alice", CALLER)
    assert line.detail == {"verb": "submit", "job": GRANTED, "principal": CALLER}


def test_a_minute_has_one_line_of_a_principal_and_verb(here: Installation) -> None:
    for _ in range(5):
        for act in (here.caller().thaw, here.caller().list_runs):
            is_refused(act)
    assert [line.detail["verb"] for line in denied(here)] == ["freeze", "read-runs"]
    here.clock.advance(timedelta(seconds=59))
    is_refused(here.caller().thaw)
    assert len(denied(here)) == 2
    here.clock.advance(timedelta(seconds=1))
    is_refused(here.caller().thaw)
    assert len(denied(here)) == 3


def test_a_process_writes_sixty_lines_a_minute_at_the_most(here: Installation) -> None:
    here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)))
    for number in range(80):  # each a Scheduler of its own, as a web server may make one for each request
        assert is_refused(here.caller(f"t{number}").thaw) is not None
    assert len(denied(here)) == access.MOST_DENIALS


def test_a_clock_that_was_set_back_does_not_end_the_lines(here: Installation) -> None:
    sampler = access.DenialSampler()
    assert sampler.takes(OWN, CALLER, Verb.FREEZE, 10**12)
    assert sampler.takes(OWN, CALLER, Verb.FREEZE, 10**12 - 3_600_000)


def test_a_line_that_cannot_be_written_changes_nothing_about_the_refusal(here: Installation) -> None:
    def throttled() -> None:
        raise Unavailable("injected")

    faults = Faults().at("write_line", before=throttled, times=None)
    services = replace(here.memory.connect(faults), identity=lambda: CALLER)
    with pytest.raises(Forbidden):
        Scheduler(OWN, jobs=registry(), services=services, clock=here.clock).thaw()
    assert "write_line" in faults.verbs()
    assert denied(here) == []


def test_of_a_tenant_that_is_erased_nothing_is_written(here: Installation) -> None:
    here.put_state(OWN, TenantState.ERASED)
    assert is_refused(here.caller().thaw) is not None
    assert denied(here) == []


# What it reveals.


@pytest.mark.parametrize("case", [case for case in CASES if case.about_job], ids=lambda case: case.method)
def test_what_is_there_and_what_is_not_are_one_refusal_in_another_tenant(here: Installation, case: Any) -> None:
    there = here.things[FOREIGN, REFUSED]
    missing = Things(job="no.such", name="no-such", run=f"{FOREIGN}/~no-such#once")
    texts = []
    for of in (there, missing):
        refused = is_refused(case.act, here.caller(FOREIGN), of)
        assert refused is not None
        text = str(refused)
        for part in (of.run, of.name, of.job):
            text = text.replace(part, "?")
        texts.append(text)
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.about_job and case.method not in ("create_schedule", "upsert_schedule")],
    ids=lambda case: case.method,
)
def test_a_caller_with_some_jobs_does_not_learn_of_the_things_of_others(here: Installation, case: Any) -> None:
    """Of a schedule or a run that is missing, and of one with another job, it is told the same. A job is named by the caller only."""
    give(here, *case.needs, jobs=(LIMIT,))
    there, missing = here.things[OWN, REFUSED], Things(job=REFUSED, name="no-such", run=f"{OWN}/~no-such#once")
    texts = []
    for of in (there, missing):
        refused = is_refused(case.act, here.caller(), of)
        assert refused is not None
        text = str(refused)
        for part in (of.run, of.name):
            text = text.replace(part, "?")
        texts.append(text)
    assert texts[0] == texts[1]


def test_no_hint_names_what_the_caller_may_not_read(here: Installation) -> None:
    give(here, "pause")
    with pytest.raises(NotFound) as missing:
        here.caller().pause_schedule("report-dayly")
    assert "report-daily" not in str(missing.value)
    give(here, "pause", "read-schedules")
    with pytest.raises(NotFound):
        here.caller().get_schedule("report-dayly")


def test_no_hint_names_jobs_of_others(here: Installation) -> None:
    give(here, "editor", jobs=("refund.*",))
    with pytest.raises(InvalidInput) as refused:
        here.caller().strictly().submit("refund.pai")
    assert "refund.pay" in str(refused.value)
    assert GRANTED not in str(refused.value)


def test_runs_of_a_schedule_from_before_it_had_a_granted_job_are_left_out(here: Installation) -> None:
    admin, name = here.scheduler(OWN, OTHER), here.things[OWN, REFUSED].name
    before = admin.trigger(name)
    admin.update_schedule(name, job=GRANTED)
    after = admin.trigger(name)
    give(here, "operator", jobs=(LIMIT,))
    on = here.caller()
    assert [run.id for run in on.list_runs(name).items if run.kind == "trigger"] == [after.id]
    assert before.id not in {run.id for run in on.describe_schedule(name).last_runs}
    assert on.cancel_runs(name, between=(at(-9), at(9)), dry_run=True) == 1
    assert is_refused(on.get_run, before.id) is not None


def test_a_schedule_that_changes_its_job_meanwhile_is_not_changed(here: Installation) -> None:
    """The check is of the head on which the change is conditional."""
    name, admin = here.things[OWN, GRANTED].name, here.scheduler(OWN, OTHER)
    give(here, "editor", jobs=(LIMIT,))
    faults = Faults().at("close", before=lambda: admin.update_schedule(name, job=REFUSED))
    services = replace(here.memory.connect(faults), identity=lambda: CALLER)
    with pytest.raises(Forbidden):
        Scheduler(OWN, jobs=registry(), services=services, clock=here.clock).pause_schedule(name)
    assert admin.get_schedule(name).state == "ACTIVE"


def test_nor_is_one_retagged_in_bulk(here: Installation) -> None:
    name, admin = here.things[OWN, GRANTED].name, here.scheduler(OWN, OTHER)
    give(here, "editor", jobs=(LIMIT,))
    faults = Faults().at("close", before=lambda: admin.update_schedule(name, job=REFUSED))
    services = replace(here.memory.connect(faults), identity=lambda: CALLER)
    on = Scheduler(OWN, jobs=registry(), services=services, clock=here.clock)
    done = on.bulk("retag", job=GRANTED, tags={"a": "b"})
    assert "may not update" in done.failed[name]
    assert admin.get_schedule(name).tags == {}


def test_nobody_has_a_job_run_by_a_failure_that_he_may_not_submit(here: Installation) -> None:
    give(here, "editor", jobs=(LIMIT,))
    for field in ("on_failure", "on_recovery"):
        words: Any = {field: f"job:{REFUSED}"}
        with pytest.raises(Forbidden):
            here.caller().create_schedule("new", GRANTED, "0 9 * * *", **words)
        with pytest.raises(Forbidden):
            here.caller().update_schedule(here.things[OWN, GRANTED].name, **words)


def test_a_plan_is_carried_out_whole_or_not_at_all(here: Installation) -> None:
    give(here, "editor", jobs=(LIMIT,))
    admin, changes = here.scheduler(OWN, OTHER), list[Any]()
    for case in CASES:
        if case.method == "carry_out" and case.needs == {"create"}:
            for job in (GRANTED, REFUSED):
                is_refused(case.act, Recorder(changes), here.things[OWN, job])
    whole = replace(changes[0], changes=[*changes[0].changes, *changes[1].changes])
    with pytest.raises(Forbidden):
        here.caller().carry_out(whole)
    assert len(admin.list_schedules().items) == 2


class Recorder:
    """Takes the plans that a case would carry out."""

    def __init__(self, plans: list[Any]) -> None:
        self.plans = plans

    def carry_out(self, plan: Any, *, prune: bool) -> None:
        assert prune
        self.plans.append(plan)


def test_all_tenants_are_those_that_the_caller_may_read() -> None:
    """Where the installation has no grants; with grants of its own it needs one of these."""
    here = Installation()
    here.grant(FOREIGN, Grant(to=OTHER, can=("admin",)))
    assert {run.tenant for run in here.caller().list_runs(all_tenants=True).items} <= {OWN}
    here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)))
    assert is_refused(lambda: here.caller().workers(all_tenants=True)) is not None


# Payloads.


def failed() -> tuple[Harness, str]:
    harness = Harness(registry(), at=at(0), tenant=OWN)

    @harness.scheduler._jobs.job("fails")
    def fails(ctx: Any, payload: Any) -> None:
        ctx.step("first", lambda: "a step's secret")
        raise ValueError(f"the error's secret {payload}")

    run = harness.scheduler.submit("fails", {"secret": 7})
    harness.scheduler.create_schedule("s", "fails", "0 9 * * *", payload={"secret": 7}, retry=Retry(max_attempts=1))
    harness.advance(days=3)
    return harness, run.id


def test_a_viewer_sees_no_payload_and_no_text_of_an_error() -> None:
    harness, run_id = failed()
    tenants, on = harness.tenants, harness.scheduler
    assert "secret" in repr(on.get_run(run_id))
    tenants.grant(INSTALLATION, "iam:*", "admin")
    tenants.grant(INSTALLATION, "app:boss", "admin")
    tenants.grant(OWN, "app:viewer", "viewer")
    viewer = on.acting_as("viewer")
    run = viewer.get_run(run_id)
    assert run.masked
    assert (run.payload, run.result, run.steps) == (None, None, {})
    assert run.error_type == "ValueError"
    seen = [
        run,
        viewer.get_schedule("s"),
        viewer.describe_schedule("s"),
        viewer.list_schedules().items,
        viewer.list_runs().items,
        viewer.list_runs("s").items,
        viewer.list_dead().items,
        viewer.list_dead().items[0],
        viewer.why_run(run_id),
        viewer.stats(),
        viewer.list_running(),
    ]
    for view in seen:
        assert "secret" not in repr(view), view
    assert viewer.get_schedule("s").masked
    assert viewer.list_dead().items[0].masked
    assert "secret" in repr(on.acting_as("boss").get_run(run_id))
    assert not on.acting_as("boss").get_run(run_id).masked


def test_what_an_act_returns_is_masked_too() -> None:
    harness, run_id = failed()
    harness.tenants.grant(INSTALLATION, "iam:*", "admin")
    harness.tenants.grant(OWN, "app:repeats", ["replay", "redrive", "cancel"])
    on = harness.scheduler.acting_as("repeats")
    assert "secret" not in repr(on.replay_run(run_id))
    assert "secret" not in repr(on.redrive(run_id))
    assert "secret" not in repr(on.cancel_run(run_id))


def test_an_error_about_a_stored_payload_does_not_show_it_to_who_may_not_read_it() -> None:
    """It was stored for a job that took anything, and no longer does."""

    @dataclass
    class Typed:
        word: str

    before, after = registry(), Registry()

    @after.job(GRANTED)
    def typed(ctx: Context, payload: Typed) -> None: ...

    harness = Harness(before, at=at(0), tenant=OWN)
    harness.scheduler.create_schedule("s", GRANTED, "0 9 * * *", payload={"word": ["hunter2"]})
    harness.tenants.grant(INSTALLATION, "iam:*", "admin")
    harness.tenants.grant(OWN, "app:triggers", "trigger")
    on = Scheduler(OWN, jobs=after, services=harness.scheduler.session.services, clock=harness.clock)
    with pytest.raises(InvalidInput, match="hunter2"):
        on.trigger("s")
    with pytest.raises(InvalidInput, match="masked") as refused:
        on.acting_as("triggers").trigger("s")
    assert "hunter2" not in f"{refused.value} {refused.value.__cause__} {refused.value.value}"


# Who passes.


def test_without_any_grant_nobody_is_asked_who_it_is() -> None:
    here = Installation()
    services = replace(here.memory.connect(), identity=lambda: pytest.fail("STS was asked"))
    on = Scheduler(OWN, jobs=registry(), services=services, clock=here.clock)
    on.get_schedule(here.things[OWN, GRANTED].name)
    on.list_runs()
    on.preview(here.things[OWN, GRANTED].name)


def test_an_identity_that_is_not_known_is_nobody(here: Installation) -> None:
    give(here, "admin", to="iam:*")
    services = replace(here.memory.connect(), identity=lambda: "iam:unknown (no answer)")
    with pytest.raises(Unavailable, match="who calls"):
        Scheduler(OWN, jobs=registry(), services=services, clock=here.clock).thaw()


def test_a_claim_narrows_and_never_widens(here: Installation) -> None:
    here.grant(OWN, Grant(to=OTHER, can=("admin",)), Grant(to="app:alice", can=("admin",)))
    assert is_refused(here.caller().acting_as("alice").thaw) is not None
    here.grant(OWN, Grant(to=CALLER, can=("admin",)), Grant(to="app:alice", can=("viewer",)))
    assert is_refused(here.caller().thaw) is None
    refused = is_refused(here.caller().acting_as("alice").thaw)
    assert refused is not None
    assert refused.principal == "app:alice"
    assert is_refused(here.caller().acting_as("bob").list_runs) is not None
    assert is_refused(here.caller().acting_as("alice").list_runs) is None


def test_no_caller_can_say_that_it_is_the_system(here: Installation) -> None:
    on = here.caller()
    for way in (Via.SYSTEM, "system"):
        with pytest.raises(InvalidInput):
            on.acting_as(via=way)
        with pytest.raises(InvalidInput):
            Scheduler(OWN, services=here.services, via=way)
        with pytest.raises(InvalidInput):
            Tenants(services=here.services, via=way)
    for name in ("system:worker", "app:system:worker", "iam:root", "key:1", "oidc:x", "app:key:1"):
        with pytest.raises(InvalidInput):
            on.acting_as(name)
    assert is_refused(on.thaw) is not None


def test_roles_of_the_installation_need_none(here: Installation) -> None:
    on = here.caller().with_caller(role("worker"))
    assert is_refused(on.thaw) is None
    assert on._of_one_call(Via.APPLY).session.caller.is_system


def test_coroutines_are_refused_alike(here: Installation) -> None:
    async def main() -> None:
        async with AsyncScheduler.of(here.caller()) as on:
            with pytest.raises(Forbidden):
                await on.wait_for(here.things[OWN, GRANTED].run)
            with pytest.raises(Forbidden):
                await on.get_run(here.things[OWN, GRANTED].run)
            with pytest.raises(Forbidden):
                async for _ in on.archive(since=at(-60)):
                    pass

    asyncio.run(main())


def test_a_profile_is_read_once_in_five_seconds(here: Installation) -> None:
    reads: list[str] = []

    class Counting(Faults):
        def before_call(self, operation: str, detail: Any) -> Any:
            if detail.verb == "governance":
                reads.append(operation)
            return super().before_call(operation, detail)

    give(here, "editor")
    services = replace(here.memory.connect(Counting()), identity=lambda: CALLER)
    on = Scheduler(OWN, jobs=registry(), services=services, clock=here.clock)
    for _ in range(50):
        on.submit(GRANTED)
        on.acting_as("alice").list_schedules()
    assert len(reads) == 1
    here.clock.advance(timedelta(seconds=6))
    on.submit(GRANTED)
    assert len(reads) == 2


# The state of the tenant.


def test_a_suspended_tenant_takes_no_new_work(here: Installation) -> None:
    give(here, "admin")
    here.put_state(OWN, TenantState.SUSPENDED)
    on, things = here.caller(), here.things[OWN, GRANTED]
    for act in (lambda: on.submit(GRANTED), lambda: on.trigger(things.name), lambda: on.resume_schedule(things.name)):
        with pytest.raises(TenantSuspended):
            act()
    on.pause_schedule(things.name)
    assert on.get_schedule(things.name).state == "PAUSED"


def test_of_an_erased_tenant_only_the_profile_and_the_audit_are_left(here: Installation) -> None:
    here.grant(INSTALLATION, Grant(to=CALLER, can=("admin",)))
    here.put_state(OWN, TenantState.ERASING)
    for case in CASES:
        if case.needs == {Verb.READ_AUDIT}:
            case.act(here.caller(), here.things[OWN, GRANTED])
            continue
        with pytest.raises(TenantSuspended):
            case.act(here.caller(), here.things[OWN, GRANTED])
    assert here.tenants().get(OWN).state is TenantState.ERASING


def test_the_state_of_a_tenant_is_told_to_those_who_may(here: Installation) -> None:
    here.services.tenants.put(
        TenantProfile(tenant="new", state=TenantState.SUSPENDED, suspension_reason="unpaid"), expected=0
    )
    here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)))
    refused = is_refused(lambda: here.caller("new").submit(GRANTED))
    assert refused is not None
    assert not isinstance(refused, TenantSuspended)
    assert "unpaid" not in str(refused)


# The last admin.


def test_grants_that_nobody_could_change_any_more_are_refused() -> None:
    tenants = Installation().tenants()
    for tenant in (OWN, INSTALLATION):
        with pytest.raises(InvalidInput, match="nobody who may"):
            tenants.grant(tenant, CALLER, "editor")
        with pytest.raises(InvalidInput, match="nobody who may"):
            tenants.grant(tenant, CALLER, "admin", jobs=LIMIT)
        for alone in ("app:alice", "app:*", "key:crm"):  # a claim needs its process's grant, too; keys go by no grants
            with pytest.raises(InvalidInput, match="nobody who may"):
                tenants.grant(tenant, alone, "admin")
    tenants.grant(INSTALLATION, CALLER, "admin")
    tenants.grant(INSTALLATION, "app:alice", "admin")
    tenants.grant(INSTALLATION, OTHER, "viewer")
    tenants.grant(OWN, OTHER, "viewer")
    with pytest.raises(InvalidInput, match="nobody who may"):
        tenants.revoke(INSTALLATION, CALLER)
    half = TenantProfile(tenant=INSTALLATION, grants=(Grant(to=CALLER, can=("grant",)),))
    assert without_admin(Governance(tenant=INSTALLATION, installation=half)) is Verb.MANAGE_TENANTS
    tenants.revoke(INSTALLATION, OTHER)
    tenants.revoke(INSTALLATION, "app:alice")
    assert tenants.revoke(INSTALLATION, CALLER).grants == ()


@pytest.mark.parametrize("can", ["editor", "admin"])
def test_who_may_do_everything_in_a_tenant_may_not_erase_it(here: Installation, can: str) -> None:
    here.grant(INSTALLATION, Grant(to=OTHER, can=("admin",)))
    give(here, can)
    assert is_refused(partial(here.tenants().erase, confirm=OWN), OWN) is not None
    assert here.tenants().session.services.tenants.profile(OWN).state is TenantState.ACTIVE  # type: ignore[union-attr]


def test_where_the_installation_has_no_grants_a_tenant_that_has_some_is_managed_by_its_admins_alone(
    here: Installation,
) -> None:
    here.grant(OWN, Grant(to=OTHER, can=("admin",)), Grant(to=CALLER, can=("viewer",)))
    for act in (
        here.tenants().suspend,
        here.tenants().count_erasure,
        lambda tenant: here.tenants().set(tenant, jobs=[]),
    ):
        refused = is_refused(act, OWN)
        assert refused is not None
        assert (refused.principal, refused.verb) == (CALLER, Verb.MANAGE_TENANTS)
    here.grant(OWN, Grant(to=OTHER, can=("admin",)), Grant(to=CALLER, can=("admin",)))
    assert is_refused(here.tenants().set, OWN) is None
