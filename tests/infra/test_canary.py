"""Aliases of functions: what is called is the alias, for functions that are always started and for deployments in steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Match, Template
from quarterjack.domain.queue import Queue
from quarterjack.errors import InvalidInput

from infra import AlarmChange, AlarmSettings, Quarterjack
from infra.canary import CONFIGURATIONS
from tests.support.stacks import JOBS
from tests.support.templates import statements

STEPS = "Linear10PercentEvery3Minutes"
QUEUES = [Queue(name="exact", provisioned_concurrency=3), Queue(name="gpu", container=True)]
FUNCTIONS = {"Ticker", "Worker", "Workerexact"}


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    return with_knobs(queues=QUEUES, canary=STEPS)


def aliases(template: Template) -> dict[str, dict[str, Any]]:
    """By the part, as in ``Workerexact``."""
    found = template.find_resources("AWS::Lambda::Alias")
    return {name.removeprefix("Jobs").partition("Live")[0]: {**alias, "Id": name} for name, alias in found.items()}


def test_ticker_and_workers_are_called_by_an_alias_that_codedeploy_moves(template: Template) -> None:
    found = aliases(template)
    assert found.keys() == FUNCTIONS
    sources = template.find_resources("AWS::Lambda::EventSourceMapping").values()
    called = [json.dumps(source["Properties"]["FunctionName"]) for source in sources]
    for part in FUNCTIONS - {"Ticker"}:
        assert any(found[part]["Id"] in function for function in called)
        assert not any(f'"Jobs{part}Function' in function for function in called)
    clock = {"Target": Match.object_like({"Arn": {"Ref": found["Ticker"]["Id"]}})}
    template.has_resource_properties("AWS::Scheduler::Schedule", clock)
    (application,) = template.find_resources("AWS::CodeDeploy::Application")
    groups = template.find_resources("AWS::CodeDeploy::DeploymentGroup")
    moved = {
        alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"] for alias in found.values()
    }
    assert moved == groups.keys()
    for group in groups.values():
        properties = group["Properties"]
        assert properties["ApplicationName"] == {"Ref": application}
        assert properties["DeploymentConfigName"] == f"CodeDeployDefault.Lambda{STEPS}"


@pytest.mark.parametrize(
    ("part", "alarms"),
    [
        ("Ticker", {"function-errors-ticker", "no-tick"}),
        ("Worker", {"function-errors-worker", "failing-attempts"}),
        ("Workerexact", {"function-errors-worker-exact", "failing-attempts-exact"}),
    ],
)
def test_the_alarms_about_a_function_move_it_back(template: Template, part: str, alarms: set[str]) -> None:
    moved = aliases(template)[part]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"]
    group = template.find_resources("AWS::CodeDeploy::DeploymentGroup")[moved]
    made = template.find_resources("AWS::CloudWatch::Alarm")
    watched = group["Properties"]["AlarmConfiguration"]
    names = {made[each["Name"]["Ref"]]["Properties"]["AlarmName"] for each in watched["Alarms"]}
    assert (watched["Enabled"], names) == (True, {f"quarterjack-{name}" for name in alarms})
    assert group["Properties"]["AutoRollbackConfiguration"] == {
        "Enabled": True,
        "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_REQUEST", "DEPLOYMENT_STOP_ON_ALARM"],
    }
    policies = template.find_resources("AWS::IAM::Policy")
    assert any(one in policies and one.startswith("JobsCanaryRole") for one in group["DependsOn"])


def test_codedeploy_moves_these_aliases_and_no_others(template: Template) -> None:
    allowed = statements(template, "JobsCanaryRole")
    assert {tuple(each["Action"]) if isinstance(each["Action"], list) else each["Action"] for each in allowed} == {
        ("lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"),
        "cloudwatch:DescribeAlarms",
    }
    (moves,) = (each["Resource"] for each in allowed if "lambda:UpdateAlias" in each["Action"])
    assert len(moves) == 2 * len(FUNCTIONS)
    assert all("Function" in json.dumps(arn) and "*" not in json.dumps(arn) for arn in moves)
    (role,) = (r for n, r in template.find_resources("AWS::IAM::Role").items() if n.startswith("JobsCanaryRole"))
    assert "ManagedPolicyArns" not in role["Properties"]


def test_the_version_before_stays_for_what_runs_on_it(template: Template) -> None:
    assert len(template.find_resources("AWS::Lambda::Version")) == len(FUNCTIONS)
    template.all_resources("AWS::Lambda::Version", {"DeletionPolicy": "Retain"})


def test_the_tickers_alias_is_called_without_retries_and_calls_itself(template: Template) -> None:
    calls = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    template.resource_properties_count_is("AWS::Lambda::EventInvokeConfig", calls, 3)  # ticker, its alias, auditor
    of_alias = [
        config["Properties"]
        for config in template.find_resources("AWS::Lambda::EventInvokeConfig").values()
        if aliases(template)["Ticker"]["Id"] in json.dumps(config["Properties"]["Qualifier"])
    ]
    assert len(of_alias) == 1
    (itself,) = (s for s in statements(template, "JobsTickerRole") if s["Action"] == "lambda:InvokeFunction")
    assert json.dumps(itself["Resource"]).endswith(':function:quarterjack-ticker:live"]]}')


def test_provisioned_functions_are_those_of_the_alias(template: Template, with_knobs: Callable[..., Template]) -> None:
    kept = {part: alias["Properties"].get("ProvisionedConcurrencyConfig") for part, alias in aliases(template).items()}
    three = {"ProvisionedConcurrentExecutions": 3}
    assert kept == {"Ticker": None, "Worker": None, "Workerexact": three}
    without_steps = with_knobs(queues=[*QUEUES, Queue(name="mail")], provisioned_concurrency=5)
    found = aliases(without_steps)
    assert found.keys() == {"Worker", "Workerexact"}
    assert not any("UpdatePolicy" in alias for alias in found.values())
    called = [
        json.dumps(source["Properties"]["FunctionName"])
        for source in without_steps.find_resources("AWS::Lambda::EventSourceMapping").values()
    ]
    assert all(any(alias["Id"] in function for function in called) for alias in found.values())
    assert any("JobsWorkermailFunction" in function for function in called)  # as without it


OFF = AlarmSettings(changes={"function-errors": AlarmChange(enabled=False)})


@pytest.mark.parametrize(
    ("canary", "alarms", "why"),
    [
        ("AllAtOnce", None, "Linear10PercentEvery10Minutes"),
        ("CodeDeployDefault.LambdaLinear10PercentEvery3Minutes", None, STEPS),
        ("", None, "or None"),
        ("Canary10Percent5Minutes", None, r"ends after 5 minutes.*may need 8; use Canary10Percent10Minutes"),
        (STEPS, AlarmSettings(enabled=False), "leave the alarm function-errors enabled"),
        (STEPS, OFF, "leave the alarm function-errors enabled"),
        (
            "Linear10PercentEvery10Minutes",
            AlarmSettings(changes={"function-errors": AlarmChange(minutes=120)}),
            "90 minutes",
        ),
    ],
)
def test_a_configuration_that_could_not_roll_back_is_refused(
    stack: Stack, canary: str, alarms: AlarmSettings | None, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why) as refusal:
        Quarterjack(stack, "Jobs", jobs=JOBS, canary=canary, alarms=alarms)
    assert (refusal.value.field, refusal.value.value) == ("canary", canary)
    assert refusal.value.remedy


def test_all_of_codedeploys_configurations_with_steps_are_known() -> None:
    from aws_cdk.aws_codedeploy import LambdaDeploymentConfig

    named = {name for name in dir(LambdaDeploymentConfig) if name.startswith(("CANARY", "LINEAR"))}
    assert {name.replace("_", "") for name in named} == {name.upper() for name in CONFIGURATIONS}
