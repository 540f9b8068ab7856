"""The auditor's role is enough for what the auditor does, what it removes included; and it removes nothing else."""

from __future__ import annotations

import pytest
from aws_cdk.assertions import Template
from quarterjack import Registry, Scheduler, Settings, Tenants
from quarterjack.auditor.audit import audit
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import DAY
from quarterjack.services import connect, system_clock

from tests.support.policies import Need, enforced, is_allowed
from tests.support.templates import statements

pytestmark = pytest.mark.cloud

LARGE = {"text": "x" * 70_000}


def later() -> int:
    return system_clock() + 92 * DAY


def test_the_auditor_may_remove_what_a_retention_is_over_of(template: Template, local_settings: Settings) -> None:
    jobs = Registry()
    jobs.job("j")(lambda ctx, payload: None)
    owner, services = Scheduler("acme", jobs=jobs, settings=local_settings), connect(local_settings)
    for name in ("deleted", "kept"):
        owner.create_schedule(name, "j", "0 0 1 1 *", payload=LARGE)
        owner.update_schedule(name, payload=LARGE | {"n": 2})
    owner.delete_schedule("deleted")
    run = owner.submit("j", LARGE, delay=200 * 86_400)
    services.payloads.put(parse_run_id("acme/~nobody#once"), "[1]")
    Tenants(settings=local_settings).create("acme", limits={"agenda_shards": 2})
    with enforced(statements(template, "JobsAuditorRole"), local_settings) as needed:
        report = audit(connect(local_settings), clock=later, segments=1, removes=True)
    assert (report.failed, report.retired, report.revisions, report.removed) == (0, 1, 2, 3)
    assert report.resharded == 1, "the chain of the schedule that is kept"
    assert owner.get_schedule("kept").payload == LARGE | {"n": 2}
    assert owner.get_run(run.id).payload == LARGE
    assert owner.create_schedule("deleted", "j", "0 0 1 1 *").revision == 3
    assert {need.resource for need in needed if need.action == "dynamodb:DeleteItem"} == {"revisions", "agenda"}


def test_it_deletes_from_the_agenda_the_history_and_the_revisions_alone(template: Template) -> None:
    given = statements(template, "JobsAuditorRole")
    tables = ("schedules", "revisions", "agenda", "runs", "history", "audit", "tenants")
    may = {each for each in tables if is_allowed(Need("dynamodb:DeleteItem", each, ("acme/s",)), given)}
    assert may == {"revisions", "agenda", "history"}
    keys = (
        "payloads/acme/runs/x/y",
        "payloads/acme/schedules/x/y",
        "results/acme/x",
        "archive/tenant=acme/x",
        "audit/acme/1",
    )
    assert [key for key in keys if is_allowed(Need("s3:DeleteObject", key), given)] == [*keys[:2]]
