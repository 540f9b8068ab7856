"""The app: what the context sets, and that cdk-nag has nothing to say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks
from quarterjack.errors import InvalidInput

from infra import ApiSettings, JwtIssuer, Quarterjack
from tests.support.stacks import FLAGS, JOBS, NO_BUNDLING
from tools.app import checked

ROOT = Path(__file__).parents[2]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    return _app(tmp_path, monkeypatch, {})


def _app(out: Path, monkeypatch: pytest.MonkeyPatch, context: Mapping[str, Any]) -> App:
    monkeypatch.chdir(ROOT)  # where the CDK's command line runs it
    return checked({**FLAGS, **NO_BUNDLING, "jobs": "examples/starter", **context}, out=out)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"prefx": "stk"}, r"prefx='stk': .*did you mean 'prefix'\?"),
        ({"retention-dayz": "3"}, "retention-dayz='3': .*did you mean 'retention-days'"),
        ({"jobs": None}, "jobs=None: is missing in the context.*jobs=examples/starter"),
        ({"stack": "Stk"}, "prefix=None: is missing in the context beside stack.*as they were deployed"),
        ({"prefix": "stk"}, "stack=None: is missing in the context beside prefix.*as they were deployed"),
    ],
)
def test_a_context_that_could_be_that_of_another_installation_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Mapping[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        _app(tmp_path, monkeypatch, context)


def test_what_the_command_line_of_the_cdk_keeps_in_the_context_is_let_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"availability-zones:account=1:region=x": ["a"], "acknowledged-issue-numbers": [1], "cli-telemetry": False}
    assert "Quarterjack" in {child.node.id for child in _app(tmp_path, monkeypatch, kept).node.children}


def test_cdk_nag_has_nothing_to_say(app: App, tmp_path: Path) -> None:
    app.synth()
    report = json.loads((tmp_path / "validation-report.json").read_text())
    assert not [violation for plugin in report["pluginReports"] for violation in plugin["violations"]]


def test_cdk_nag_would_have_something_to_say(app: App) -> None:
    s3.Bucket(Stack(app, "Careless"), "Bucket")
    with pytest.raises(RuntimeError, match="AwsSolutions-S10"):
        app.synth()


def test_the_context_sets_the_knobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = {
        "prefix": "acme",
        "shards": "64",
        "retention-days": "7",
        "memory": "1024",
        "timeout-seconds": "60",
        "max-concurrency": "5",
        "removal": "destroy",
        "target": "here",
        "stack": "Acme",
        "jobs": "tests/infra/acme/jobs",
        "ticker-reserved": "17",
        "undertaker-reserved": "5",
        "tags": "team=data,stage=test",
        "termination-protection": "true",
        "archive-retention-days": "30",
        "athena": "false",
        "events": "eventbridge:acme",
        "event-types": "run.dead",
        "api": "iam,keys",
        "canary": "Linear10PercentEvery3Minutes",
    }
    stack = _app(tmp_path, monkeypatch, context).node.find_child("Acme")
    assert isinstance(stack, Stack)
    template = Template.from_stack(stack)
    template.has_resource_properties(
        "AWS::Lambda::Function", {"FunctionName": "acme-worker", "MemorySize": 1024, "Timeout": 60}
    )
    template.has_resource("AWS::DynamoDB::Table", {"DeletionPolicy": "Delete"})
    for part, reserved in ("ticker", 17), ("undertaker", 5):
        template.has_resource_properties(
            "AWS::Lambda::Function", {"FunctionName": f"acme-{part}", "ReservedConcurrentExecutions": reserved}
        )
    template.resource_count_is("AWS::CodeDeploy::DeploymentGroup", 2)
    tags = [
        {"Key": "quarterjack-prefix", "Value": "acme"},
        {"Key": "stage", "Value": "test"},
        {"Key": "team", "Value": "data"},
    ]
    template.all_resources_properties("AWS::DynamoDB::Table", {"Tags": tags})
    assert stack.termination_protection
    assert set(template.find_outputs("*")) >= {"Prefix", "BucketName", "AlarmTopicArn", "IamApiUrl", "KeysApiUrl"}


def test_the_tables_protection_is_a_knob_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = _app(tmp_path, monkeypatch, {"deletion-protection": "false"}).node.find_child("Quarterjack")
    assert isinstance(stack, Stack)
    assert not stack.termination_protection
    protected = {"Properties": {"DeletionProtectionEnabled": False}, "DeletionPolicy": "RetainExceptOnCreate"}
    Template.from_stack(stack).all_resources("AWS::DynamoDB::Table", protected)


@pytest.mark.parametrize(
    ("name", "value"),
    [("removal", "perhaps"), ("memory", "much"), ("tags", "team"), ("termination-protection", "maybe")],
)
def test_a_context_that_is_not_understood_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"{name}.*{value}.*deploy\.md"):
        _app(tmp_path, monkeypatch, {name: value})


def test_cdk_json_runs_the_app_and_stops_no_pipeline_with_a_question() -> None:
    settings = json.loads((ROOT / "cdk.json").read_text())
    assert (settings["app"], settings["requireApproval"]) == (".venv/bin/python -m tools.app", "never")


def test_cdk_nag_has_nothing_to_say_to_a_user_who_turns_every_knob(tmp_path: Path) -> None:
    app = App(context=NO_BUNDLING, outdir=str(tmp_path))
    stack = Stack(app, "Users")
    network = ec2.Vpc.from_vpc_attributes(
        stack,
        "Network",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["a"],
        private_subnet_ids=["subnet-0123456789abcdef0"],
    )
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    secret = secretsmanager.Secret.from_secret_name_v2(stack, "Secret", "database")
    jobs = Quarterjack(
        stack,
        "Jobs",
        jobs=JOBS,
        encryption_key=key,
        vpc=network,
        secrets={"DATABASE": secret},
        archive_lock=s3.ObjectLockRetention.governance(Duration.days(30)),
        events="webhook:https://hooks.example.com/",
        event_secret=secret,
        log_groups=["/ecs/acme-worker"],
        canary="Linear10PercentEvery3Minutes",
        api=ApiSettings(
            iam=True, keys=True, jwt=JwtIssuer(issuer="https://login.acme.example", audience=["acme"]), reserved=5
        ),
    )
    role = iam.Role(stack, "Api", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    jobs.grant_scheduling(role)
    jobs.grant_work(role)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    app.synth()
