"""What the doctor says about the account's functions and the alarms' topics, of answers as AWS documents them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from quarterjack import Settings
from quarterjack.doctor.account import alarms, concurrency
from quarterjack.doctor.context import AwsProbe, DoctorContext, Finding, ProbeAnswer, Severity

TOPIC = "arn:aws:sns:eu-west-1:123456789012:pager"
WORKER = "arn:aws:lambda:eu-west-1:123456789012:function:quarterjack-worker"
NO_SUCH = ProbeAnswer(action="lambda:GetFunctionConfiguration", code="ResourceNotFoundException")
Answers = dict[str, dict[str, Any] | ProbeAnswer]


class Canned(AwsProbe):
    """Answers by operation."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(settings=Settings(), clock=lambda: 0)
        self.answers = answers

    def call(self, service: str, operation: str, /, **arguments: Any) -> ProbeAnswer:
        answer = self.answers[operation]
        if isinstance(answer, ProbeAnswer):
            return answer
        return ProbeAnswer(action=f"{service}:{operation}", data=answer.get(arguments.get("Marker", ""), answer))


def seen(check: Any, answers: Answers) -> list[Finding]:
    return list(check(DoctorContext(settings=Settings(), probe=Canned(answers), clock=lambda: 0)))


def denied(action: str) -> ProbeAnswer:
    return ProbeAnswer(action=action, code="AccessDeniedException")


# Functions.


def an_account(quota: int, *workers: dict[str, Any], reserved: int | None = None, groups: int | None = 16) -> Answers:
    variables = {} if groups is None else {"QUARTERJACK_TICKER_GROUPS": str(groups)}
    sources = [{"FunctionArn": WORKER, **worker} for worker in workers]
    others = [{"FunctionArn": "arn:aws:lambda:eu-west-1:123456789012:function:another"}]
    return {
        "get_function_configuration": {"Environment": {"Variables": variables}},
        "get_account_settings": {
            "AccountLimit": {"ConcurrentExecutions": quota, "UnreservedConcurrentExecutions": quota - (reserved or 0)}
        },
        "get_function_concurrency": {} if reserved is None else {"ReservedConcurrentExecutions": reserved},
        "list_event_source_mappings": {
            "": {"EventSourceMappings": others, "NextMarker": "more"},
            "more": {"EventSourceMappings": sources},
        },
    }


def limited(functions: int) -> dict[str, Any]:
    return {"ScalingConfig": {"MaximumConcurrency": functions}}


@pytest.mark.parametrize(
    ("answers", "verdict", "what", "remedy"),
    [
        (an_account(1000, limited(500), limited(100)), Severity.OK, "600 of the 1000", None),
        (
            an_account(1000, {}),
            Severity.WARN,
            "any number of the 1000",
            "ticker_reserved=17, or max_concurrency to 500",
        ),
        (an_account(1000, limited(980)), Severity.WARN, "980 of the 1000", "ticker_reserved=17"),
        (
            an_account(1000, {"ProvisionedPollerConfig": {"MaximumPollers": 200}}),
            Severity.WARN,
            "2000 of the 1000",
            "ticker_reserved=17",
        ),
        (
            an_account(10, limited(500)),
            Severity.WARN,
            "500 of the 10",
            "`Concurrent executions`, which is 10; until then set ticker_groups=1 and max_concurrency=5",
        ),
        (an_account(20, limited(5), groups=1), Severity.OK, "a tick may need 2", None),
        (an_account(1000, {}, reserved=17), Severity.OK, "17 of the account's 1000 functions are reserved", None),
        (an_account(1000, {}, reserved=4), Severity.WARN, "may have 4 functions", "ticker_reserved=17"),
        (an_account(1000, limited(100), groups=None), Severity.OK, "a tick may need 17", None),
    ],
)
def test_workers_that_may_starve_the_ticker_are_told_with_numbers_that_fit(
    answers: Answers, verdict: Severity, what: str, remedy: str | None
) -> None:
    (finding,) = seen(concurrency, answers)
    assert finding.verdict is verdict
    assert what in finding.what
    assert (remedy or "") in (finding.remedy or "")
    assert (finding.remedy is None) == (verdict is Severity.OK)


def test_where_there_are_no_functions_there_is_nothing_to_say() -> None:
    assert seen(concurrency, {"get_function_configuration": NO_SUCH}) == []


@pytest.mark.parametrize("operation", ["get_function_configuration", "get_account_settings"])
def test_what_may_not_be_looked_at_is_named(operation: str) -> None:
    (finding,) = seen(concurrency, an_account(1000) | {operation: denied("lambda:Something")})
    assert (finding.verdict, "lambda:Something" in str(finding.remedy)) == (Severity.WARN, True)


# Topics.

CLOUDWATCH = {"Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sns:Publish"}
DENY = {"Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Condition": {"Bool": {}}}
DEFAULT = {
    "Effect": "Allow",
    "Principal": {"AWS": "*"},
    "Action": ["SNS:GetTopicAttributes", "SNS:Subscribe", "SNS:Publish"],
    "Condition": {"StringEquals": {"AWS:SourceOwner": "123456789012"}},
}


def a_topic(*statements: dict[str, Any], **attributes: str) -> Answers:
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    return {
        "describe_alarms": {"MetricAlarms": [{"AlarmActions": [TOPIC, "arn:aws:lambda:x"]}, {"AlarmActions": [TOPIC]}]},
        "get_topic_attributes": {"Attributes": {"Policy": policy, "SubscriptionsConfirmed": "1", **attributes}},
        "get_key_policy": {"Policy": json.dumps({"Statement": [{**CLOUDWATCH, "Action": ["kms:GenerateDataKey*"]}]})},
    }


@pytest.mark.parametrize(
    ("answers", "verdict", "what"),
    [
        (a_topic(CLOUDWATCH, DENY), Severity.OK, TOPIC),
        (a_topic(DEFAULT), Severity.OK, TOPIC),
        (a_topic({**CLOUDWATCH, "Action": ["sns:*"]}), Severity.OK, TOPIC),
        (a_topic(DENY), Severity.FAIL, "does not let CloudWatch publish"),
        (a_topic({**CLOUDWATCH, "Action": "sns:Subscribe"}), Severity.FAIL, "does not let CloudWatch publish"),
        (a_topic({**CLOUDWATCH, "Principal": {"Service": "events.amazonaws.com"}}), Severity.FAIL, "does not let"),
        (a_topic({**DEFAULT, "Condition": {"StringEquals": {"AWS:SourceOwner": "9"}}}), Severity.FAIL, "does not let"),
        (a_topic(CLOUDWATCH, KmsMasterKeyId="alias/aws/sns"), Severity.FAIL, "encrypted with alias/aws/sns"),
        (a_topic(CLOUDWATCH, KmsMasterKeyId="1234"), Severity.OK, TOPIC),
        (
            a_topic(CLOUDWATCH, KmsMasterKeyId="1234") | {"get_key_policy": {"Policy": '{"Statement": []}'}},
            Severity.FAIL,
            "encrypted with 1234",
        ),
        (
            a_topic(CLOUDWATCH, KmsMasterKeyId="1234") | {"get_key_policy": denied("kms:GetKeyPolicy")},
            Severity.OK,
            TOPIC,
        ),
        (a_topic(CLOUDWATCH, SubscriptionsConfirmed="0"), Severity.WARN, "has no subscriber"),
        (
            a_topic() | {"get_topic_attributes": ProbeAnswer(action="sns:GetTopicAttributes", code="NotFound")},
            Severity.FAIL,
            "is not there",
        ),
        (
            a_topic() | {"get_topic_attributes": denied("sns:GetTopicAttributes")},
            Severity.WARN,
            "sns:GetTopicAttributes is refused",
        ),
    ],
)
def test_a_topic_to_which_no_alarm_comes_is_told(answers: Answers, verdict: Severity, what: str) -> None:
    (finding,) = seen(alarms, answers)
    assert (finding.verdict, what in finding.what) == (verdict, True), finding
    assert (finding.remedy is None) == (verdict is Severity.OK)


def test_without_alarms_there_is_nothing_to_say_and_a_refusal_is_named() -> None:
    assert seen(alarms, {"describe_alarms": {"MetricAlarms": []}}) == []
    (finding,) = seen(alarms, {"describe_alarms": denied("cloudwatch:DescribeAlarms")})
    assert "cloudwatch:DescribeAlarms" in str(finding.remedy)
