"""The roles are enough: the deployed functions do their work on a cloud that enforces their policies.

The local cloud is not like AWS in three points, which are amended in the template: it asks for an action of its own where AWS
takes a batch for its single action; it knows no PartiQL actions, so that those are not proved here; and it has no TLS, without
which the policies of queues and buckets let nobody in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from minutehand.local.cloud import LocalCloud, reached_by_this_process

from infra.deploy_local import Deployment, bootstrap, prove, release, synthesise

pytestmark = [pytest.mark.proof, pytest.mark.cloud]

_TLS_ONLY = ("AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy", "AWS::SNS::TopicPolicy")
_ALSO = {
    "sqs:ChangeMessageVisibility": "sqs:ChangeMessageVisibilityBatch",
    "sqs:DeleteMessage": "sqs:DeleteMessageBatch",
    "sqs:SendMessage": "sqs:SendMessageBatch",
}
_ANY_PARTIQL = {"Effect": "Allow", "Action": "dynamodb:BatchExecuteStatement", "Resource": "*"}


def test_every_function_may_do_what_it_has_to_do(tmp_path: Path) -> None:
    with LocalCloud(variables={"AUTH": "true"}) as cloud, reached_by_this_process(cloud.credentials):
        deployment = _deploy(cloud, tmp_path)
        for proof in prove(deployment):
            print(proof)  # noqa: T201 (shown when it fails)


def test_the_policies_are_enforced(tmp_path: Path) -> None:
    with LocalCloud(variables={"AUTH": "true"}) as cloud, reached_by_this_process(cloud.credentials):
        deployment = _deploy(cloud, tmp_path)
        iam = deployment.client("iam")
        (role,) = (name for r in iam.list_roles()["Roles"] if "WorkerRole" in (name := r["RoleName"]))
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            iam.delete_role_policy(RoleName=role, PolicyName=policy)
        with pytest.raises(TimeoutError, match="worker"):
            next(prove(deployment, patience=15))


def _deploy(cloud: LocalCloud, out: Path) -> Deployment:
    _amend(synthesise(cloud, out))
    bootstrap(cloud, out)
    s3 = boto3.client("s3", endpoint_url=cloud.endpoint, region_name=cloud.region)
    for bucket in s3.list_buckets()["Buckets"]:
        s3.delete_bucket_policy(Bucket=bucket["Name"])
    return release(cloud, out)


def _amend(place: Path) -> None:
    template = json.loads(place.read_text())
    kept = {name: r for name, r in template["Resources"].items() if r["Type"] not in _TLS_ONLY}
    for resource in kept.values():
        if isinstance(needed := resource.get("DependsOn"), list):
            resource["DependsOn"] = [name for name in needed if name in kept]
        if resource["Type"] == "AWS::IAM::Policy":
            statements = resource["Properties"]["PolicyDocument"]["Statement"]
            for statement in statements:
                statement["Action"] = _with_batches(statement["Action"])
            if "dynamodb:PartiQLInsert" in json.dumps(statements):
                statements.append(_ANY_PARTIQL)
    place.write_text(json.dumps({**template, "Resources": kept}))


def _with_batches(actions: Any) -> list[str]:
    listed = [actions] if isinstance(actions, str) else list(actions)
    return listed + [_ALSO[action] for action in listed if action in _ALSO]
