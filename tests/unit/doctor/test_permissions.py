"""What the doctor may not look at it names by its action, on a cloud that enforces policies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from quarterjack import Settings
from quarterjack.doctor import Severity, run_checks
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.local.processes import changed_environ
from quarterjack.stores.tables import TABLES
from quarterjack.testing.cloud import fresh_settings

pytestmark = pytest.mark.cloud


@pytest.fixture(scope="module")
def strict() -> Iterator[LocalCloud]:
    with LocalCloud(variables={"AUTH": "true"}) as cloud, reached_by_this_process(cloud.credentials):
        yield cloud


def user_with(cloud: LocalCloud, *actions: str) -> dict[str, str]:
    """The credentials of a user who may do these and nothing else."""
    iam = boto3.client("iam", endpoint_url=cloud.endpoint, region_name=cloud.region)
    name = f"u{len(iam.list_users()['Users'])}"
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
    iam.put_user_policy(UserName=name, PolicyName="p", PolicyDocument=json.dumps(policy))
    return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}


def examined(settings: Settings, credentials: dict[str, str]) -> list[Any]:
    with changed_environ(credentials):
        return [finding for finding in run_checks(settings) if finding.verdict is not Severity.OK]


def test_every_refused_action_is_named(strict: LocalCloud) -> None:
    settings = fresh_settings(strict)
    reader = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "sqs:GetQueueUrl")
    found = examined(settings, user_with(strict, *reader))
    refused = {f.what for f in found if f.check == "permissions"}
    for action in ("PutItem", "BatchWriteItem"):
        assert f"you may not dynamodb:{action} on {settings.table('agenda')}" in refused
    assert not any("Query" in what or "GetItem" in what for what in refused)
    (work,) = (f for f in found if f.check == "queues" and f.verdict is Severity.FAIL)
    assert "sqs:GetQueueAttributes" in str(work.remedy)
    assert [f.verdict for f in found if f.check == "queues" and "-dead" in f.what] == [Severity.WARN]


def test_who_may_not_even_read_is_told_so_for_each_table(strict: LocalCloud) -> None:
    found = examined(fresh_settings(strict), user_with(strict, "sqs:*"))
    tables = [finding for finding in found if finding.check == "tables"]
    assert len(tables) == len(TABLES)
    assert all("dynamodb:GetItem" in str(finding.remedy) for finding in tables)


def test_whoever_aws_does_not_know_gets_no_further(strict: LocalCloud) -> None:
    stranger = {"AWS_ACCESS_KEY_ID": "AKIANOTTHERE0000AAAA", "AWS_SECRET_ACCESS_KEY": "x"}
    (finding,) = examined(fresh_settings(strict), stranger)
    assert (finding.check, finding.verdict) == ("access", Severity.FAIL)
    assert "credentials" in str(finding.remedy)
