"""The archive in the template: retention, lock, the historian's permission, and the table of Athena."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template
from quarterjack.domain.history.archive_objects import tenant_prefix
from quarterjack.domain.history.transition_line import line_of
from quarterjack.errors import InvalidInput
from quarterjack.state.history.run_changes import transition_of

from infra import Quarterjack
from infra.storage.athena import COLUMNS, QUERIES, TABLE
from tests.support.templates import statements
from tests.support.transitions import life

JOBS = Path(__file__).parent / "acme" / "jobs"


def rules(template: Template) -> dict[str, list[dict[str, Any]]]:
    """The rules of each bucket for the archive."""
    found = template.find_resources("AWS::S3::Bucket")
    return {
        name: [
            rule for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"] if rule.get("Prefix") == "archive/"
        ]
        for name, bucket in found.items()
    }


def test_the_archive_is_kept_for_400_days(template: Template) -> None:
    ((_, (rule,)),) = rules(template).items()
    earlier = {"NoncurrentDays": 1}
    assert rule == {
        "Id": "archive",
        "Prefix": "archive/",
        "ExpirationInDays": 400,
        "NoncurrentVersionExpiration": earlier,
        "Status": "Enabled",
    }


def test_or_for_as_long_as_one_likes_or_for_ever(with_knobs: Callable[..., Template]) -> None:
    ((_, (rule,)),) = rules(with_knobs(archive_retention=Duration.days(30))).items()
    assert rule["ExpirationInDays"] == 30
    ((_, (for_ever,)),) = rules(with_knobs(archive_retention=None)).items()
    assert "ExpirationInDays" not in for_ever


def test_a_locked_archive_is_in_a_bucket_of_its_own(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(archive_lock=s3.ObjectLockRetention.compliance(Duration.days(365)))
    (own,) = (found for name, found in rules(template).items() if "Archive" in name)
    assert own[0]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {
            "ObjectLockEnabled": True,
            "ObjectLockConfiguration": {"Rule": {"DefaultRetention": {"Days": 365, "Mode": "COMPLIANCE"}}},
            "VersioningConfiguration": {"Status": "Enabled"},
            "PublicAccessBlockConfiguration": Match.object_like({"BlockPublicAcls": True}),
        },
    )
    assert "ArchiveBucketName" in json.dumps(template.find_outputs("*"))
    assert "StoreArchiveBucket" in json.dumps(template.find_resources("AWS::Glue::Table"))


@pytest.mark.parametrize(
    "given",
    [
        {"archive_retention": Duration.days(0)},
        {
            "archive_retention": Duration.days(30),
            "archive_lock": s3.ObjectLockRetention.governance(Duration.days(31)),
        },
    ],
)
def test_what_could_not_be_kept_to_is_refused(stack: Stack, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="archive_retention") as refused:
        Quarterjack(stack, "Jobs", jobs=JOBS, **given)
    assert "use Duration.days" in refused.value.remedy


def test_who_archives_may_put_there_and_no_more(stack: Stack) -> None:
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS)
    role = iam.Role(stack, "Historian", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    jobs._store.allow_archiving(role)
    found = statements(Template.from_stack(stack), "HistorianDefaultPolicy")
    assert {statement["Action"] for statement in found} == {"s3:PutObject"}
    text = json.dumps(found)
    assert "/archive/tenant=*/*" in text
    assert "/archive/inbox/*" in text
    assert set(jobs._store.archive_environment) == {"QUARTERJACK_ARCHIVE_BUCKET"}


def test_athena_finds_what_is_written(template: Template) -> None:
    (table,) = template.find_resources("AWS::Glue::Table").values()
    found = table["Properties"]["TableInput"]
    assert [key["Name"] for key in found["PartitionKeys"]] == ["tenant", "day"]
    parameters = found["Parameters"]
    location = "".join(part for part in parameters["storage.location.template"]["Fn::Join"][1] if isinstance(part, str))
    assert location.endswith("/archive/tenant=${tenant}/day=${day}/")
    assert f"/{tenant_prefix('${tenant}')}" in location
    assert parameters["projection.tenant.type"] == "injected"
    columns = {column["Name"] for column in found["StorageDescriptor"]["Columns"]}
    fields = {field for change in life() if (line := transition_of(change)) for field in json.loads(line_of(line))}
    assert fields - columns == {"tenant"}, "which is a partition"
    assert columns == set(COLUMNS)


def test_there_are_queries_to_begin_with(template: Template) -> None:
    found = template.find_resources("AWS::Athena::NamedQuery")
    texts = {query["Properties"]["Name"]: query["Properties"]["QueryString"] for query in found.values()}
    assert set(texts) == {f"quarterjack-{name}" for name in QUERIES}
    for text in texts.values():
        assert f"FROM {TABLE}" in text
        assert "tenant = 'default'" in text


def test_nobody_needs_athena(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(athena=False)
    for kind in ("AWS::Glue::Database", "AWS::Glue::Table", "AWS::Athena::NamedQuery"):
        template.resource_count_is(kind, 0)
