"""The function that publishes events: what it is given, and what it may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Template
from quarterjack.errors import InvalidInput

from infra import Quarterjack
from tests.support.templates import functions, statements

JOBS = Path(__file__).parent / "acme" / "jobs"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:runs"


def actions(template: Template) -> dict[str, str]:
    """Actions of the function's role beside those on the table, with their resource."""
    found = {}
    for statement in statements(template, "JobsEventsRole"):
        listed = statement["Action"]
        for action in [listed] if isinstance(listed, str) else listed:
            found[action] = json.dumps(statement["Resource"])
    return found


def patterns(template: Template) -> list[dict[str, Any]]:
    """What the event source of the function lets through."""
    for source in template.find_resources("AWS::Lambda::EventSourceMapping").values():
        properties = source["Properties"]
        if "Events" in json.dumps(properties["FunctionName"]):
            return [json.loads(each["Pattern"]) for each in properties["FilterCriteria"]["Filters"]]
    raise AssertionError("it has no event source")


def of_states(*states: str) -> dict[str, Any]:
    return {"dynamodb": {"NewImage": {"state": {"S": list(states)}}}}


NOTICES = {"eventName": ["INSERT"], "dynamodb": {"Keys": {"key": {"S": [{"prefix": "~notice~"}]}}}}


def test_without_a_target_there_is_no_such_function(template: Template) -> None:
    assert "quarterjack-events" not in functions(template)


def test_a_bus(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(events="eventbridge:acme")
    variables = functions(template)["quarterjack-events"]["Environment"]["Variables"]
    assert variables["QUARTERJACK_EVENTS"] == "eventbridge:acme"
    assert "QUARTERJACK_EVENT_TYPES" not in variables
    found = actions(template)
    assert "event-bus/acme" in found["events:PutEvents"]
    assert "sns:Publish" not in found
    assert patterns(template) == [of_states("SUCCEEDED", "DEAD", "LOST", "EXPIRED", "CANCELLED"), NOTICES]


def test_a_topic_and_some_types(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(events=f"sns:{TOPIC}", event_types=["run.dead", "run.lost"])
    variables = functions(template)["quarterjack-events"]["Environment"]["Variables"]
    assert variables["QUARTERJACK_EVENT_TYPES"] == "run.dead,run.lost"
    assert actions(template)["sns:Publish"] == json.dumps(TOPIC)
    assert patterns(template) == [of_states("DEAD", "LOST")]
    assert announcing(template) == {}


def test_what_begins_and_ends_incidents_knows_that_they_are_published(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(events=f"sns:{TOPIC}", event_types=["schedule.failing"])
    assert patterns(template) == [NOTICES]
    told = {"QUARTERJACK_EVENTS": f"sns:{TOPIC}", "QUARTERJACK_EVENT_TYPES": "schedule.failing"}
    assert announcing(template) == {"quarterjack-ticker": told, "quarterjack-undertaker": told}


def test_notices_of_circuit_breakers_reach_the_function_whoever_knows_of_it(
    with_knobs: Callable[..., Template],
) -> None:
    """Their records are always written: workers and people need not know where events go."""
    template = with_knobs(events=f"sns:{TOPIC}", event_types=["breaker.opened"])
    assert patterns(template) == [NOTICES]
    assert announcing(template) == {}


def announcing(template: Template) -> dict[str, dict[str, str]]:
    """The functions that know of events beside the one that publishes them, with their variables about them."""
    found = {}
    for name, function in functions(template).items():
        variables = function["Environment"]["Variables"]
        about = {key: word for key, word in variables.items() if key.startswith("QUARTERJACK_EVENT")}
        if about and name != "quarterjack-events":
            found[name] = about
    return found


def test_a_webhook_reads_its_secret(stack: Stack) -> None:
    secret = secretsmanager.Secret(stack, "Hook")
    Quarterjack(stack, "Jobs", jobs=JOBS, events="webhook:https://example.com/", event_secret=secret)
    template = Template.from_stack(stack)
    assert "secretsmanager:GetSecretValue" in actions(template)
    variables = functions(template)["quarterjack-events"]["Environment"]["Variables"]
    assert variables["QUARTERJACK_EVENT_SECRET"]["Fn::Join"][1][0] == "secret:"


def test_a_batch_that_fails_comes_again_whole_and_what_fails_is_noted(with_knobs: Callable[..., Template]) -> None:
    """The function tells one event that fails from an outage by the other events of its batch."""
    template = with_knobs(events="eventbridge:acme")
    (source,) = (
        source["Properties"]
        for source in template.find_resources("AWS::Lambda::EventSourceMapping").values()
        if "Events" in json.dumps(source["Properties"]["FunctionName"])
    )
    assert source["BisectBatchOnFunctionError"] is False
    assert source["BatchSize"] == 100
    assert {"dynamodb:GetItem", "dynamodb:PutItem"} <= set(actions(template))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"events": "kafka:x"}, "events"),
        ({"events": "webhook:https://example.com/"}, "event_secret"),
        ({"events": "eventbridge:acme", "event_types": ["run.exploded"]}, "event_types"),
        ({"event_types": ["run.dead"]}, "event_types"),
        ({"events": "eventbridge:acme", "history": False}, "events"),
    ],
)
def test_what_fits_nothing_is_refused(stack: Stack, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Quarterjack(stack, "Jobs", jobs=JOBS, **given)
    assert refused.value.field == field
