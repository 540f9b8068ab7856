"""Who may read and who may set the secrets of tenants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from infra import Quarterjack
from tests.support.stacks import JOBS


def ssm_statements(template: Template) -> Iterator[tuple[str, Any, list[str]]]:
    """Policy, actions, and the parameters that they are allowed on, of all statements about SSM."""
    for name, policy in template.find_resources("AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if "ssm:" in json.dumps(statement["Action"]):
                given = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
                parts = [place["Fn::Join"][1] for place in given]
                assert all(place[-2] == {"Ref": "AWS::AccountId"} for place in parts)
                yield name, statement["Action"], [place[-1] for place in parts]


@pytest.fixture
def role(stack: Stack) -> iam.Role:
    return iam.Role(stack, "Owner", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))


def test_workers_read_the_secrets_of_this_installations_tenants_and_no_other_role_does(stack: Stack) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, prefix="acme")
    ((name, action, places),) = ssm_statements(Template.from_stack(stack))
    assert name.startswith("JobsWorkerRole")
    assert (action, places) == ("ssm:GetParameter", [":parameter/acme/tenants/*"])


def test_a_container_that_works_reads_them_too(stack: Stack, role: iam.Role) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS).grant_work(role)
    found = {name[:5]: places for name, _, places in ssm_statements(Template.from_stack(stack))}
    assert found == {"JobsW": [":parameter/quarterjack/tenants/*"], "Owner": [":parameter/quarterjack/tenants/*"]}


def test_they_are_out_of_reach_if_one_says_so(stack: Stack, role: iam.Role) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, tenant_secrets=False).grant_work(role)
    assert list(ssm_statements(Template.from_stack(stack))) == []


@pytest.mark.parametrize(
    ("tenant", "places"),
    [
        (None, [":parameter/quarterjack/tenants/*"]),
        ("acme", [":parameter/quarterjack/tenants/acme/*", ":parameter/quarterjack/tenants/acme"]),
    ],
)
def test_who_sets_them_may_not_decrypt_them(
    stack: Stack, role: iam.Role, tenant: str | None, places: list[str]
) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, tenant_secrets=False).grant_secrets(role, tenant=tenant)
    ((name, actions, found),) = ssm_statements(Template.from_stack(stack))
    assert name.startswith("Owner")
    assert set(actions) == {"ssm:PutParameter", "ssm:DeleteParameter", "ssm:GetParametersByPath"}
    assert found == places
