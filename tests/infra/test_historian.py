"""The historian's function: what it reads, what it may do, what tells that it does not keep up; and none of it without history."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Match, Template
from quarterjack.domain.names import aside_ref, fire_ref, one_off_ref
from quarterjack.dynamodb.run_stream import is_run
from quarterjack.errors import InvalidInput

from infra import Quarterjack
from infra.roles.historian import FILTER
from tests.support.templates import actions_of, functions, statements

JOBS = Path(__file__).parent / "acme" / "jobs"


def test_it_reads_the_stream_of_runs_in_order_and_gives_up_what_it_cannot_handle(template: Template) -> None:
    template.has_resource_properties(
        "AWS::Lambda::EventSourceMapping",
        {
            "EventSourceArn": {"Fn::GetAtt": [Match.string_like_regexp("JobsStoreRuns.*"), "StreamArn"]},
            "FunctionName": {"Ref": Match.string_like_regexp("JobsHistorianFunction.*")},
            "StartingPosition": "TRIM_HORIZON",
            "BatchSize": 1_000,
            "MaximumBatchingWindowInSeconds": 10,
            "ParallelizationFactor": 1,
            "BisectBatchOnFunctionError": True,
            "MaximumRetryAttempts": 600,
            "DestinationConfig": {
                "OnFailure": {"Destination": {"Fn::GetAtt": [Match.string_like_regexp("JobsHistorianAside.*"), "Arn"]}}
            },
            "FilterCriteria": {"Filters": [{"Pattern": json.dumps(FILTER, separators=(",", ":"))}]},
        },
    )
    template.has_resource_properties(
        "AWS::SQS::Queue",
        {
            "QueueName": "quarterjack-historian-aside",
            "MessageRetentionPeriod": 14 * 24 * 3600,
            "SqsManagedSseEnabled": True,
        },
    )


def test_the_filter_lets_every_run_pass_and_nothing_beside_it() -> None:
    patterns = FILTER["dynamodb"]["Keys"]["key"]["S"]

    def passes(key: str) -> bool:
        return any(key == p if isinstance(p, str) else key.startswith(p["prefix"]) for p in patterns)

    runs = [fire_ref("acme/s", 1_777_883_400_000), aside_ref("acme/s", 9 * 10**14, "x"), one_off_ref("acme", "k")]
    assert all(passes(run.key) and is_run(run) for run in runs)
    for key in ("#001777883400000#attempt#000001", "~turns", "~quarterjack"):
        assert not passes(key)


def test_it_may_read_its_stream_note_what_it_sets_aside_and_no_more_of_the_ledger(template: Template) -> None:
    allowed: dict[str, list[dict[str, Any]]] = {}
    for statement in statements(template, "JobsHistorianRole"):
        for action in actions_of(statement):
            allowed.setdefault(action, []).append(statement)
    streams = {"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}
    on_runs = {
        action
        for action, found in allowed.items()
        if any("StoreRuns" in json.dumps(s["Resource"]) for s in found) and action.startswith("dynamodb")
    }
    assert on_runs == streams | {"dynamodb:PutItem"}
    (put,) = (s for s in allowed["dynamodb:PutItem"] if "StoreRuns" in json.dumps(s["Resource"]))
    assert put["Condition"]["ForAllValues:StringLike"] == {"dynamodb:LeadingKeys": ["~quarterjack/~historian"]}
    for action in streams:
        (reading,) = allowed[action]
        assert reading["Resource"]["Fn::GetAtt"][1] == "StreamArn"
    (sending,) = allowed["sqs:SendMessage"]
    assert "JobsHistorianAside" in json.dumps(sending["Resource"])


def test_without_history_there_is_no_stream_no_historian_and_no_alarm_of_it(
    with_knobs: Callable[..., Template],
) -> None:
    template = with_knobs(history=False)
    assert not [name for name in functions(template) if "historian" in name]
    assert "JobsHistorian" not in json.dumps(template.to_json())
    assert "historian-" not in json.dumps(template.to_json())
    assert "StreamSpecification" not in json.dumps(template.to_json())
    variables = [function["Environment"]["Variables"] for function in functions(template).values()]
    assert {each.get("QUARTERJACK_HISTORY") for each in variables} == {"off"}
    template.has_output("*", {"Value": "off"})


@pytest.mark.parametrize("value", ["off", 0, None])
def test_it_is_on_or_off_and_nothing_else(stack: Stack, value: Any) -> None:
    with pytest.raises(InvalidInput, match="history"):
        Quarterjack(stack, "Jobs", jobs=JOBS, history=value)
