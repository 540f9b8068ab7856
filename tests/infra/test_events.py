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
from minutehand.errors import InvalidInput

from infra import Minutehand
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


def filters(template: Template) -> list[str]:
    """The states that the event source of the function lets through."""
    for source in template.find_resources("AWS::Lambda::EventSourceMapping").values():
        properties = source["Properties"]
        if "Events" in json.dumps(properties["FunctionName"]):
            (only,) = properties["FilterCriteria"]["Filters"]
            return list(json.loads(only["Pattern"])["dynamodb"]["NewImage"]["state"]["S"])
    raise AssertionError("it has no event source")


def test_without_a_target_there_is_no_such_function(template: Template) -> None:
    assert "minutehand-events" not in functions(template)


def test_a_bus(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(events="eventbridge:acme")
    variables = functions(template)["minutehand-events"]["Environment"]["Variables"]
    assert variables["MINUTEHAND_EVENTS"] == "eventbridge:acme"
    assert "MINUTEHAND_EVENT_TYPES" not in variables
    found = actions(template)
    assert "event-bus/acme" in found["events:PutEvents"]
    assert "sns:Publish" not in found
    assert filters(template) == ["SUCCEEDED", "DEAD", "LOST", "EXPIRED", "CANCELLED"]


def test_a_topic_and_some_types(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(events=f"sns:{TOPIC}", event_types=["run.dead", "run.lost"])
    variables = functions(template)["minutehand-events"]["Environment"]["Variables"]
    assert variables["MINUTEHAND_EVENT_TYPES"] == "run.dead,run.lost"
    assert actions(template)["sns:Publish"] == json.dumps(TOPIC)
    assert filters(template) == ["DEAD", "LOST"]


def test_a_webhook_reads_its_secret(stack: Stack) -> None:
    secret = secretsmanager.Secret(stack, "Hook")
    Minutehand(stack, "Jobs", jobs=JOBS, events="webhook:https://example.com/", event_secret=secret)
    template = Template.from_stack(stack)
    assert "secretsmanager:GetSecretValue" in actions(template)
    variables = functions(template)["minutehand-events"]["Environment"]["Variables"]
    assert variables["MINUTEHAND_EVENT_SECRET"]["Fn::Join"][1][0] == "secret:"


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
        Minutehand(stack, "Jobs", jobs=JOBS, **given)
    assert refused.value.field == field
