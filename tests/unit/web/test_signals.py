"""Answers to runs that wait, by the HTTP API."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.testing import Harness
from quarterjack.web.urls import run_in_url

from tests.support.api import NOON, Api

jobs = Registry()


@jobs.job("approve")
def approve(ctx: Any, payload: Any) -> Any:
    return ctx.wait_for("order/approval", timeout=3_600)


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
