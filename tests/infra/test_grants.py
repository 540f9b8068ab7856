"""The grants: the calls of the SDK run under the statements of the template, and those have nothing that no call needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from quarterjack import Registry, Scheduler, Settings, Tenants
from quarterjack.doctor.installation import WANTED
from quarterjack.domain.audit import anchor_key
from quarterjack.domain.history.archive_objects import tenant_prefix
from quarterjack.domain.history.dead_run import DeadRunRow, dead_owner
from quarterjack.domain.names import fire_ref, schedule_owner
from quarterjack.domain.times import DAY
from quarterjack.errors import InvalidInput, Misconfigured, NotFinished
from quarterjack.fires.context import due_pages
from quarterjack.services import connect, system_clock

from infra import Quarterjack
from tests.support.policies import Need, enforced, is_allowed
from tests.support.scenes.neighbours import LIKE_IT
from tests.support.stacks import JOBS, NO_BUNDLING
from tests.support.templates import actions_of, statements

pytestmark = pytest.mark.cloud

_ACTIONS = {"batch_execute_statement": "PartiQLUpdate"}
LARGE = {"text": "x" * 70_000}  # lies in the bucket
NEVER = "0 0 1 1 *"
Statements = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Grants:
    """The statements of roles with each grant."""

    scheduling: Statements
    without_prompt: Statements
    of_tenant: Statements
    reading: Statements
    reading_tenant: Statements
    governing: Statements


@pytest.fixture(scope="module")
def grants(tmp_path_factory: pytest.TempPathFactory) -> Grants:
    stack = Stack(App(context=NO_BUNDLING, outdir=str(tmp_path_factory.mktemp("cdk.out"))), "Test")
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS)

    def role(name: str) -> iam.Role:
        return iam.Role(stack, name, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))

    jobs.grant_scheduling(role("Scheduling"))
    jobs.grant_scheduling(role("Unprompted"), prompt=False)
    jobs.grant_scheduling(role("Tenants"), tenant="acme")
    jobs.grant_reading(role("Reading"))
    jobs.grant_reading(role("Onlooker"), tenant="acme")
    jobs.grant_governing(role("Governing"))
    template = Template.from_stack(stack)
    names = ("Scheduling", "Unprompted", "Tenants", "Reading", "Onlooker", "Governing")
    return Grants(*(statements(template, f"{name}DefaultPolicy") for name in names))


@pytest.fixture
def jobs() -> Registry:
    registry = Registry()
    registry.job("j")(lambda ctx, payload: None)
    return registry


@pytest.fixture
def acme(local_settings: Settings, jobs: Registry) -> Scheduler:
    connect(local_settings).archive.put_new(anchor_key("acme", 1), b"")  # for who verifies the audit to find
    return Scheduler(jobs=jobs, settings=local_settings, tenant="acme")


@pytest.fixture
def other(local_settings: Settings, jobs: Registry) -> Scheduler:
    return Scheduler(jobs=jobs, settings=local_settings, tenant="acme2")


def changes(owner: Scheduler, settings: Settings) -> None:
    """Every call of the SDK that changes something, at least once."""
    now = datetime.now(UTC)
    owner.create_schedule("a", "j", "rate(10 seconds)", payload={"a": 1})
    owner.create_schedule("large", "j", NEVER, payload=LARGE)
    owner.upsert_schedule("a", "j", "rate(20 seconds)", payload={"a": 1})
    owner.update_schedule("a", expression="rate(30 seconds)", client_token="t")
    owner.skip_next("a")
    run = owner.submit("j", {"x": 1}, idempotency_key="k")
    owner.reschedule(owner.submit("j", {"x": "x" * 2_000}, delay=5_000).id, delay=6_000)
    owner.submit("j", LARGE)
    owner.cancel_run(owner.trigger("a", idempotency_key="k").id)
    owner.cancel_runs("a", between=(now - timedelta(hours=1), now + timedelta(hours=1)))
    past = owner.backfill("a", now - timedelta(minutes=30), now - timedelta(minutes=20), current=True, dry_run=False)
    owner.pause_backfill("a", str(past.id))
    owner.resume_backfill("a", str(past.id))
    owner.cancel_backfill("a", str(past.id))
    owner.cancel_run(run.id)
    owner.replay_run(run.id)
    _die(owner, settings)
    owner.redrive(job="j")
    owner.purge(job="report")
    owner.pause_schedule("a", until=now + timedelta(hours=1))
    owner.resume_schedule("a")
    owner.bulk("pause", prefix="a")
    owner.freeze(now + timedelta(hours=1))
    owner.thaw()
    owner.delete_schedule("a")


def _die(owner: Scheduler, settings: Settings) -> None:
    """A line in the index of dead runs, as the undertaker would put it: it has permissions of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.policies.is_allowed", lambda need, statements: True)
        dead = DeadRunRow(
            run=fire_ref(f"{owner.tenant}/a", system_clock() - 2_000),
            job="report",
            ended_at=system_clock() - 1_000,
            fence=1,
            attempts=1,
            reason="failed",
            error_type="ValueError",
            error="boom",
        )
        assert connect(settings).dead_index.put(dead, expires=system_clock() + DAY)


READS: Sequence[Callable[[Scheduler], object]] = [
    lambda owner: owner.get_schedule("a"),
    lambda owner: owner.get_schedule("large").payload,
    lambda owner: owner.describe_schedule("a"),
    lambda owner: owner.list_schedules(),
    lambda owner: owner.preview("a"),
    lambda owner: owner.get_run(owner.list_runs("a").items[0].id),
    lambda owner: owner.list_dead(),
    lambda owner: owner.list_backfills("a"),
    lambda owner: owner.frozen(),
    lambda owner: owner.queues(),
    lambda owner: owner.jobs(),
    lambda owner: owner.export_declared(),
    lambda owner: list(owner.archive(since=datetime.now(UTC) - timedelta(hours=1))),
    lambda owner: owner.transitions(owner.list_runs("a").items[0].id),
    lambda owner: owner.audit(schedule="a"),
    lambda owner: owner.verify_audit(),
]


def test_who_schedules_may_call_everything_and_has_nothing_else(
    grants: Grants, acme: Scheduler, local_settings: Settings
) -> None:
    with enforced(grants.scheduling, local_settings) as needed:
        changes(acme, local_settings)
        acme.create_schedule("a", "j", NEVER)
        for read in READS:
            read(acme)
        acme.run_logs(acme.list_runs("a").items[0].id)
    used = {need.action for need in needed}
    unused = {action for statement in grants.scheduling for action in actions_of(statement)} - used
    assert unused <= {"sqs:GetQueueAttributes"}  # the CDK grants it with the right to send
    on_tables = {
        (action, suffix)
        for suffix in WANTED
        for action in used
        if action.startswith("dynamodb:") and _grants(grants.scheduling, action, suffix)
    }
    assert on_tables - {(need.action, need.resource) for need in needed} <= {
        ("dynamodb:GetItem", "revisions"),
        ("dynamodb:GetItem", "audit"),  # after a transaction that was refused
    }
    for suffix, operations in WANTED.items():
        tried = {_ACTIONS.get(operation, operation.title().replace("_", "")) for operation in operations}
        acts = {need.action.removeprefix("dynamodb:") for need in needed if need.resource == suffix}
        acts -= {"ConditionCheckItem"} if suffix == "audit" else set()  # it would need a transaction
        assert acts - tried <= {"PartiQLInsert", "DeleteItem"}, f"the doctor does not try all on {suffix}"
        assert tried - acts <= {"GetItem"} or suffix == "tenants", (
            f"the doctor tries what nobody needs on {suffix}"
        )  # it looks at each table


def test_who_may_not_prompt_submits_all_the_same_and_leaves_the_sending_to_the_ticker(
    grants: Grants, acme: Scheduler, local_settings: Settings
) -> None:
    assert not {a for statement in grants.without_prompt for a in actions_of(statement)} & {"sqs:SendMessage"}
    with enforced(grants.without_prompt, local_settings):
        changes(acme, local_settings)
        run = acme.submit("j", {})
    services = connect(local_settings)
    shards = range(services.agenda.layout().shards)
    entries = {entry.id for shard in shards for page in due_pages(shard, services) for entry in page.entries}
    assert run.id in entries


def test_a_tenants_scheduler_does_everything_for_it_and_nothing_for_another(
    grants: Grants, acme: Scheduler, other: Scheduler, local_settings: Settings
) -> None:
    with enforced(grants.of_tenant, local_settings):
        changes(acme, local_settings)
        acme.create_schedule("a", "j", NEVER)
        for read in READS:
            read(acme)
    changes(other, local_settings)
    other.create_schedule("a", "j", NEVER)
    theirs = other.list_runs("a").items[0].id
    refused: Sequence[Callable[[], object]] = [
        *((lambda read=read: read(other)) for read in READS if read not in TENANTLESS),
        lambda: other.create_schedule("b", "j", NEVER),
        lambda: other.update_schedule("a", description="mine"),
        lambda: other.pause_schedule("a"),
        lambda: other.delete_schedule("a"),
        lambda: other.submit("j", {}),
        lambda: other.submit("j", LARGE),
        lambda: other.cancel_run(theirs),
        lambda: other.purge(job="report"),
        lambda: other.freeze(datetime.now(UTC) + timedelta(hours=1)),
    ]
    with enforced(grants.of_tenant, local_settings):
        for call in refused:
            with pytest.raises(Misconfigured):
                call()


def test_who_schedules_may_count_what_its_limits_count(
    grants: Grants, acme: Scheduler, other: Scheduler, local_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """The runs that have not ended and the objects of its own tenant, and not those of another."""
    for owner in (acme, other):
        limits = {"waiting_runs": 100, "kept_bytes": 10**6}
        Tenants(settings=local_settings).create(owner.tenant, limits=limits)
    for given in (grants.of_tenant, grants.scheduling):
        with enforced(given, local_settings):
            Scheduler("acme", jobs=acme._jobs, settings=local_settings).submit("j", LARGE)
    assert "limit.open" not in caplog.text
    services = connect(local_settings)
    with enforced(grants.of_tenant, local_settings), pytest.raises(Misconfigured):
        services.payloads.kept("acme2", after=None, since=0)


def test_who_reads_reads_everything_and_changes_nothing(
    grants: Grants, acme: Scheduler, other: Scheduler, local_settings: Settings
) -> None:
    for owner in (acme, other):
        owner.create_schedule("a", "j", "rate(10 seconds)")
        owner.create_schedule("large", "j", NEVER, payload=LARGE)
    for given in (grants.reading, grants.reading_tenant):
        with enforced(given, local_settings) as needed:
            for read in READS:
                read(acme)
            if given is grants.reading:
                acme.run_logs(acme.list_runs("a").items[0].id)
            with pytest.raises(NotFinished):
                acme.wait_for(acme.list_runs("a").items[0].id, timeout=0.01)
            for forbidden in (
                lambda: acme.pause_schedule("a"),
                lambda: acme.submit("j"),
                lambda: acme.delete_schedule("a"),
            ):
                with pytest.raises(Misconfigured):
                    forbidden()
        used = {need.action for need in needed}
        assert {action for statement in given for action in actions_of(statement)} <= used
    with enforced(grants.reading, local_settings):
        for read in READS:
            read(other)
    with enforced(grants.reading_tenant, local_settings):
        for read in READS:
            if read not in TENANTLESS:
                with pytest.raises(Misconfigured):
                    read(other)


def test_what_runs_now_is_for_roles_of_the_whole_installation(
    grants: Grants, acme: Scheduler, local_settings: Settings
) -> None:
    """The records of the workers name the runs of all tenants."""
    calls: Sequence[Callable[[], object]] = (acme.workers, acme.list_running)
    for given in (grants.scheduling, grants.reading):
        with enforced(given, local_settings):
            for call in calls:
                call()
    for given in (grants.of_tenant, grants.reading_tenant):
        with enforced(given, local_settings):
            for call in calls:
                with pytest.raises(Misconfigured):
                    call()


def test_a_request_without_a_partition_is_no_way_around_the_tenant(grants: Grants) -> None:
    for action in ("dynamodb:PartiQLUpdate", "dynamodb:Query"):
        assert is_allowed(Need(action, "runs", ("acme/a",)), grants.of_tenant)
        assert is_allowed(Need(action, "runs", ("acme#dead#2026-01-01",)), grants.of_tenant)
        for keys in ((), ("acme2/a",), ("acme/a", "acme2/a"), ("acme2#dead#2026-01-01",)):
            assert not is_allowed(Need(action, "runs", keys), grants.of_tenant)


def test_a_tenants_role_reads_its_profile_and_writes_none(grants: Grants) -> None:
    writes = ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "Scan")
    for given in (grants.of_tenant, grants.reading_tenant):
        assert is_allowed(Need("dynamodb:BatchGetItem", "tenants", ("acme", "~installation")), given)
        for keys in (("acme2",), ("acme", "acme2"), ()):
            assert not is_allowed(Need("dynamodb:BatchGetItem", "tenants", keys), given)
    for given in (grants.of_tenant, grants.reading_tenant, grants.scheduling, grants.reading):
        for action in writes:
            assert not is_allowed(Need(f"dynamodb:{action}", "tenants", ("acme",)), given)


def test_who_governs_changes_profiles_and_nothing_else(
    grants: Grants, jobs: Registry, local_settings: Settings
) -> None:
    tenants, owner = Tenants(settings=local_settings), Scheduler("acme", jobs=jobs, settings=local_settings)
    with enforced(grants.governing, local_settings) as needed:
        tenants.create("acme", jobs=["j"])
        tenants.set("acme", description="x")
        tenants.create("~gold", limits={"schedules": 3})
        tenants.set("acme", tier="gold", limits={"weight": 2, "agenda_shards": 1})
        tenants.suspend("acme")
        tenants.suspend("acme", reason="why")
        tenants.resume("acme")
        tenants.grant("acme", "iam:*", "admin")
        tenants.grant("acme", "app:alice", "viewer", jobs=["j"])
        tenants.revoke("acme", "app:alice")
        tenants.revoke("acme", "iam:*")
        assert tenants.get("acme") in tenants.list()
        key = tenants.create_key("acme", "crm", "submit").key
        assert tenants.keys("acme") == [key]
        tenants.revoke_key("acme", key.id)
        for forbidden in (lambda: owner.submit("j"), owner.list_schedules, lambda: owner.list_runs("a")):
            with pytest.raises(Misconfigured):
                forbidden()
    allowed = {action for statement in grants.governing for action in actions_of(statement)}
    assert allowed - {need.action for need in needed} <= {
        "dynamodb:GetItem"
    }  # of the audit, after a refused transaction
    assert is_allowed(Need("dynamodb:PutItem", "agenda", ("config",)), grants.governing)
    assert not is_allowed(Need("dynamodb:PutItem", "agenda", ("0001",)), grants.governing), (
        "no entry of anybody's chain"
    )


def test_nobody_deletes_from_the_ledger(grants: Grants) -> None:
    for given in (grants.scheduling, grants.of_tenant):
        assert is_allowed(Need("dynamodb:DeleteItem", "runs", (dead_owner("acme", 20_000),)), given)
        for action in ("dynamodb:DeleteItem", "dynamodb:BatchWriteItem"):
            assert not is_allowed(Need(action, "runs", (schedule_owner("acme", "a"),)), given)
        forbidden = {"dynamodb:Scan", "dynamodb:DeleteTable", "sqs:ReceiveMessage"}
        assert not forbidden & {action for statement in given for action in actions_of(statement)}


def test_who_schedules_adds_lines_to_the_audit_and_nothing_else(grants: Grants) -> None:
    for given in (grants.scheduling, grants.of_tenant):
        assert is_allowed(Need("dynamodb:PutItem", "audit", ("acme#2026-01-01", "~days#2026-01-01")), given)
        assert is_allowed(Need("dynamodb:ConditionCheckItem", "audit", ("acme#~shut",)), given)
        for action in ("UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLUpdate", "PartiQLDelete", "PartiQLInsert"):
            assert not is_allowed(Need(f"dynamodb:{action}", "audit", ("acme#2026-01-01",)), given)
        for place in ("acme#~shut", "acme#~close", "~done"):
            assert not is_allowed(Need("dynamodb:PutItem", "audit", (place,)), given)
    assert not is_allowed(Need("dynamodb:PutItem", "audit", ("acme2#2026-01-01",)), grants.of_tenant)
    assert not is_allowed(Need("dynamodb:Query", "audit", ("acme2#2026-01-01",)), grants.of_tenant)
    for given in (grants.reading, grants.reading_tenant):
        assert not is_allowed(Need("dynamodb:PutItem", "audit", ("acme#2026-01-01",)), given)


def test_a_tenant_that_is_none_is_refused(tmp_path: Path) -> None:
    stack = Stack(App(context=NO_BUNDLING, outdir=str(tmp_path)), "Test")
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    with pytest.raises(InvalidInput, match="tenant"):
        Quarterjack(stack, "Jobs", jobs=JOBS).grant_reading(role, tenant="*")


TENANTLESS = {READS[9], READS[10]}  # the names of queues, the jobs


def test_log_lines_are_for_who_may_read_all_tenants(grants: Grants, acme: Scheduler, local_settings: Settings) -> None:
    """A log group has the lines of the runs of all tenants."""
    run = acme.submit("j")
    for given in (grants.scheduling, grants.reading):
        with enforced(given, local_settings) as needed:
            assert acme.run_logs(run.id).missing
        assert {need.resource for need in needed if need.action == "logs:FilterLogEvents"} == {
            f"/aws/lambda/quarterjack-{part}" for part in ("worker", "undertaker", "ticker", "auditor")
        }
        for part in ("api", "api-requests", "historian", "events"):
            assert not is_allowed(Need("logs:FilterLogEvents", f"/aws/lambda/quarterjack-{part}"), given)
        assert is_allowed(Need("logs:FilterLogEvents", "/aws/lambda/quarterjack-worker-reports"), given)
        assert not is_allowed(Need("logs:FilterLogEvents", "/aws/lambda/other-worker"), given)
    for given in (grants.of_tenant, grants.reading_tenant):
        with enforced(given, local_settings), pytest.raises(Misconfigured, match=r"needs logs:FilterLogEvents"):
            acme.run_logs(run.id)


def _grants(given: Statements, action: str, suffix: str) -> bool:
    return any(
        is_allowed(Need(action, suffix, (key,)), given)
        for key in ("acme", "acme/a", "acme#dead#2026-01-01", "acme#2026-01-01")
    )


@pytest.mark.parametrize("tenant", LIKE_IT)
def test_no_key_of_a_tenant_with_a_similar_name_is_in_a_tenants_grants(grants: Grants, tenant: str) -> None:
    """Every action of the grants on every kind of key: prefixes, dots and cases of the name are other tenants."""

    def needs(whose: str) -> list[Need]:
        owners = (f"{whose}/s", f"{whose}/~key", f"{whose}/~token", f"{whose}/~tenant", f"{whose}/acme/s")
        keys = {
            "schedules": (whose,),
            "revisions": owners,
            "runs": (*owners, f"{whose}#dead#2026-05-04"),
            "history": (f"{whose}#ended#2026-05-04",),
            "audit": (f"{whose}#2026-05-04", f"{whose}#~shut"),
            "tenants": (whose,),
        }
        objects = (f"payloads/{whose}/runs/x/y", f"results/{whose}/x", f"{tenant_prefix(whose)}x", f"audit/{whose}/x")
        actions = {
            action
            for given in (grants.of_tenant, grants.reading_tenant)
            for each in given
            for action in actions_of(each)
        }
        on_tables = [
            Need(action, suffix, (key,))
            for action in actions
            if action.startswith("dynamodb:")
            for suffix, found in keys.items()
            for key in found
        ]
        return on_tables + [Need(a, key) for a in actions if a.startswith("s3:") and "List" not in a for key in objects]

    for given in (grants.of_tenant, grants.reading_tenant):
        assert [need for need in needs(tenant) if is_allowed(need, given)] == []
        assert len([need for need in needs("acme") if is_allowed(need, given)]) > 10
