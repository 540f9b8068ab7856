"""The roles are enough: the deployed functions do their work on a cloud that enforces their policies."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from quarterjack.local.cloud import LocalCloud, reached_by_this_process

from infra.local_proof import prove
from infra.local_stack import Deployment, bootstrap, release, synthesise
from tests.support.enforced_roles import amend, open_buckets

pytestmark = [pytest.mark.proof, pytest.mark.cloud]


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
    amend(synthesise(cloud, out))
    bootstrap(cloud, out)
    open_buckets(boto3.client("s3", endpoint_url=cloud.endpoint, region_name=cloud.region))
    return release(cloud, out)
