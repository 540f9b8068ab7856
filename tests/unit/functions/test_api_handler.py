"""The HTTP API's function, driven by the events that API Gateway sends (payload format 2.0)."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mangum import Mangum
from quarterjack.clock import system_clock
from quarterjack.testing import Harness
from quarterjack.web.urls import name_in_url

from tests.support.api import NIGHTLY, NOON, greeting_jobs
from tests.support.signed_in import ARN as BALANCER
from tests.support.signed_in import KEY, KID, OURS, text, token

ARN = "arn:aws:iam::123456789012:user/ada"
IAM = {
    "iam": {
        "accessKey": "AKIAIOSFODNN7EXAMPLE",
        "accountId": "123456789012",
        "callerId": "AIDACKCEVSQ6C2EXAMPLE",
        "cognitoIdentity": None,
        "principalOrgId": "aws:PrincipalOrgID",
        "userArn": ARN,
        "userId": "AIDACKCEVSQ6C2EXAMPLE",
    }
}
JWT = {"jwt": {"claims": {"iss": "https://login.acme.example/", "sub": "ada", "aud": "quarterjack"}, "scopes": None}}
CONTEXT: Any = SimpleNamespace(
    function_name="quarterjack-api",
    memory_limit_in_mb=1769,
    invoked_function_arn="arn:aws:lambda:eu-central-1:123456789012:function:quarterjack-api",
    aws_request_id="c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
)
SCHEDULES = "/v1/tenants/default/schedules"


def event(method: str, path: str, authorizer: Any = None, *, body: Any = None, **headers: str) -> dict[str, Any]:
    """As the gateway makes it: the path is decoded but for ``%25``; the body is text, or base64."""
    raw = "%25".join(unquote(part) for part in path.split("%25"))
    context: dict[str, Any] = {
        "accountId": "123456789012",
        "apiId": "a1b2c3d4e5",
        "domainName": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
        "domainPrefix": "a1b2c3d4e5",
        "http": {
            "method": method,
            "path": raw,
            "protocol": "HTTP/1.1",
            "sourceIp": "192.0.2.1",
            "userAgent": "curl/8.5.0",
        },
        "requestId": "JKJaXmPLvHcESHA=",
        "routeKey": "$default",
        "stage": "$default",
        "time": "04/May/2026:12:00:00 +0000",
        "timeEpoch": 1777896000000,
    }
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": raw,
        "rawQueryString": "",
        "headers": {
            "accept": "*/*",
            "host": context["domainName"],
            "x-forwarded-proto": "https",
            "x-forwarded-port": "443",
            **{name.replace("_", "-").lower(): value for name, value in headers.items()},
        },
        "requestContext": context if authorizer is None else {**context, "authorizer": authorizer},
        "isBase64Encoded": False,
    }
    if body is not None:
        made["headers"]["content-type"] = "application/json"
        made["body"] = json.dumps(body)
    return made


class Gateway:
    """The handler over a harness."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(
            "POWERTOOLS_METRICS_NAMESPACE", "Quarterjack"
        )  # read as the module is imported, for all tests
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "quarterjack-test")
        from functions.api import handler as module

        self.harness = Harness(greeting_jobs(), at=NOON)
        self.tenants = self.harness.tenants
        monkeypatch.setattr(module, "services", lambda: self.harness.scheduler.session.services)
        adapter = Mangum(module._application(), lifespan="off", text_mime_types=module._TEXT)
        monkeypatch.setattr(module, "_adapter", lambda: adapter)
        self._handler = module.handler

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._handler(request, CONTEXT)
        assert found["isBase64Encoded"] is False
        json.dumps(found)  # as Lambda does
        return found

    def ask(self, method: str, path: str, authorizer: Any = None, **more: Any) -> tuple[int, Any]:
        found = self.answer(event(method, path, authorizer, **more))
        return found["statusCode"], json.loads(found["body"]) if found["body"] else None

    def admit(self, principal: str, can: str) -> None:
        self.tenants.grant("default", self.harness.scheduler.session.services.identity(), "admin")
        self.tenants.grant("default", principal, can)


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    loop = asyncio.new_event_loop()  # which the adapter takes, and on Lambda keeps
    asyncio.set_event_loop(loop)
    yield Gateway(monkeypatch)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.set_event_loop(None)


@pytest.mark.parametrize(
    ("authorizer", "principal"), [(IAM, f"iam:{ARN}"), (JWT, "oidc:login.acme.example/ada")], ids=["iam", "jwt"]
)
def test_whom_the_gateway_let_in_may_do_what_was_granted(gateway: Gateway, authorizer: Any, principal: str) -> None:
    assert gateway.ask("GET", SCHEDULES, authorizer)[0] == 403
    gateway.admit(principal, "editor")
    status, made = gateway.ask("POST", SCHEDULES, authorizer, body={"name": "reports/nightly", **NIGHTLY})
    assert (status, made["name"]) == (201, "reports/nightly")
    assert gateway.harness.scheduler.get_schedule("reports/nightly").actor == principal


def test_who_brings_nothing_is_nobody(gateway: Gateway) -> None:
    found = gateway.answer(event("GET", SCHEDULES))
    assert (found["statusCode"], found["headers"]["content-type"]) == (401, "application/problem+json")
    assert found["headers"]["www-authenticate"] == 'Bearer realm="quarterjack"'
    assert gateway.ask("GET", SCHEDULES, authorization="Bearer qj_default_crm.1_" + "x" * 43)[0] == 401
    assert gateway.ask("GET", "/healthz")[0] == 200


def test_nor_does_a_header_or_a_body_pass_for_the_gateway(gateway: Gateway) -> None:
    gateway.admit(f"iam:{ARN}", "admin")
    forged = {"x-amzn-request-context": json.dumps({"authorizer": IAM}), "aws.event": json.dumps({"a": IAM})}
    assert gateway.ask("POST", SCHEDULES, body={"requestContext": {"authorizer": IAM}}, **forged)[0] == 401


def test_a_key_may_do_what_it_says(gateway: Gateway) -> None:
    sent = {"authorization": f"Bearer {gateway.tenants.create_key('default', 'crm', 'submit').text}"}
    status, run = gateway.ask("POST", "/v1/tenants/default/runs", body={"job": "greet"}, **sent)
    assert (status, run["job"]) == (201, "greet")
    assert gateway.ask("POST", SCHEDULES, body={"name": "n", **NIGHTLY}, **sent)[0] == 403
    assert gateway.ask("GET", "/v1/tenants/acme/schedules", **sent)[0] == 403


@pytest.mark.parametrize("authorizer", [IAM, JWT], ids=["iam", "jwt"])
def test_operators_are_not_served(gateway: Gateway, authorizer: Any) -> None:
    gateway.admit(f"iam:{ARN}", "admin")
    for path in "/v1/tenants", "/v1/doctor":
        assert gateway.ask("GET", path, authorizer)[0] == 403


def test_a_body_in_base64_and_a_query_arrive(gateway: Gateway) -> None:
    gateway.admit(f"iam:{ARN}", "editor")
    request = event("POST", SCHEDULES, IAM, body={**NIGHTLY, "name": "a", "payload": {"to": "Zoë"}})
    request |= {"body": base64.b64encode(request["body"].encode()).decode(), "isBase64Encoded": True}
    assert gateway.answer(request)["statusCode"] == 201
    assert gateway.harness.scheduler.get_schedule("a").payload == {"to": "Zoë"}
    found = gateway.answer(event("GET", SCHEDULES, IAM) | {"rawQueryString": "prefix=b%2F&limit=5"})
    assert json.loads(found["body"])["items"] == []


def test_nothing_of_a_request_is_logged(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    from functions.observe import logger

    monkeypatch.setattr(logger.registered_handler, "stream", log)
    key = gateway.tenants.create_key("default", "crm", "submit").text
    body = {"job": "greet", "payload": {"to": "a-secret-name"}}
    assert gateway.ask("POST", "/v1/tenants/default/runs", body=body, authorization=f"Bearer {key}")[0] == 201
    assert "a-secret-name" not in log.getvalue()
    assert key not in log.getvalue()


# The console.


FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def pages(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setenv("QUARTERJACK_CONSOLE", "on")
    return Gateway(monkeypatch)


def sign_in(gateway: Gateway, key: str) -> dict[str, Any]:
    request = event("POST", "/console/sign-in", content_type=FORM, sec_fetch_site="same-origin")
    return gateway.answer(request | {"body": urlencode({"key": key})})


def with_cookie(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return request | {"cookies": [each.partition(";")[0] for each in answer["cookies"]]}


def test_without_the_setting_there_is_no_console(gateway: Gateway) -> None:
    assert gateway.answer(event("GET", "/console/sign-in"))["statusCode"] == 404


def test_a_person_opens_the_console_with_an_api_key(pages: Gateway) -> None:
    key = pages.tenants.create_key("acme", "ada", "viewer").text
    opened = sign_in(pages, key)
    assert (opened["statusCode"], opened["headers"]["location"]) == (303, "/console/")
    (cookie,) = opened["cookies"]
    assert {"HttpOnly", "Path=/console", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
    home = pages.answer(with_cookie(event("GET", "/console/"), opened))
    assert home["headers"]["location"] == "/console/t/acme/"
    page = pages.answer(with_cookie(event("GET", "/console/t/acme/"), opened))
    assert (page["statusCode"], page["headers"]["content-type"]) == (200, "text/html; charset=utf-8")
    assert pages.answer(with_cookie(event("GET", "/console/t/default/"), opened))["statusCode"] == 403
    style = pages.answer(event("GET", "/console/static/console.css"))
    assert (style["statusCode"], "body" in style["body"]) == (200, True)


def test_another_key_a_revoked_one_and_another_site_open_nothing(pages: Gateway) -> None:
    key = pages.tenants.create_key("acme", "ada", "viewer")
    opened = sign_in(pages, key.text)
    for wrong in "", "qj_acme_ada.1_" + "x" * 43, key.text + "x", "k" * 100_000:
        refused = sign_in(pages, wrong)
        assert (refused["statusCode"], refused.get("cookies") or []) == (403, [])
    foreign = event("POST", "/console/sign-in", content_type=FORM, sec_fetch_site="cross-site")
    assert pages.answer(foreign | {"body": urlencode({"key": key.text})})["statusCode"] == 403
    pages.tenants.revoke_key("acme", "ada.1")
    pages.harness.advance(seconds=6)
    found = pages.answer(with_cookie(event("GET", "/console/t/acme/"), opened))
    assert (found["statusCode"], found["headers"]["location"]) == (
        303,
        "/console/sign-in?next=%2Ft%2Facme%2F",
    )


def test_who_signs_out_has_no_cookie_any_more(pages: Gateway) -> None:
    opened = sign_in(pages, pages.tenants.create_key("acme", "ada", "viewer").text)
    out = pages.answer(with_cookie(event("POST", "/console/sign-out", sec_fetch_site="same-origin"), opened))
    assert out["statusCode"] == 303
    assert "Max-Age=0" in out["cookies"][0]


def test_the_key_of_a_cookie_is_in_no_log_and_no_page(pages: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    from functions.observe import logger

    monkeypatch.setattr(logger.registered_handler, "stream", log)
    key = pages.tenants.create_key("acme", "ada", "viewer").text
    opened = sign_in(pages, key)
    page = pages.answer(with_cookie(event("GET", "/console/t/acme/schedules"), opened))
    assert page["statusCode"] == 200
    assert key not in log.getvalue() + page["body"]


NAMES = st.text("abcXYZ019._:@/-", min_size=1, max_size=30).filter(
    lambda name: not name.startswith("/") and not name.endswith("/") and "//" not in name
)


def test_every_name_goes_through_the_gateways_path(gateway: Gateway) -> None:
    """However a client encodes it: the gateway and the adapter decode once, between them."""
    gateway.admit(f"iam:{ARN}", "editor")

    @settings(max_examples=60, deadline=None, database=None)
    @given(name=NAMES, encoded=st.booleans())
    def tried(name: str, encoded: bool) -> None:
        segment = name_in_url(name)
        if encoded:
            segment = "".join(f"%{byte:02X}" for byte in segment.encode())
        status, found = gateway.ask("PUT", f"{SCHEDULES}/{segment}", IAM, body=NIGHTLY)
        assert status in (200, 201), found
        assert found["name"] == name

    tried()


@pytest.mark.parametrize("segment", ["a%2541", "a%25", "50%2525", "a%2Fb", "a%00b", "a%20b"])
def test_what_is_no_name_finds_nothing_and_makes_nothing(gateway: Gateway, segment: str) -> None:
    gateway.admit(f"iam:{ARN}", "editor")
    assert gateway.ask("PUT", f"{SCHEDULES}/{segment}", IAM, body=NIGHTLY)[0] in (400, 404, 405, 422)
    assert not gateway.harness.scheduler.list_schedules().items


# A load balancer, at which people have signed in.


def of_load_balancer(method: str, path: str, **headers: str) -> dict[str, Any]:
    """As a load balancer makes it, with headers of several values."""
    named = {"host": "jobs.acme.example", "x-forwarded-proto": "https", "x-forwarded-port": "443", **headers}
    return {
        "requestContext": {"elb": {"targetGroupArn": BALANCER.replace("loadbalancer/app", "targetgroup")}},
        "httpMethod": method,
        "path": path,
        "multiValueQueryStringParameters": {},
        "multiValueHeaders": {name.replace("_", "-"): [value] for name, value in headers.items() | named.items()},
        "body": "",
        "isBase64Encoded": False,
    }


@pytest.fixture
def people(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    from quarterjack.web import load_balancer

    monkeypatch.setattr(load_balancer, "keys_at", lambda url: {KID: text(KEY)}.get)
    monkeypatch.setenv("QUARTERJACK_LOAD_BALANCER", BALANCER)
    monkeypatch.setenv("QUARTERJACK_OIDC_ISSUER", OURS.issuer)
    monkeypatch.setenv("QUARTERJACK_OIDC_CLIENT", OURS.client)
    monkeypatch.setenv("QUARTERJACK_CONSOLE", "on")
    return Gateway(monkeypatch)


def test_people_whom_a_load_balancer_signed_in_go_by_grants(people: Gateway) -> None:
    ends = system_clock() // 1000 + 120
    said = token(KEY, {"sub": "ada"}, exp=ends)
    assert people.answer(of_load_balancer("GET", SCHEDULES, x_amzn_oidc_data=said))["statusCode"] == 403
    people.admit("oidc:login.acme.example/ada", "viewer")
    found = people.answer(of_load_balancer("GET", SCHEDULES, x_amzn_oidc_data=said))
    assert (found["statusCode"], "content-type" in found["multiValueHeaders"]) == (200, True)
    assert people.answer(of_load_balancer("GET", "/console/t/default/", x_amzn_oidc_data=said))["statusCode"] == 200
    late = token(KEY, {"sub": "ada"}, exp=ends - 600)
    for wrong in {}, {"x_amzn_oidc_data": late}, {"x_amzn_oidc_identity": "ada"}:
        assert people.answer(of_load_balancer("GET", SCHEDULES, **wrong))["statusCode"] == 401
    assert people.ask("GET", SCHEDULES, x_amzn_oidc_data=said)[0] == 401  # a replay at a URL of API Gateway
