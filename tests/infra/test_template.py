"""What the stack promises, read in its template."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Match, Template
from quarterjack.sqs.routing import MAX_RECEIVES, QUEUES
from quarterjack.stores.tables import TABLES, TableDefinition

from infra.packaging.dependencies import RUNTIME
from tools.pythons import PROMISED, Share

PARTS = ("ticker", "worker", "undertaker", "auditor", "historian")


def resources(template: Template, kind: str) -> Mapping[str, Mapping[str, Any]]:
    return template.find_resources(kind)


def function(template: Template, part: str) -> dict[str, Any]:
    found = template.find_resources("AWS::Lambda::Function", {"Properties": {"FunctionName": f"quarterjack-{part}"}})
    (resource,) = found.values()
    return dict(resource["Properties"])


def statements(template: Template, part: str) -> list[dict[str, Any]]:
    """Of the role of one function."""
    (policy,) = (
        resource["Properties"]
        for name, resource in resources(template, "AWS::IAM::Policy").items()
        if re.match(rf"Jobs{part.capitalize()}RoleDefaultPolicy", name)
    )
    return list(policy["PolicyDocument"]["Statement"])


def actions(template: Template, part: str, on: str) -> set[str]:
    """What a function may do to the resources whose name contains ``on``."""
    found: set[str] = set()
    for statement in statements(template, part):
        if on in json.dumps(statement["Resource"]):
            listed = statement["Action"]
            found |= {listed} if isinstance(listed, str) else set(listed)
    return found


# --- tables, queues, bucket ---


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.suffix)
def test_each_table_is_as_the_package_defines_it(template: Template, table: TableDefinition) -> None:
    expected = table.create_arguments(f"quarterjack-{table.suffix}")
    stream = expected.pop("StreamSpecification", None)
    expected["StreamSpecification"] = {"StreamViewType": stream["StreamViewType"]} if stream else Match.absent()
    template.has_resource_properties("AWS::DynamoDB::Table", expected)
    ttl = {"AttributeName": table.ttl, "Enabled": True} if table.ttl else Match.absent()
    template.has_resource_properties(
        "AWS::DynamoDB::Table",
        {
            "TableName": expected["TableName"],
            "TimeToLiveSpecification": ttl,
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
            "GlobalSecondaryIndexes": Match.absent(),
        },
    )


def test_what_holds_data_outlives_the_stack(template: Template) -> None:
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup"):
        for name, resource in resources(template, kind).items():
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (
                "RetainExceptOnCreate",
                "Retain",
            ), name
    for name, table in resources(template, "AWS::DynamoDB::Table").items():
        assert table["Properties"]["DeletionProtectionEnabled"], name


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.suffix)
def test_each_queue_is_as_the_package_defines_it(template: Template, queue: Any) -> None:
    template.has_resource_properties(
        "AWS::SQS::Queue",
        {
            "QueueName": f"quarterjack-{queue.suffix}",
            "VisibilityTimeout": queue.visibility,
            "MessageRetentionPeriod": 14 * 24 * 3600,
            "SqsManagedSseEnabled": True,
            "FifoQueue": Match.absent(),
        },
    )


def test_messages_that_cannot_be_leased_end_in_the_dead_letter_queue(template: Template) -> None:
    template.has_resource_properties(
        "AWS::SQS::Queue",
        {
            "QueueName": "quarterjack-work",
            "RedrivePolicy": {
                "maxReceiveCount": MAX_RECEIVES,
                "deadLetterTargetArn": {"Fn::GetAtt": [Match.string_like_regexp("JobsQueuesDead.*"), "Arn"]},
            },
        },
    )


def test_the_bucket_is_private_encrypted_and_forgets_results_after_their_runs(template: Template) -> None:
    template.resource_count_is("AWS::S3::Bucket", 1)
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {
            "BucketEncryption": Match.object_like({}),
            "PublicAccessBlockConfiguration": {
                "BlockPublicAcls": True,
                "BlockPublicPolicy": True,
                "IgnorePublicAcls": True,
                "RestrictPublicBuckets": True,
            },
            "LifecycleConfiguration": {
                "Rules": Match.array_with([Match.object_like({"Prefix": "results/", "ExpirationInDays": 90 + 14})])
            },
        },
    )


def test_no_age_is_the_end_of_a_payload_and_unfinished_uploads_end_after_a_week(template: Template) -> None:
    """A run may be due in a hundred years. What is left of ended runs, the auditor removes."""
    (bucket,) = template.find_resources("AWS::S3::Bucket").values()
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert {rule["Prefix"] for rule in rules if "ExpirationInDays" in rule} == {"archive/", "results/"}
    assert [rule["AbortIncompleteMultipartUpload"] for rule in rules if "Prefix" not in rule] == [
        {"DaysAfterInitiation": 7}
    ]
    assert all(rule["Status"] == "Enabled" for rule in rules)


def test_a_restored_table_finds_the_payloads_that_were_removed_since(template: Template) -> None:
    recovery = {
        spec["Properties"]["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        for spec in template.find_resources("AWS::DynamoDB::Table").values()
    }
    (bucket,) = template.find_resources("AWS::S3::Bucket").values()
    assert recovery == {True}
    assert bucket["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    kept = {
        rule.get("Prefix"): rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]
        if "NoncurrentVersionExpiration" in rule
    }
    assert kept == {None: 35, "archive/": 1}, "as long as a table can be restored to"


def test_the_auditor_removes_payloads_and_nobody_anything_else(template: Template) -> None:
    for keys in ("payloads/*/runs/*", "payloads/*/schedules/*"):
        assert actions(template, "auditor", keys) == {"s3:DeleteObject"}
    assert actions(template, "auditor", "archive/inbox/*") == {"s3:DeleteObject", "s3:GetObject"}
    listings = [s["Condition"]["StringLike"] for s in statements(template, "auditor") if s["Action"] == "s3:ListBucket"]
    assert {condition["s3:prefix"] for condition in listings} == {"payloads/*", "archive/inbox/*", "audit/*"}
    assert function(template, "auditor")["Environment"]["Variables"]["QUARTERJACK_BUCKET"]["Ref"].startswith(
        "JobsStore"
    )
    for part in set(PARTS) - {"auditor"}:
        assert "s3:Delete" not in json.dumps(statements(template, part))


def test_the_worker_is_told_that_a_payload_is_not_there(template: Template) -> None:
    """S3 answers 403 instead of 404 to whoever may not list the bucket; a condition on the prefix would not hold for GetObject."""
    (listing,) = (s for s in statements(template, "worker") if s["Action"] == "s3:ListBucket")
    assert "Condition" not in listing


def test_nothing_travels_in_the_clear(template: Template) -> None:
    denied = Match.object_like(
        {"Statement": Match.array_with([Match.object_like({"Condition": {"Bool": {"aws:SecureTransport": "false"}}})])}
    )
    template.all_resources_properties("AWS::SQS::QueuePolicy", {"PolicyDocument": denied})
    template.all_resources_properties("AWS::S3::BucketPolicy", {"PolicyDocument": denied})
    template.all_resources_properties("AWS::SNS::TopicPolicy", {"PolicyDocument": denied})
    assert (
        len(resources(template, "AWS::SQS::QueuePolicy")) == len(QUEUES) + 1
    )  # and that of what the historian gave up


# --- functions ---


def test_there_are_five_functions_and_no_helper_of_the_cdk(template: Template) -> None:
    names = {f["Properties"]["FunctionName"] for f in resources(template, "AWS::Lambda::Function").values()}
    assert names == {f"quarterjack-{part}" for part in PARTS}
    assert not [kind for kind in json.dumps(template.to_json()).split('"') if kind.startswith("Custom::")]


@pytest.mark.parametrize("part", PARTS)
def test_a_function_runs_on_arm_with_the_newest_python_traced(template: Template, part: str) -> None:
    properties = function(template, part)
    assert properties["Architectures"] == ["arm64"]
    assert properties["Runtime"] == RUNTIME.name
    assert properties["Handler"] == f"functions/{part}/handler.handler"
    assert properties["TracingConfig"] == {"Mode": "Active"}


def test_the_runtime_is_the_newest_that_the_cdk_knows() -> None:
    known = [name for name in dir(lambda_.Runtime) if re.fullmatch(r"PYTHON_3_\d+", name)]
    newest = max(known, key=lambda name: int(name.rpartition("_")[2]))
    assert getattr(lambda_.Runtime, newest).name == RUNTIME.name


def test_the_runtime_is_a_python_whose_suites_make_check_runs() -> None:
    assert PROMISED[RUNTIME.name.removeprefix("python")] is Share.SUITES


@pytest.mark.parametrize("part", PARTS)
def test_a_function_is_told_which_installation_it_is_of(template: Template, part: str) -> None:
    variables = function(template, part)["Environment"]["Variables"]
    expected = {
        "QUARTERJACK_PREFIX": "quarterjack",
        "QUARTERJACK_RETENTION_DAYS": "90",
        "QUARTERJACK_SHARDS": "16",
        "POWERTOOLS_SERVICE_NAME": f"quarterjack-{part}",
        "POWERTOOLS_METRICS_NAMESPACE": "Quarterjack",
    }
    assert expected.items() <= variables.items()


def test_only_the_worker_knows_jobs_and_only_who_uses_it_the_bucket(template: Template) -> None:
    assert function(template, "worker")["Environment"]["Variables"]["QUARTERJACK_JOBS"] == "acme.jobs"
    for part in PARTS:
        only = {"QUARTERJACK_JOBS", "QUARTERJACK_BUCKET"} & function(template, part)["Environment"]["Variables"].keys()
        known = {
            "worker": {"QUARTERJACK_JOBS", "QUARTERJACK_BUCKET"},
            "auditor": {"QUARTERJACK_BUCKET"},
            "historian": {"QUARTERJACK_BUCKET"},
        }
        assert only == known.get(part, set())


@pytest.mark.parametrize("part", PARTS)
def test_logs_are_kept_for_a_month(template: Template, part: str) -> None:
    template.has_resource_properties(
        "AWS::Logs::LogGroup", {"LogGroupName": f"/aws/lambda/quarterjack-{part}", "RetentionInDays": 30}
    )
    assert "LogGroup" in function(template, part)["LoggingConfig"]


@pytest.mark.parametrize(("part", "queue"), [("worker", "Work"), ("undertaker", "Dead")])
def test_a_batch_fails_by_message_and_not_as_a_whole(template: Template, part: str, queue: str) -> None:
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "BatchSize": 10,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "EventSourceArn": {"Fn::GetAtt": [Match.string_like_regexp(f"JobsQueues{queue}.*"), "Arn"]},
            "FunctionName": {"Ref": Match.string_like_regexp(f"Jobs{part.capitalize()}Function.*")},
        },
    )


def test_workers_leave_half_of_an_accounts_functions_to_the_ticker_and_others(template: Template) -> None:
    (worker,) = (
        s["Properties"]
        for s in resources(template, "AWS::Lambda::EventSourceMapping").values()
        if s["Properties"]["FunctionName"]["Ref"].startswith("JobsWorker")
    )
    assert worker["ScalingConfig"] == {"MaximumConcurrency": 500}
    template.has_resource_properties("AWS::Lambda::EventSourceMapping", {"ScalingConfig": {"MaximumConcurrency": 10}})
    assert not [part for part in PARTS if "ReservedConcurrentExecutions" in function(template, part)]


def test_all_that_can_have_tags_names_its_installation(template: Template) -> None:
    tag = {"Key": "quarterjack-prefix", "Value": "quarterjack"}
    for kind in (
        "AWS::DynamoDB::Table",
        "AWS::SQS::Queue",
        "AWS::S3::Bucket",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
    ):
        for name, resource in resources(template, kind).items():
            assert tag in resource["Properties"]["Tags"], name


def test_no_function_outlasts_the_messages_it_was_given(template: Template) -> None:
    visibility = {queue.suffix: queue.visibility for queue in QUEUES}
    assert function(template, "worker")["Timeout"] == visibility["work"], "Lambda takes no less; more delays a batch"
    assert function(template, "undertaker")["Timeout"] * 6 <= visibility["dead"]


def test_only_what_sends_on_may_send_to_itself(template: Template) -> None:
    allowed = {part for part in PARTS if function(template, part).get("RecursiveLoop") == "Allow"}
    assert allowed == {"worker", "undertaker"}


@pytest.mark.parametrize(("part", "expression"), [("ticker", "cron(* * * * ? *)"), ("auditor", "cron(37 * * * ? *)")])
def test_the_clocks_drop_what_is_a_minute_old_and_repeat_nothing(
    template: Template, part: str, expression: str
) -> None:
    reference = Match.string_like_regexp(f"Jobs{part.capitalize()}Function.*")
    template.has_resource_properties(
        "AWS::Scheduler::Schedule",
        {
            "ScheduleExpression": expression,
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "State": "ENABLED",
            "Target": {
                "Arn": {"Fn::GetAtt": [reference, "Arn"]},
                "RetryPolicy": {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0},
            },
        },
    )
    template.has_resource_properties(  # Lambda would repeat it as well
        "AWS::Lambda::EventInvokeConfig",
        {"FunctionName": {"Ref": reference}, "MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0},
    )


# --- roles ---


def test_the_ticker_cannot_touch_payloads_and_results(template: Template) -> None:
    assert "Bucket" not in json.dumps(statements(template, "ticker"))


def test_the_ticker_may_invoke_itself_and_no_other_function(template: Template) -> None:
    (allowed,) = (s for s in statements(template, "ticker") if "lambda:" in json.dumps(s["Action"]))
    assert allowed["Action"] == "lambda:InvokeFunction"
    assert json.dumps(allowed["Resource"]).endswith(':function:quarterjack-ticker"]]}')
    for part in set(PARTS) - {"ticker"}:
        assert "lambda:" not in json.dumps(statements(template, part))


def test_the_ticker_is_told_over_how_many_invocations_a_tick_may_go(template: Template) -> None:
    assert function(template, "ticker")["Environment"]["Variables"]["QUARTERJACK_TICKER_GROUPS"] == "16"


def test_the_worker_cannot_change_schedules(template: Template) -> None:
    assert actions(template, "worker", "StoreSchedules") == {"dynamodb:GetItem"}
    assert not any("Write" in a or "Put" in a or "Update" in a for a in actions(template, "worker", "StoreRevisions"))


def test_the_worker_reads_payloads_and_reads_and_writes_results(template: Template) -> None:
    assert actions(template, "worker", "payloads/*") == {"s3:GetObject"}
    assert actions(template, "worker", "results/*") == {"s3:GetObject", "s3:PutObject"}


def test_the_undertaker_notes_what_fails_on_its_schedule_and_makes_none(template: Template) -> None:
    changes = {"dynamodb:UpdateItem"}
    assert actions(template, "undertaker", "StoreSchedules") == changes | {"dynamodb:GetItem"}
    assert "dynamodb:PutItem" not in actions(template, "undertaker", "StoreRevisions")
    assert actions(template, "undertaker", "StoreAgenda") == {"dynamodb:PutItem", "dynamodb:GetItem"}
    assert "JobsStoreBucket" not in json.dumps(statements(template, "undertaker"))


def test_nobody_deletes_from_the_ledger(template: Template) -> None:
    for part in PARTS:
        forbidden = {"dynamodb:DeleteItem", "dynamodb:BatchWriteItem", "dynamodb:PartiQLDelete"}
        assert not forbidden & actions(template, part, "StoreRuns"), part


def test_claims_are_written_in_batches(template: Template) -> None:
    for part in set(PARTS) - {"historian"}:
        statements = {action for action in actions(template, part, "StoreRuns") if "PartiQL" in action}
        assert statements == {"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"}, part


@pytest.mark.parametrize("part", PARTS)
def test_no_role_has_a_managed_policy_or_a_wildcard(template: Template, part: str) -> None:
    for name, role in resources(template, "AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role["Properties"], name
    for statement in statements(template, part):
        listed = statement["Action"]
        named = {listed} if isinstance(listed, str) else set(listed)
        assert "*" not in "".join(named)
        if statement["Resource"] == "*":  # what supports no resource; Lambda asks for the list of streams
            listing = {
                "historian": {"dynamodb:ListStreams"},
                "ticker": {"sqs:ListQueues"},
                "worker": {"sqs:ListQueues"},
            }
            assert named - listing.get(part, set()) <= {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


# --- alarms and outputs ---


def test_the_auditor_closes_days_of_the_audit(template: Template) -> None:
    assert actions(template, "auditor", "audit/*") == {"s3:GetObject", "s3:PutObject"}


def test_nobody_puts_a_close_of_the_audit_in_place_of_another(template: Template) -> None:
    policies = template.find_resources("AWS::S3::BucketPolicy").values()
    denied = [
        one
        for policy in policies
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if one["Action"] == "s3:PutObject"
    ]
    assert [(one["Effect"], one["Principal"], one["Condition"]) for one in denied] == [
        ("Deny", {"AWS": "*"}, {"Null": {"s3:if-none-match": "true"}})
    ]
    assert denied[0]["Resource"]["Fn::Join"][1][1] == "/audit/*"


def test_cloudwatch_may_publish_to_the_alarms_topic_and_nobody_without_tls(template: Template) -> None:
    """A topic with a policy of its own has lost the default policy, under which the account's alarms could publish."""
    (topic,) = resources(template, "AWS::SNS::Topic")
    (policy,) = resources(template, "AWS::SNS::TopicPolicy").values()
    assert policy["Properties"]["Topics"] == [{"Ref": topic}]
    allowed = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    assert [statement | {"Sid": ""} for statement in allowed] == [
        {
            "Sid": "",
            "Effect": "Allow",
            "Principal": {"Service": "cloudwatch.amazonaws.com"},
            "Action": "sns:Publish",
            "Resource": {"Ref": topic},
            "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}},
        }
    ]
    denied = [s for s in policy["Properties"]["PolicyDocument"]["Statement"] if s["Effect"] == "Deny"]
    assert [statement["Condition"] for statement in denied] == [{"Bool": {"aws:SecureTransport": "false"}}]


def test_the_outputs_say_what_the_sdk_needs(template: Template) -> None:
    described = [output["Description"] for output in template.find_outputs("*").values()]
    assert any("QUARTERJACK_PREFIX" in text for text in described)
    assert any("QUARTERJACK_BUCKET" in text for text in described)
