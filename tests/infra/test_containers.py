"""Workers in containers: the ECS service, what its tasks may do, and how many there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Match, Template
from cdk_nag import AwsSolutionsChecks
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput

from infra import ContainerSize, ContainerWorkers, Quarterjack
from tests.support.parsed_commands import check_quarterjack
from tests.support.stacks import FLAGS, JOBS, NO_BUNDLING
from tests.support.templates import actions_of, statements

QUEUES = [Queue(name="gpu", container=True), Queue(name="wide", container=True, stripes=6)]


def build(stack: Stack, *, queue: str | None = "gpu", size: ContainerSize | None = None, **knobs: Any) -> Quarterjack:
    vpc = ec2.Vpc(stack, "Network", max_azs=2, flow_logs={"all": ec2.FlowLogOptions()})
    cluster = ecs.Cluster(stack, "Cluster", vpc=vpc, container_insights_v2=ecs.ContainerInsights.ENABLED)
    jobs = Quarterjack(stack, "Jobs", jobs=JOBS, queues=QUEUES, prefix="acme", **knobs)
    image = ecs.ContainerImage.from_registry("acme/worker")
    ContainerWorkers(stack, "Gpu", quarterjack=jobs, image=image, cluster=cluster, queue=queue, size=size)
    return jobs


def made(**knobs: Any) -> Template:
    stack = Stack(App(context=NO_BUNDLING), "Test")
    build(stack, **knobs)
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def template() -> Template:
    stack = Stack(App(context=NO_BUNDLING), "Test")
    secret = secretsmanager.Secret(stack, "Database")
    size = ContainerSize(cpu=1024, memory=2048, concurrency=4, minimum=2, maximum=30, grace=25)
    build(stack, size=size, secrets={"DATABASE": secret}, environment={"COLOUR": "green"}, metric_jobs=["clean"])
    return Template.from_stack(stack)


def container(template: Template) -> dict[str, Any]:
    (task,) = template.find_resources("AWS::ECS::TaskDefinition").values()
    (found,) = task["Properties"]["ContainerDefinitions"]
    return dict(found)


def test_a_task_runs_the_worker_on_its_queue(template: Template) -> None:
    found = container(template)
    assert found["EntryPoint"] == ["quarterjack", "worker"]
    words = [word for word in found["Command"] if word != "--embedded-metrics"]
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert {name: options[name] for name in ("--jobs", "--queue", "--concurrency", "--grace")} == {
        "--jobs": "acme.jobs",
        "--queue": "gpu",
        "--concurrency": "4",
        "--grace": "25",
    }


def test_its_command_is_one_that_the_command_line_takes(template: Template) -> None:
    found = container(template)
    command: list[str] = found["EntryPoint"] + found["Command"]
    program, *words = command
    assert program == "quarterjack"
    check_quarterjack(words)


def test_it_knows_the_installation_and_the_users_variables(template: Template) -> None:
    variables = {each["Name"]: each["Value"] for each in container(template)["Environment"]}
    (secret,) = template.find_resources("AWS::SecretsManager::Secret")
    assert {name: value for name, value in variables.items() if isinstance(value, str)} == {
        "COLOUR": "green",
        "QUARTERJACK_JOBS": "acme.jobs",
        "QUARTERJACK_WORK_QUEUE": "gpu",
        "QUARTERJACK_PREFIX": "acme",
        "QUARTERJACK_RETENTION_DAYS": "90",
        "QUARTERJACK_STRIPES": "wide=6",
        "QUARTERJACK_METRIC_JOBS": "clean",
    }
    assert variables["DATABASE"] == {"Ref": secret}
    assert variables["AWS_REGION"] == {"Ref": "AWS::Region"}
    assert "QUARTERJACK_BUCKET" in variables


def test_it_has_time_to_finish_before_it_is_killed_and_is_asked_whether_it_lives(template: Template) -> None:
    found = container(template)
    assert found["StopTimeout"] == 25 + 15  # the grace, the last long poll, and what is released
    kind, program, option, probe = found["HealthCheck"]["Command"]
    assert (kind, program, option) == ("CMD", "python", "-c")
    port = found["Command"][found["Command"].index("--health") + 1]
    assert f"http://127.0.0.1:{port}/healthz" in probe
    compile(probe, "probe", "exec")


def test_its_lines_and_metrics_go_to_a_log_group_of_its_own(template: Template) -> None:
    (name,) = template.find_resources("AWS::Logs::LogGroup", {"Properties": {"LogGroupName": "/ecs/acme-worker-gpu"}})
    options = container(template)["LogConfiguration"]
    assert (options["LogDriver"], options["Options"]["awslogs-group"]) == ("awslogs", {"Ref": name})
    assert "--embedded-metrics" in container(template)["Command"]


def test_its_role_may_do_what_the_function_may(template: Template) -> None:
    def allowed(role: str) -> set[str]:
        return {action for statement in statements(template, role) for action in actions_of(statement)}

    ours, theirs = allowed("GpuTaskTaskRole"), allowed("JobsWorkerRole")
    beyond = {"xray:PutTraceSegments", "xray:PutTelemetryRecords", "logs:CreateLogStream", "logs:PutLogEvents"}
    assert ours == theirs - beyond
    assert "secretsmanager:GetSecretValue" in ours


def policy(template: Template) -> dict[str, Any]:
    (found,) = template.find_resources(
        "AWS::ApplicationAutoScaling::ScalingPolicy", {"Properties": {"PolicyType": "TargetTrackingScaling"}}
    ).values()
    return dict(found["Properties"]["TargetTrackingScalingPolicyConfiguration"])


def test_tasks_grow_with_what_waits_and_is_at_hand_for_each_of_them(template: Template) -> None:
    configuration = policy(template)
    assert configuration["TargetValue"] == 4  # what a task takes at once
    *metrics, share = configuration["CustomizedMetricSpecification"]["Metrics"]
    named = {metric["Id"]: metric["MetricStat"]["Metric"]["MetricName"] for metric in metrics}
    assert named == {
        "waiting0": "ApproximateNumberOfMessagesVisible",
        "athand0": "ApproximateNumberOfMessagesNotVisible",
        "tasks": "CPUUtilization",
    }
    assert metrics[-1]["MetricStat"]["Stat"] == "SampleCount"
    expected = "(FILL(waiting0, 0) + FILL(athand0, 0)) / IF(FILL(tasks, 0) > 0, FILL(tasks, 0), 1)"
    assert share["Expression"] == expected
    assert [metric["ReturnData"] for metric in (*metrics, share)] == [False, False, False, True]
    bounds = {"MinCapacity": 2, "MaxCapacity": 30}
    template.has_resource_properties("AWS::ApplicationAutoScaling::ScalableTarget", bounds)
    template.resource_count_is("AWS::ApplicationAutoScaling::ScalingPolicy", 1)


def test_of_many_stripes_four_stand_for_all() -> None:
    metrics = policy(made(queue="wide"))["CustomizedMetricSpecification"]["Metrics"]
    assert len(metrics) == 10  # what a scaling policy takes at the most
    assert ") * 6 / 4 / IF(" in metrics[-1]["Expression"]


def test_the_first_message_of_a_quiet_queue_starts_a_task() -> None:
    template = made(size=ContainerSize(minimum=0, backlog=100))
    assert policy(template)["TargetValue"] == 100
    template.has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        {
            "StepScalingPolicyConfiguration": Match.object_like(
                {"StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]}
            )
        },
    )
    (alarm,) = (
        found["Properties"]
        for name, found in template.find_resources("AWS::CloudWatch::Alarm").items()
        if name.startswith("Gpu")
    )
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (1, "GreaterThanOrEqualToThreshold")
    assert any(metric.get("Expression", "").startswith("IF(FILL(tasks, 0) > 0, 0,") for metric in alarm["Metrics"])


def test_the_default_queue_has_container_workers_too() -> None:
    template = made(queue=None, history=False)
    found = container(template)
    assert "--queue" not in found["Command"]
    variables = {each["Name"]: each["Value"] for each in found["Environment"]}
    assert variables["QUARTERJACK_HISTORY"] == "off"
    template.has_resource_properties("AWS::ECS::Service", {"ServiceName": "acme-worker"})


@pytest.mark.parametrize(
    ("field", "size"),
    [
        ("cpu", {"cpu": 700}),
        ("memory", {"cpu": 512, "memory": 5000}),
        ("concurrency", {"concurrency": 0}),
        ("minimum", {"minimum": -1}),
        ("maximum", {"minimum": 5, "maximum": 4}),
        ("maximum", {"minimum": 0, "maximum": 0}),
        ("backlog", {"backlog": 0}),
        ("grace", {"grace": 106}),  # Fargate kills after two minutes
    ],
)
def test_sizes_that_fargate_does_not_have_are_refused(field: str, size: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=field):
        ContainerSize(**size)


def test_a_queue_that_is_not_declared_is_refused(stack: Stack) -> None:
    with pytest.raises(InvalidInput, match=r"queue.*gpus.*gpu, wide"):
        build(stack, queue="gpus")


def test_cdk_nag_has_nothing_to_say(tmp_path: Path) -> None:
    app = App(context={**FLAGS, **NO_BUNDLING}, outdir=str(tmp_path))
    build(Stack(app, "Test"))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()


@pytest.mark.check
def test_nor_has_cfn_lint() -> None:
    from cfnlint import api

    found = api.lint(json.dumps(made(size=ContainerSize(minimum=0)).to_json()), regions=["eu-west-1"])
    assert not [f"{match.rule.id} {match.path}: {match.message}" for match in found if match.rule.id != "W3005"]
