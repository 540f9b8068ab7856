"""Answers to runs that wait, by the HTTP API."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.domain.names import callback_token
from quarterjack.testing import Harness
from quarterjack.web.urls import run_in_url

from tests.support.api import NOON, Api

jobs = Registry()


@jobs.job("approve")
def approve(ctx: Any, payload: Any) -> Any:
    return ctx.wait_for("order/approval", timeout=3_600, schema=payload)


@pytest.fixture
def api() -> Api:
    """The API of an installation in which one run waits."""
    harness = Harness(jobs, at=NOON)
    api = Api(scheduler=harness.scheduler)
    api.harness = harness
    return api


@pytest.fixture
def address(api: Api) -> str:
    run = api.scheduler.submit("approve")
    api.harness.advance()
    return f"/runs/{run_in_url(run.id)}"


def test_the_body_is_the_answer(api: Api, address: str) -> None:
    receipt = api.post(f"{address}/signals/order~approval", {"ok": True})
    assert (receipt["outcome"], receipt["payload"], receipt["name"]) == ("accepted", {"ok": True}, "order/approval")
    assert receipt["actor"].endswith("alice@acme")
    api.harness.advance()
    assert api.get(address)["result"] == {"ok": True}


@pytest.mark.parametrize("body", [[1], "yes", 0, False, None])
def test_any_json_value_is_an_answer(api: Api, address: str, body: Any) -> None:
    assert api.post(f"{address}/signals/order~approval", body)["payload"] == body


def test_a_later_request_is_told_the_first_answer(api: Api, address: str) -> None:
    api.post(f"{address}/signals/order~approval", 1)
    assert api.post(f"{address}/signals/order~approval", 1)["outcome"] == "repeated"
    later = api.post(f"{address}/signals/order~approval", 2)
    assert (later["outcome"], later["payload"]) == ("answered", 1)
    api.harness.advance()
    assert api.get(address)["result"] == 1


def test_what_cannot_be_an_answer_is_refused(api: Api, address: str) -> None:
    status, problem = api.problem("POST", f"{address}/signals/a", "x" * 70_000)
    assert (status, problem["field"]) == (422, "payload")
    assert api.problem("POST", f"{address}/signals/a%20b", 1)[0] == 422
    assert api.problem("POST", f"/runs/{run_in_url('default/-none#once')}/signals/a", 1)[0] == 404
    broken = api.client.post(
        f"/v1/tenants/default{address}/signals/a", content="{", headers={"Content-Type": "application/json"}
    )
    assert (broken.status_code, broken.json()["code"]) == (400, "malformed")
    api.scheduler.cancel_run(api.get(address)["id"])
    assert api.problem("POST", f"{address}/signals/a", 1)[1]["code"] == "conflict"


def posted(api: Api, path: str, content: bytes = b"", kind: str | None = None) -> tuple[int, Any]:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = api.client.post(f"/v1/tenants/default{path}", content=content, headers=headers)
    return answer.status_code, answer.json()


def test_no_body_is_null_and_an_empty_object_is_an_empty_object(api: Api, address: str) -> None:
    status, receipt = posted(api, f"{address}/signals/a")
    assert (status, receipt["outcome"], receipt["payload"]) == (200, "accepted", None)
    assert posted(api, f"{address}/signals/a", b"null", "application/json")[1]["outcome"] == "repeated"
    assert posted(api, f"{address}/signals/a", b"{}", "application/json")[1]["outcome"] == "answered"


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_an_empty_body_that_is_declared_is_no_answer(api: Api, address: str, kind: str) -> None:
    """The client has lost its content, and the first answer counts."""
    token = callback_token(api.get(address)["id"], "order/approval")
    for path in (f"{address}/signals/order~approval", f"/callbacks/{token}/complete"):
        status, problem = posted(api, path, kind=kind)
        assert (status, problem["code"], problem["field"]) == (400, "malformed", "body")
        assert "null" in problem["remedy"]
    assert api.get(address)["state"] == "PARKED"


def test_the_schema_of_the_wait_says_whether_null_is_an_answer(api: Api) -> None:
    run = api.scheduler.submit("approve", {"type": ["object", "null"], "required": ["ok"]})
    strict = api.scheduler.submit("approve", {"type": "object"})
    api.harness.advance()
    path = "/runs/{}/signals/order~approval"
    status, problem = posted(api, path.format(run_in_url(strict.id)))
    assert (status, problem["field"]) == (422, "payload")
    assert posted(api, path.format(run_in_url(run.id)))[1]["outcome"] == "accepted"


def test_links_are_made_listed_and_revoked(api: Api, address: str) -> None:
    body = {
        "name": "order/approval",
        "payload": {"ok": True},
        "to": "ada@acme",
        "base": "https://jobs.example.com/console",
    }
    made = api.post(f"{address}/links", body, 201)
    assert made["url"].startswith("https://jobs.example.com/console/answer/")
    (listed,) = api.get(f"{address}/links")["items"]
    assert (listed["id"], listed["state"], listed["payload"], "url" in listed) == (
        made["id"],
        "open",
        {"ok": True},
        False,
    )
    gone = api.ask("DELETE", f"{address}/links/{made['id']}")
    assert (gone.status_code, gone.json()["state"]) == (200, "revoked")
    assert api.problem("DELETE", f"{address}/links/{'0' * 12}")[1]["code"] == "not-found"
    assert api.problem("DELETE", f"{address}/links/x")[0] == 422
    assert api.problem("POST", f"{address}/links", body | {"base": "x"})[1]["field"] == "base"
