"""cfn-lint reads the template as CloudFormation's own schemas describe it: cdk-nag asks whether it is safe, this whether it is valid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from quarterjack.domain.queue import Queue

from infra import ApiSettings, JwtIssuer, Quarterjack
from tests.support.stacks import JOBS

pytestmark = pytest.mark.check

ACCEPTED = {"W3005"}  # the CDK writes dependencies that follow from references already


def complaints(template: Template) -> list[str]:
    from cfnlint import api

    found = api.lint(json.dumps(template.to_json()), regions=["eu-west-1"])
    return [f"{match.rule.id} {match.path}: {match.message}" for match in found if match.rule.id not in ACCEPTED]


@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"queues": [Queue(name="reports", concurrency=12, stripes=2), Queue(name="gpu", container=True)], "stripes": 3},
        {
            "pollers": 5,
            "ticker_reserved": 17,
            "undertaker_reserved": 5,
            "tags": {"team": "data"},
            "archive_lock": s3.ObjectLockRetention.compliance(Duration.days(365)),
            "events": "eventbridge:acme",
            "event_types": ["run.dead"],
            "canary": "Linear10PercentEvery3Minutes",
            "api": ApiSettings(
                iam=True, keys=True, jwt=JwtIssuer(issuer="https://login.acme.example", audience=["acme"]), reserved=5
            ),
        },
    ],
    ids=["as-deployed", "queues", "all others"],
)
def test_cfn_lint_has_nothing_to_say(with_knobs: Callable[..., Template], knobs: dict[str, Any]) -> None:
    assert not complaints(with_knobs(**knobs))


def test_nor_about_a_customers_key_and_the_grants(stack: Stack) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, encryption_key=kms.Key(stack, "Key"))
    assert not complaints(Template.from_stack(stack))


def test_cfn_lint_would_have_something_to_say() -> None:
    cfn = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 50_000}}}}
    assert any("VisibilityTimeout" in line for line in complaints(Template.from_json(cfn)))
