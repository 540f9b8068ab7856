"""What a request guards itself with is read, or the request is refused: If-Match, If-None-Match, credentials, an Idempotency-Key."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from quarterjack.web import Actor, ApiKeyAccess, create_app

from tests.support.api import KEY, NIGHTLY, Api, AsgiClient

NAME = "/schedules/nightly"
OPERATOR = Actor(name="root@acme", operator=True)


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put(NAME, NIGHTLY, 201)
    return made


def lines(*values: str, header: str = "if-match") -> Any:
    return [("authorization", f"Bearer {KEY}"), *((header, value) for value in values)]


def put(api: Api, headers: Any, **change: Any) -> Any:
    return AsgiClient(api.app, {}).request("PUT", f"/v1/tenants/default{NAME}", headers=headers, json=NIGHTLY | change)


CHANGES = [
    ("PUT", NAME, NIGHTLY),
    ("PATCH", NAME, {"timezone": "UTC"}),
    ("DELETE", NAME, None),
    ("POST", f"{NAME}/pause", None),
    ("POST", f"{NAME}/resume", None),
    ("POST", f"{NAME}/skip-next", None),
    ("POST", f"{NAME}/runs", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_empty_if_match_is_no_guard_and_is_refused(api: Api, method: str, path: str, body: Any, empty: str) -> None:
    before = api.get(NAME)
    status, problem = api.problem(method, path, body, If_Match=empty)
    assert (status, problem["code"], problem["field"]) == (400, "malformed", "If-Match")
    assert api.get(NAME) == before


WRONG = [
    ("PUT", NAME, NIGHTLY | {"expression": "61 * * * *"}),
    ("PUT", NAME, NIGHTLY | {"colour": "red"}),
    ("PATCH", NAME, {"timezone": "Europe/Nowhere"}),
    ("PATCH", NAME, {"colour": "red"}),
    ("DELETE", f"{NAME}?drain=2", None),
    ("POST", f"{NAME}/pause", {"until": "2020-01-01T00:00:00Z"}),
    ("POST", f"{NAME}/pause", {"reason": "x" * 1_001}),
    ("POST", f"{NAME}/runs", {"payload": "x" * 300_000}),
    ("POST", f"{NAME}/backfills", {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRONG)
@pytest.mark.parametrize("stale", ['"r9"', '"r1-0123456789abcdef"', '"abc"', 'W/"r1"', '"r8", "r9"'])
def test_a_wrong_request_is_told_so_before_its_precondition_is_evaluated(
    api: Api, method: str, path: str, body: Any, stale: str
) -> None:
    """RFC 9110, 13.2.1: preconditions are ignored where the answer without them would be neither a success nor a 412."""
    before = api.get(NAME)
    assert api.problem(method, path, body, If_Match=stale)[0] == api.problem(method, path, body)[0] == 422
    assert api.get(NAME) == before


@pytest.mark.parametrize("stale", ['"v9"', '"abc"', 'W/"v1"', '"v8", "v9"'])
def test_a_wrong_profile_is_told_so_before_its_precondition_is_evaluated(stale: str) -> None:
    api = Api(actor=OPERATOR)
    api.ask("POST", "/tenants", {"tenant": "acme"}, tenant=None)
    for body, status in (({"jobs": ["a b"]}, 422), ({"limits": {"nosuch": 1}}, 422), ({"jobs": ["greet"]}, 412)):
        assert api.problem("PATCH", "/tenants/acme", body, tenant=None, If_Match=stale)[0] == status, body
    assert api.get("/tenants/acme", tenant=None)["jobs"] is None


def test_several_lines_of_if_match_are_one_list(api: Api) -> None:
    tag = api.ask("GET", NAME).headers["etag"]
    assert put(api, lines('"r77"', tag), timezone="UTC").status_code == 200
    assert put(api, lines(tag, '"r77"'), timezone="Europe/Paris").status_code == 412
    assert put(api, lines("", '"r2"'), timezone="Europe/Paris").status_code == 200
    assert put(api, lines('"r1"', "no tag"), timezone="UTC").status_code == 400


def test_if_none_match_with_a_star_only_creates(api: Api) -> None:
    assert put(api, lines("*", header="if-none-match")).status_code == 412
    assert api.ask("PUT", "/schedules/other", NIGHTLY, If_None_Match="*").status_code == 201
    for headers in ({"If_None_Match": ""}, {"If_None_Match": '"r1"'}, {"If_None_Match": "*", "If_Match": '"r1"'}):
        assert api.problem("PUT", "/schedules/third", NIGHTLY, **headers)[0] == 400
    assert api.ask("GET", "/schedules/third").status_code == 404


def test_what_a_reader_has_already_is_not_sent_again(api: Api) -> None:
    tag = api.ask("GET", NAME).headers["etag"]
    address = f"/v1/tenants/default{NAME}"
    client = AsgiClient(api.app, {})
    for sent in (["*"], [tag], [f"W/{tag}"], ['"other"', tag], [f'"a,b", {tag}']):
        assert client.get(address, headers=lines(*sent, header="if-none-match")).status_code == 304, sent
    assert client.get(address, headers=lines('"other"', header="if-none-match")).status_code == 200


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
def test_a_guard_that_a_route_does_not_read_is_refused(api: Api, header: str) -> None:
    run = api.post("/runs", {"job": "greet", "payload": {"to": "Ada"}, "delay": 60}, 201)
    status, problem = api.problem("POST", f"/runs/{run['url_id']}/cancel", **{header.replace("-", "_"): '"r1"'})
    assert (status, problem["field"]) == (400, header)
    assert api.get(f"/runs/{run['url_id']}")["state"] == "QUEUED"


def test_a_key_that_is_not_valid_is_told_apart_from_none() -> None:
    api = Api()
    clock, tenants = api.harness.clock, api.harness.tenants
    revoked = tenants.create_key("default", "old", "viewer").text
    tenants.revoke_key("default", "old.1")
    expired = tenants.create_key("default", "short", "viewer", expires_at=clock.now() + timedelta(hours=1)).text
    clock.advance(timedelta(hours=2))
    client = AsgiClient(create_app(api.scheduler, access=ApiKeyAccess(api.scheduler)), {})

    def asked(**headers: str) -> tuple[int, str, str]:
        answer = client.get("/v1/tenants/default/schedules", headers=headers)
        return answer.status_code, answer.json()["code"], answer.headers["www-authenticate"]

    for none in ({}, {"authorization": "Basic eDp5"}, {"authorization": "Bearer "}):
        status, code, challenge = asked(**none)
        assert (status, code) == (401, "unauthenticated")
        assert "error" not in challenge
    for text in (revoked, expired, "qj_default_old.1_wrong", "nonsense"):
        status, code, challenge = asked(authorization=f"Bearer {text}")
        assert (status, code) == (401, "invalid-credentials")
        assert 'error="invalid_token"' in challenge
        assert challenge.startswith("Bearer ")


def test_a_repeated_submission_is_answered_with_the_run_as_it_is_now() -> None:
    api, body = Api(), {"job": "greet", "payload": {"to": "Ada"}}
    first = api.ask("POST", "/runs", body, Idempotency_Key="k1")
    api.harness.advance()
    again = api.ask("POST", "/runs", body, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["location"] == first.headers["location"]
    assert (first.json()["state"], again.json()["state"]) == ("QUEUED", "SUCCEEDED")
    assert api.get("/runs")["items"][0]["id"] == first.json()["id"]


def test_a_long_poll_ends_with_its_client() -> None:
    api = Api()
    run = api.post("/runs", {"job": "greet", "payload": {"to": "Ada"}, "delay": 600}, 201)
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/v1/tenants/default/runs/{run['url_id']}",
        "raw_path": b"",
        "query_string": b"wait=20",
        "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {KEY}".encode())],
        "scheme": "http",
        "server": ("localhost", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "http_version": "1.1",
    }

    async def ask() -> None:
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(api.app(scope, receive, send), 10)  # of 20 s for which it was asked to wait

    asyncio.run(ask())
    assert sent[0]["status"] == 499
