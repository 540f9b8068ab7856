"""The HTTP API in the stack: nothing of it by default; who is let in, what the function may do, what is logged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template
from quarterjack.errors import InvalidInput

from infra import ApiSettings, JwtIssuer, Quarterjack
from tests.support.stacks import JOBS
from tests.support.templates import actions_of, functions, statements

ISSUER = JwtIssuer(issuer="https://token.actions.githubusercontent.com", audience=["quarterjack"])
ALL = ApiSettings(iam=True, jwt=ISSUER, keys=True, rate=20, burst=40, reserved=5)


@pytest.fixture(scope="module")
def template(with_knobs: Callable[..., Template]) -> Template:
    return with_knobs(api=ALL)


def of(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    return {name: found["Properties"] for name, found in template.find_resources(f"AWS::ApiGatewayV2::{kind}").items()}


def test_there_is_none_unless_it_is_wanted(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs()
    assert not [kind for kind in ("Api", "Route", "Stage", "Integration") if of(template, kind)]
    assert "quarterjack-api" not in functions(template)


def test_each_way_in_has_a_url_of_its_own_and_one_route_that_asks_for_it(template: Template) -> None:
    apis = {name: found["Name"] for name, found in of(template, "Api").items()}
    assert sorted(apis.values()) == ["quarterjack-api-iam", "quarterjack-api-jwt", "quarterjack-api-keys"]
    asked = {
        apis[route["ApiId"]["Ref"]]: (route["RouteKey"], route["AuthorizationType"], "AuthorizerId" in route)
        for route in of(template, "Route").values()
    }
    assert asked == {
        "quarterjack-api-iam": ("$default", "AWS_IAM", False),
        "quarterjack-api-jwt": ("$default", "JWT", True),
        "quarterjack-api-keys": ("$default", "NONE", False),
    }
    (authorizer,) = of(template, "Authorizer").values()
    assert authorizer["JwtConfiguration"] == {"Audience": ["quarterjack"], "Issuer": ISSUER.issuer}
    assert {"IamApiUrl", "JwtApiUrl", "KeysApiUrl"} <= template.find_outputs("*").keys()


def test_only_what_is_asked_for_is_made(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(api=ApiSettings(iam=True))
    assert [route["AuthorizationType"] for route in of(template, "Route").values()] == ["AWS_IAM"]
    assert not of(template, "Authorizer")


def test_requests_are_throttled_and_no_other_site_may_read_an_answer(template: Template) -> None:
    for stage in of(template, "Stage").values():
        assert stage["DefaultRouteSettings"] == {"ThrottlingBurstLimit": 40, "ThrottlingRateLimit": 20}
        assert stage["StageName"] == "$default"
    assert not [api for api in of(template, "Api").values() if "CorsConfiguration" in api]


def test_the_log_of_requests_has_no_header_query_or_body(template: Template) -> None:
    for stage in of(template, "Stage").values():
        line = json.loads(stage["AccessLogSettings"]["Format"])
        assert line["status"] == "$context.status"
        assert {value.split(".")[1] for value in line.values()} <= {
            *("requestId", "requestTime", "identity", "httpMethod", "path", "status", "responseLatency", "error"),
        }
    assert "LOG_EVENT" not in json.dumps(functions(template)["quarterjack-api"])


def test_the_function(template: Template) -> None:
    function = functions(template)["quarterjack-api"]
    assert function["Handler"] == "functions/api/handler.handler"
    assert function["ReservedConcurrentExecutions"] == 5
    assert function["Timeout"] == 29
    assert "QUARTERJACK_BUCKET" in function["Environment"]["Variables"]
    assert "QUARTERJACK_CONSOLE" not in function["Environment"]["Variables"]
    codes = {name: json.dumps(found["Code"]) for name, found in functions(template).items()}
    assert [name for name, code in codes.items() if code == codes["quarterjack-api"]] == ["quarterjack-api"]


def test_it_may_do_what_scheduling_takes_and_read_keys_and_no_more(stack: Stack) -> None:
    from aws_cdk import aws_iam as iam

    jobs = Quarterjack(stack, "Jobs", jobs=JOBS, api=ALL)
    jobs.grant_scheduling(iam.Role(stack, "Scheduling", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com")))
    template = Template.from_stack(stack)

    def allowed(role: str) -> set[tuple[str, str, str]]:
        return {
            (action, json.dumps(resource), json.dumps(each.get("Condition"), sort_keys=True))
            for each in statements(template, role)
            for action in actions_of(each)
            for resource in (each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]])
        }

    more = allowed("JobsApiRoleDefaultPolicy") - allowed("SchedulingDefaultPolicy")
    tables = {entry for entry in more if entry[0].startswith("dynamodb:")}
    assert {action for action, *_ in more - tables} == {
        *("logs:CreateLogStream", "logs:PutLogEvents", "xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    }
    assert {action for action, *_ in tables} == {"dynamodb:GetItem", "dynamodb:UpdateItem"}
    assert all("StoreTenants" in resource for _, resource, _ in tables)
    (marked,) = (json.loads(condition) for action, _, condition in tables if action == "dynamodb:UpdateItem")
    assert marked["ForAllValues:StringEquals"] == {"dynamodb:Attributes": ["tenant", "item", "digest", "used_on"]}


def test_without_keys_it_reads_none(with_knobs: Callable[..., Template]) -> None:
    found = statements(with_knobs(api=ApiSettings(iam=True)), "JobsApiRoleDefaultPolicy")
    tenants = [each["Action"] for each in found if "StoreTenants" in json.dumps(each["Resource"])]
    assert tenants == ["dynamodb:BatchGetItem"]


def test_the_console_is_at_the_url_for_keys_if_it_is_asked_for(with_knobs: Callable[..., Template]) -> None:
    template = with_knobs(api=ApiSettings(keys=True, console=True))
    assert functions(template)["quarterjack-api"]["Environment"]["Variables"]["QUARTERJACK_CONSOLE"] == "on"
    (output,) = (found for name, found in template.find_outputs("*").items() if name == "ConsoleUrl")
    assert json.dumps(output["Value"]).count("/console/") == 1


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (ApiSettings, "api"),
        (lambda: ApiSettings(iam=True, rate=0), "rate"),
        (lambda: ApiSettings(iam=True, burst=10_001), "burst"),
        (lambda: ApiSettings(keys=True, reserved=0), "reserved"),
        (lambda: ApiSettings(iam=True, console=True), "console"),
        (lambda: JwtIssuer(issuer="http://acme.example", audience=["a"]), "issuer"),
        (lambda: JwtIssuer(issuer="https://acme.example", audience=[]), "audience"),
        (lambda: JwtIssuer(issuer="https://acme.example", audience="a"), "audience"),
    ],
)
def test_what_would_let_in_nobody_or_anybody_is_refused(make: Callable[[], Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        make()
    assert refusal.value.field == field
    assert refusal.value.remedy
