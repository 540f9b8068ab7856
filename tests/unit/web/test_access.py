from __future__ import annotations

from typing import Any

import pytest
from fastapi import Request
from fastapi.routing import APIRoute
from quarterjack.domain.names import callback_token
from quarterjack.web import Actor, create_app
from quarterjack.web.limits import RequestLimit

from tests.support.api import NIGHTLY, Api, AsgiClient

OPEN = {"/healthz", "/openapi.json"}
TOKEN = callback_token("default/~a#once", "approval")


def all_routes(api: Api) -> list[tuple[str, str]]:
    """Method and address of every operation, as the document has them."""
    paths = api.client.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, operations in paths.items() for method in operations if path not in OPEN]


def filled(path: str, tenant: str = "default") -> str:
    return path.format(
        tenant=tenant,
        name="nightly",
        run="AAAA",
        backfill="b",
        key="crm.1",
        token=TOKEN,
        link="0" * 12,
        task="t",
        version="1",
    )


def test_nobody_is_let_in_unless_access_is_given() -> None:
    api = Api()
    shut = AsgiClient(create_app(api.scheduler), {})
    assert len(all_routes(api)) > 45
    for method, path in all_routes(api):
        answer = shut.request(method, filled(path), json={})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
        assert answer.headers["www-authenticate"] == 'Bearer realm="quarterjack"'
        assert "access=" in answer.json()["remedy"]


@pytest.mark.parametrize(
    "sent", [None, "Bearer", "Bearer ", "Bearer K", "Basic k", "k", "Bearerk", "Bearer k k", "Bearer kk", "Bearer é"]
)
def test_another_key_opens_nothing(sent: str | None) -> None:
    client = AsgiClient(Api().app, {})
    headers: Any = {} if sent is None else [(b"authorization", sent.encode())]
    assert client.get("/v1/tenants/default/schedules", headers=headers).status_code == 401


@pytest.mark.parametrize("sent", ["Bearer k", "bearer k", "BEARER k", "Bearer  k "])
def test_the_scheme_may_be_written_in_any_case(sent: str) -> None:
    client = AsgiClient(Api().app, {})
    assert client.get("/v1/tenants/default/schedules", headers={"Authorization": sent}).status_code == 200


def test_an_actor_of_one_tenant_learns_nothing_of_another() -> None:
    """The same answer whether something exists or not."""
    api = Api(actor=Actor(name="alice@acme", tenants={"acme"}))
    api.harness.scheduler.create_schedule("nightly", "greet", "0 * * * *")
    assert api.ask("GET", "/schedules", tenant="acme").status_code == 200
    for method, path in all_routes(api):
        there, nowhere = (api.client.request(method, filled(path, tenant), json={}) for tenant in ("default", "nobody"))
        assert (there.status_code, there.json()["code"]) == (403, "forbidden"), path
        assert there.content == nowhere.content


def test_a_run_of_another_tenant_is_not_found_by_its_id() -> None:
    api = Api()
    run = api.post("/runs", {"job": "greet", "payload": {"to": "Ada"}}, 201)
    found = [
        api.problem(method, f"/runs/{run['url_id']}{act}", tenant="other")[0]
        for method, act in [("GET", ""), ("GET", "/why"), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/replay")]
    ]
    assert found == [404] * 5
    assert api.get(f"/runs/{run['url_id']}")["state"] == "QUEUED"


def test_the_audit_names_actor_way_and_reason() -> None:
    api = Api()
    api.put("/schedules/nightly", NIGHTLY, 201, Quarterjack_Reason="moved to the night")
    (line,) = api.get("/audit")["items"]
    assert (line["actor"], line["via"], line["reason"]) == ("app:alice@acme", "api", "moved to the night")
    assert line["identity"].startswith("iam:")


@pytest.mark.parametrize(("sent", "read"), [("Prüfung".encode(), "Prüfung"), ("Prüfung".encode("latin-1"), "Prüfung")])
def test_a_reason_is_read_as_it_was_written(sent: bytes, read: str) -> None:
    api = Api()
    headers: Any = [(b"quarterjack-reason", sent)]
    api.client.request("PUT", "/v1/tenants/default/schedules/nightly", json=NIGHTLY, headers=headers)
    assert api.get("/audit")["items"][0]["reason"] == read


def test_access_may_be_a_coroutine_and_may_see_the_request() -> None:
    async def access(request: Request) -> Actor | None:
        name = request.headers.get("x-user")
        return None if name is None else Actor(name=name)

    api = Api()
    client = AsgiClient(create_app(api.scheduler, access=access), {})
    address = "/v1/tenants/default/schedules"
    assert client.get(address).status_code == 401
    assert client.post(address, json={"name": "a", **NIGHTLY}, headers={"X-User": "bob"}).status_code == 201
    assert api.get("/audit")["items"][0]["actor"] == "app:bob"


def test_a_name_that_looks_like_a_checked_identity_is_refused() -> None:
    status, said = Api(actor=Actor(name="iam:root")).problem("GET", "/schedules")
    assert (status, said["field"]) == (422, "actor")


def test_a_caller_beyond_its_limit_is_told_when_to_come_again() -> None:
    api = Api(rate=0.5, burst=2)
    answers = [api.ask("GET", "/schedules") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["ratelimit"] for answer in answers[:2]] == ['"requests";r=1;t=0', '"requests";r=0;t=2']
    assert answers[2].headers["retry-after"] == "2"
    assert answers[2].headers["ratelimit-policy"] == '"requests";q=2;w=4'
    assert answers[2].json()["code"] == "too-many-requests"


def test_a_limit_is_each_callers_own_and_comes_back_with_time() -> None:
    now = [0.0]
    limit = RequestLimit(2.0, 3, lambda: now[0])
    assert [limit.take("a").taken for _ in range(4)] == [True, True, True, False]
    assert limit.take("b").left == 2
    now[0] = 0.5
    assert (limit.take("a").taken, limit.take("a").taken) == (True, False)
    now[0] = 100.0
    assert limit.take("a").left == 2


def test_health_and_document_are_open_and_say_nothing_of_the_installation() -> None:
    client = AsgiClient(create_app(Api().scheduler), {})
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/openapi.json").json()["openapi"] == "3.1.0"


def test_every_route_of_a_tenant_asks_who_it_is() -> None:
    """Whatever route is added later stands below the tenant, and so depends on the caller."""

    def paths(routes: Any) -> list[str]:
        return [route.path for route in routes if isinstance(route, APIRoute)]

    found = paths(Api().app.routes)
    others = {path for path in found if not path.startswith("/v1/tenants/{tenant}/")}
    assert others <= OPEN | {"/v1/tenants", "/v1/tenants/{tenant}", "/v1/doctor"}
