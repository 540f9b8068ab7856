"""The knobs of the construct."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Match, Template
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput
from quarterjack.stores.tables import TABLES

from infra import AlarmSettings, ApiSettings, Quarterjack
from tests.support.parts import in_rotation
from tests.support.templates import actions_of, statements

_TABLE = "AWS::DynamoDB::Table"
JOBS = Path(__file__).parent / "acme" / "jobs"


def worker(template: Template) -> dict[str, Any]:
    found = template.find_resources(
        "AWS::Lambda::Function", {"Properties": {"Handler": "functions/worker/handler.handler"}}
    )
    (resource,) = found.values()
    return dict(resource["Properties"])


@in_rotation(of=6)
def test_memory_timeout_environment_and_concurrency_are_those_of_the_worker(
    with_knobs: Callable[..., Template],
) -> None:
    template = with_knobs(
        memory=2048, timeout=Duration.minutes(3), environment={"COLOUR": "green"}, max_concurrency=7, prefix="acme"
    )
    properties = worker(template)
    assert (properties["MemorySize"], properties["Timeout"]) == (2048, 180)
    assert properties["Environment"]["Variables"]["COLOUR"] == "green"
    template.has_resource_properties("AWS::Lambda::EventSourceMapping", {"ScalingConfig": {"MaximumConcurrency": 7}})
    template.has_resource_properties("AWS::Lambda::Function", {"FunctionName": "acme-ticker", "MemorySize": 1769})


@in_rotation(of=6)
def test_a_tick_goes_over_as_many_invocations_as_one_likes(with_knobs: Callable[..., Template]) -> None:
    told = {"Variables": Match.object_like({"QUARTERJACK_TICKER_GROUPS": "64"})}
    with_knobs(ticker_groups=64).has_resource_properties("AWS::Lambda::Function", {"Environment": told})


@pytest.mark.parametrize("groups", [0, -1, 129])
@in_rotation(of=6)
def test_but_not_over_none_or_hundreds(stack: Stack, groups: int) -> None:
    with pytest.raises(InvalidInput, match="ticker_groups"):
        Quarterjack(stack, "Jobs", jobs=JOBS, ticker_groups=groups)


@in_rotation(of=6)
def test_its_claims_take_half_of_a_new_tables_writes_or_as_many_as_one_says(
    with_knobs: Callable[..., Template],
) -> None:
    for given, writes in ({}, "2000"), ({"ticker_writes": 16_000}, "16000"), ({"ticker_writes": 0}, "0"):
        told = {"Variables": Match.object_like({"QUARTERJACK_TICKER_WRITES": writes})}
        with_knobs(**given).has_resource_properties("AWS::Lambda::Function", {"Environment": told})


@pytest.mark.parametrize("writes", [-1, 999])
@in_rotation(of=6)
def test_but_not_so_few_that_no_invocation_would_wait_for_them(stack: Stack, writes: int) -> None:
    with pytest.raises(InvalidInput, match="ticker_writes"):
        Quarterjack(stack, "Jobs", jobs=JOBS, ticker_writes=writes)


@in_rotation(of=6)
def test_the_worker_reads_its_secrets_and_finds_them_by_variable(stack: Stack) -> None:
    secret = secretsmanager.Secret(stack, "Database")
    Quarterjack(stack, "Jobs", jobs=JOBS, secrets={"DATABASE": secret})
    template = Template.from_stack(stack)
    (name,) = template.find_resources("AWS::SecretsManager::Secret")
    assert worker(template)["Environment"]["Variables"]["DATABASE"] == {"Ref": name}
    readers = template.find_resources(
        "AWS::IAM::Policy",
        {
            "Properties": {
                "PolicyDocument": {
                    "Statement": Match.array_with(
                        [
                            Match.object_like(
                                {
                                    "Action": ["secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"],
                                    "Resource": {"Ref": name},
                                }
                            )
                        ]
                    )
                }
            }
        },
    )
    assert [reader for reader in readers if reader.startswith("JobsWorkerRole")] == list(readers)


@in_rotation(of=6)
def test_only_the_worker_goes_into_the_vpc_and_may_do_so(stack: Stack) -> None:
    vpc = ec2.Vpc(stack, "Network", max_azs=2)
    Quarterjack(stack, "Jobs", jobs=JOBS, vpc=vpc)
    template = Template.from_stack(stack)
    inside = [
        f["Properties"]["FunctionName"]
        for f in template.find_resources("AWS::Lambda::Function").values()
        if "VpcConfig" in f["Properties"]
    ]
    assert inside == ["quarterjack-worker"]
    template.has_resource_properties(
        "AWS::IAM::Policy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [Match.object_like({"Action": Match.array_with(["ec2:CreateNetworkInterface"])})]
                )
            }
        },
    )


@in_rotation(of=6)
def test_layers_are_those_of_the_worker(stack: Stack) -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:layer:tools:3"
    Quarterjack(stack, "Jobs", jobs=JOBS, layers=[lambda_.LayerVersion.from_layer_version_arn(stack, "Tools", arn)])
    assert worker(Template.from_stack(stack))["Layers"] == [arn]


@in_rotation(of=6)
def test_what_the_jobs_need_is_granted_to_the_worker(stack: Stack) -> None:
    topic = sns.Topic(stack, "News")
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS)
    topic.grant_publish(jobs.worker)
    Template.from_stack(stack).has_resource_properties(
        "AWS::IAM::Policy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like({"Action": "sns:Publish"})])}},
    )


@in_rotation(of=6)
def test_a_container_may_do_what_the_worker_does(stack: Stack) -> None:
    role = iam.Role(stack, "Container", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    Quarterjack(stack, "Jobs", jobs=JOBS).grant_work(role)
    (policy,) = (
        resource["Properties"]["PolicyDocument"]["Statement"]
        for name, resource in Template.from_stack(stack).find_resources("AWS::IAM::Policy").items()
        if name.startswith("ContainerDefaultPolicy")
    )
    granted = {action for statement in policy for action in actions_of(statement)}
    assert {"sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:SendMessage", "sqs:GetQueueUrl"} <= granted


@in_rotation(of=6)
def test_shards_and_retention_reach_the_functions_and_the_bucket(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(shards=64, retention=Duration.days(7))
    assert {
        (
            f["Properties"]["Environment"]["Variables"]["QUARTERJACK_SHARDS"],
            f["Properties"]["Environment"]["Variables"]["QUARTERJACK_RETENTION_DAYS"],
        )
        for f in template.find_resources("AWS::Lambda::Function").values()
    } == {("64", "7")}
    template.has_resource_properties(
        "AWS::S3::Bucket",
        {"LifecycleConfiguration": {"Rules": Match.array_with([Match.object_like({"ExpirationInDays": 7 + 14})])}},
    )


@in_rotation(of=6)
def test_the_alarms_go_where_they_are_wanted(stack: Stack) -> None:
    arn = "arn:aws:sns:eu-west-1:123456789012:pager"
    Quarterjack(stack, "Jobs", jobs=JOBS, alarms=AlarmSettings(topic=sns.Topic.from_topic_arn(stack, "Pager", arn)))
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::SNS::Topic", 0)
    kinds = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
    alarms = [one["Properties"] for kind in kinds for one in template.find_resources(kind).values()]
    told = [one["AlarmActions"] for one in alarms if "AlarmActions" in one]
    assert told  # those that page; the rest are parts of a composite alarm
    assert all(targets == [arn] for targets in told)


@in_rotation(of=6)
def test_the_customers_key_encrypts_all_that_holds_data_and_every_function_may_use_it(stack: Stack) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, encryption_key=kms.Key(stack, "Key"))
    template = Template.from_stack(stack)
    (name,) = template.find_resources("AWS::KMS::Key")
    arn = {"Fn::GetAtt": [name, "Arn"]}
    template.all_resources_properties(
        "AWS::DynamoDB::Table", {"SSESpecification": {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": arn}}
    )
    template.all_resources_properties("AWS::SQS::Queue", {"KmsMasterKeyId": arn})
    template.all_resources_properties("AWS::SNS::Topic", {"KmsMasterKeyId": arn})
    template.all_resources_properties("AWS::Logs::LogGroup", {"KmsKeyId": arn})
    template.all_resources_properties("AWS::Lambda::Function", {"KmsKeyArn": arn})
    users = template.find_resources(
        "AWS::IAM::Policy",
        {
            "Properties": {
                "PolicyDocument": {
                    "Statement": Match.array_with(
                        [Match.object_like({"Action": Match.array_with(["kms:Decrypt"]), "Resource": arn})]
                    )
                }
            }
        },
    )
    assert {user.partition("Role")[0] for user in users} == {
        "JobsTicker",
        "JobsWorker",
        "JobsUndertaker",
        "JobsAuditor",
        "JobsHistorian",
    }


@in_rotation(of=6)
def test_the_logs_may_use_the_customers_key_for_this_installation_alone(stack: Stack) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS, encryption_key=kms.Key(stack, "Key"), prefix="acme")
    (key,) = Template.from_stack(stack).find_resources("AWS::KMS::Key").values()
    (allowed,) = (s for s in key["Properties"]["KeyPolicy"]["Statement"] if "logs." in json.dumps(s["Principal"]))
    assert {"kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey*"} <= set(allowed["Action"])
    assert json.dumps(allowed["Condition"]["ArnLike"]).endswith(':log-group:/aws/lambda/acme-*"]]}}')


@in_rotation(of=6)
def test_a_concurrency_of_none_of_0_and_of_a_number(with_knobs: Callable[..., Template]) -> None:
    def limits(**knobs: Any) -> list[int | None]:
        found = with_knobs(**knobs).find_resources("AWS::Lambda::EventSourceMapping").values()
        sources = [s["Properties"] for s in found if "Work" in json.dumps(s["Properties"]["FunctionName"])]
        return [source.get("ScalingConfig", {}).get("MaximumConcurrency") for source in sources]

    assert limits(stripes=4) == [125] * 4
    assert limits(stripes=4, max_concurrency=8) == [2] * 4
    assert limits(max_concurrency=0) == [None]
    assert limits(pollers=5) == [None]
    assert limits(queues=[Queue(name="a", stripes=3), Queue(name="b", pollers=9)], max_concurrency=1000) == [
        *(1000, 33, 33, 33),
        None,
    ]


@in_rotation(of=6)
def test_jobs_have_metrics_of_their_own_if_they_are_named(with_knobs: Callable[..., Template]) -> None:
    named = {"QUARTERJACK_METRIC_JOBS": "a.b,c", "QUARTERJACK_METRIC_TENANTS": "acme"}
    told = {"Variables": Match.object_like(named)}
    template = with_knobs(metric_jobs=["a.b", "c"], metric_tenants=["acme"])
    for part in ("worker", "undertaker"):
        template.has_resource_properties(
            "AWS::Lambda::Function", {"FunctionName": f"quarterjack-{part}", "Environment": told}
        )
    assert "QUARTERJACK_METRIC" not in json.dumps(worker(with_knobs()))


@in_rotation(of=6)
def test_groups_of_containers_are_told_to_who_reads_logs(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(log_groups=["/ecs/a", "/ecs/b"], api=ApiSettings(iam=True))
    told = {"Variables": Match.object_like({"QUARTERJACK_LOG_GROUPS": "/ecs/a,/ecs/b"})}
    template.has_resource_properties("AWS::Lambda::Function", {"FunctionName": "quarterjack-api", "Environment": told})
    found = statements(template, "JobsApiRoleDefaultPolicy")
    (reads,) = (each["Resource"] for each in found if each["Action"] == "logs:FilterLogEvents")
    for name in ("/ecs/a:*", "/ecs/b:*", "/aws/lambda/quarterjack-worker:*"):
        assert name in json.dumps(reads)
    assert len(reads) == 7


@in_rotation(of=6)
def test_everything_goes_with_the_stack_if_that_is_wanted(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(removal_policy=RemovalPolicy.DESTROY)
    for kind in ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::Logs::LogGroup"):
        template.all_resources(kind, {"DeletionPolicy": "Delete"})
    template.all_resources_properties("AWS::DynamoDB::Table", {"DeletionProtectionEnabled": False})


def test_restored_tables_are_other_resources_of_the_stack(with_knobs: Callable[..., Template]) -> None:
    before, after = (with_knobs(**knobs).to_json() for knobs in ({}, {"tables": "acme2"}))
    tables = [
        {key: each["Properties"]["TableName"] for key, each in template["Resources"].items() if each["Type"] == _TABLE}
        for template in (before, after)
    ]
    assert sorted(tables[1].values()) == sorted(f"acme2-{table.suffix}" for table in TABLES)
    assert not tables[0].keys() & tables[1].keys()
    functions = [each["Properties"] for each in after["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    variables = [each["Environment"]["Variables"] for each in functions if "QUARTERJACK_PREFIX" in str(each)]
    assert {each["QUARTERJACK_TABLES"] for each in variables} == {"acme2"}
    assert '"TableName","quarterjack-runs"' in str(before)  # of the dashboard
    assert '"TableName","quarterjack-runs"' not in str(after)
    assert '"TableName","acme2-runs"' in str(after)


@in_rotation(of=6)
def test_two_installations_share_an_account_under_two_prefixes(stack: Stack) -> None:
    Quarterjack(stack, "Jobs", jobs=JOBS)
    Quarterjack(stack, "Reports", jobs=JOBS, prefix="reports")
    template = Template.from_stack(stack)
    names = [table["Properties"]["TableName"] for table in template.find_resources("AWS::DynamoDB::Table").values()]
    assert len(set(names)) == len(names) == 2 * len(TABLES)


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"prefix": "Acme"}, "prefix"),
        ({"prefix": "a" * 41}, "prefix"),
        ({"tables": "Acme"}, "tables"),
        ({"shards": 0}, "shards"),
        ({"metric_jobs": ["a,b"]}, "metric_jobs"),
        ({"metric_tenants": ["a/b"]}, "metric_tenants"),
        ({"log_groups": ["/ecs/a b"]}, "log_groups"),
        ({"log_groups": "/ecs/a"}, "log_groups"),
        ({"shards": 1025}, "shards"),
        ({"retention": Duration.days(0)}, "retention"),
        ({"timeout": Duration.hours(2)}, "timeout"),
        ({"max_concurrency": 1}, "max_concurrency"),
        ({"max_concurrency": 1001}, "max_concurrency"),
        ({"ticker_reserved": 16}, "ticker_reserved"),
        ({"ticker_reserved": 0, "ticker_groups": 1}, "ticker_reserved"),
        ({"undertaker_reserved": 1}, "undertaker_reserved"),
        ({"environment": {"QUARTERJACK_PREFIX": "mine"}}, "environment"),
        ({"jobs": "no/such/package"}, "jobs"),
        ({"requirements": "no/such/file.txt"}, "requirements"),
    ],
)
def test_a_bad_knob_is_refused_with_its_remedy(stack: Stack, knobs: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Quarterjack(stack, "Jobs", **{"jobs": JOBS, **knobs})
    assert refusal.value.field == field
    assert refusal.value.remedy
