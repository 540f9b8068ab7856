"""``grant_erasing``: what an erasure calls, and nothing else; and nobody else has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from quarterjack import Registry, Scheduler, Settings, Tenants
from quarterjack.domain.tenants import erasure
from quarterjack.errors import Misconfigured
from quarterjack.historian.follow import StreamFollower
from quarterjack.services import connect, system_clock

from infra import Quarterjack
from tests.support.policies import Need, enforced, is_allowed
from tests.support.stacks import JOBS, NO_BUNDLING
from tests.support.templates import actions_of, statements

pytestmark = pytest.mark.cloud


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("cdk.out")
    stack = Stack(App(context=NO_BUNDLING, outdir=str(folder)), "Test")
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS)
    roles = {
        name: iam.Role(stack, name, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        for name in ("Erasing", "Governing", "Scheduling")
    }
    jobs.grant_erasing(roles["Erasing"])
    jobs.grant_governing(roles["Governing"])
    jobs.grant_scheduling(roles["Scheduling"])
    template = Template.from_stack(stack)
    return {name: list(statements(template, f"{name}DefaultPolicy")) for name in roles}


def test_an_erasure_runs_under_its_grant(
    given: dict[str, list[dict[str, Any]]], local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "BELIEF", 0)
    monkeypatch.setattr(erasure, "QUIET", 0)
    jobs = Registry()
    jobs.job("j")(lambda ctx, payload: None)
    owner = Scheduler("acme", jobs=jobs, settings=local_settings)
    owner.create_schedule("a", "j", "0 0 1 1 *", payload="x" * 70_000)
    owner.trigger("a", payload="x" * 70_000)
    connect(local_settings).secrets.put("acme", "crm-token", "hush-0123456789")
    StreamFollower(connect(local_settings), system_clock).poll()
    tenants = Tenants(settings=local_settings)
    with enforced(given["Erasing"], local_settings) as needed:
        counted = tenants.count_erasure("acme")
        found = tenants.erase("acme", confirm="acme", budget=600)
    assert counted.is_complete
    assert found.certificate is not None
    assert found.removed["payloads in the bucket"] == 2
    assert found.removed["secrets in Parameter Store"] == 1
    assert found.removed["objects of the archive's inbox, rewritten without it"] >= 1
    used = {need.action for need in needed}
    rare = {  # where there are running attempts, shared records, locks, inboxes of several tenants, closed days
        *("dynamodb:UpdateItem", "s3:GetObjectRetention", "s3:GetObjectLegalHold", "s3:GetObject", "s3:DeleteObject"),
        *("s3:ListBucket", "dynamodb:ConditionCheckItem"),
    }
    listed = {each for statement in given["Erasing"] for each in actions_of(statement)}
    assert listed - used <= rare


def test_who_governs_or_schedules_may_not_erase(
    given: dict[str, list[dict[str, Any]]], local_settings: Settings
) -> None:
    Scheduler("acme", jobs=Registry(), settings=local_settings).freeze(datetime.now(UTC) + timedelta(days=1))
    tenants = Tenants(settings=local_settings)
    for name in ("Governing", "Scheduling"):
        with enforced(given[name], local_settings), pytest.raises(Misconfigured):
            tenants.erase("acme", confirm="acme", budget=600)
    for name in ("Governing", "Scheduling"):
        for action in ("s3:DeleteObjectVersion", "s3:DeleteObject"):
            assert not is_allowed(Need(action, "archive/tenant=acme/x"), given[name])
        assert not is_allowed(Need("dynamodb:BatchWriteItem", "audit", ("acme#2026-01-01",)), given[name])
