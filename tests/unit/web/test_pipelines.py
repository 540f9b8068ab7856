"""Pipelines by the HTTP API: made as schedules are, listed, and the tasks of a run read, skipped and retried."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Retry
from quarterjack.testing import Harness
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.api import NOON, Api, greeting_jobs

TASKS: dict[str, Any] = {
    "extract": {"job": "greet", "payload": {"to": "Ada"}},
    "stock": {"job": "asks"},
    "report": {"job": "breaks", "after": ["extract"], "when": "extract.result != null"},
    "mail": {"job": "greet", "payload": {"to": "Eve"}, "after": ["report", "stock"], "join": "done"},
}
NIGHTLY = {"expression": "manual", "tasks": TASKS}


@pytest.fixture
def api() -> Api:
    """The API of an installation with pipeline ``nightly``."""
    jobs = greeting_jobs()

    def breaks(ctx: Any, payload: Any) -> None:
        raise ValueError("no rows today")

    jobs.job("asks")(lambda ctx, payload: ctx.wait_for("answer"))
    jobs.job("breaks", retry=Retry(max_attempts=1))(breaks)
    harness = Harness(jobs, at=NOON)
    api = Api(scheduler=harness.scheduler)
    api.harness = harness
    api.put("/schedules/nightly", NIGHTLY, 201)
    return api


@pytest.fixture
def address(api: Api) -> str:
    """A run of which ``report`` has failed and ``stock`` waits."""
    run = api.post("/schedules/nightly/runs", {}, 201)
    api.harness.advance(minutes=1)
    return f"/runs/{run['url_id']}"


def states(api: Api, address: str) -> dict[str, str]:
    return {task["name"]: task["state"] for task in api.get(f"{address}/tasks")["tasks"]}


def test_the_list_has_pipelines_alone(api: Api) -> None:
    api.put("/schedules/plain", {"job": "greet", "expression": "0 3 * * *", "payload": {"to": "Ada"}}, 201)
    api.put("/schedules/weekly", NIGHTLY, 201)
    assert [one["name"] for one in api.get("/pipelines")["items"]] == ["nightly", "weekly"]
    first = api.get("/pipelines?limit=1")
    assert [one["name"] for one in first["items"]] == ["nightly"]
    assert [one["name"] for one in api.get(f"/pipelines?limit=1&cursor={first['cursor']}")["items"]] == ["weekly"]
    assert [one["name"] for one in api.get("/pipelines?prefix=w")["items"]] == ["weekly"]


def test_a_definition_goes_round(api: Api) -> None:
    answer = api.ask("GET", "/schedules/nightly")
    assert answer.json()["definition"]["tasks"] == TASKS
    kept = api.ask("PUT", "/schedules/nightly", answer.json()["definition"], If_Match=answer.headers["ETag"])
    assert (kept.status_code, kept.headers["ETag"]) == (200, answer.headers["ETag"])
    body = {"tasks": {"mail": {"join": None}}}
    changed = api.ask("PATCH", "/schedules/nightly", body, If_Match=answer.headers["ETag"])
    assert changed.status_code == 200, changed.text
    without = {word: value for word, value in TASKS["mail"].items() if word != "join"}
    assert changed.json()["definition"]["tasks"] == TASKS | {"mail": without}
    assert changed.headers["ETag"] != answer.headers["ETag"]
    stale = api.ask("PUT", "/schedules/nightly", NIGHTLY, If_Match=answer.headers["ETag"])
    assert stale.status_code == 412


def test_the_tasks_of_a_run(api: Api, address: str) -> None:
    found = api.get(f"{address}/tasks")
    assert (found["pipeline"], found["revision"], found["on_task_failure"]) == ("nightly", 1, "halt")
    assert found["run"]["state"] == "PARKED"
    assert found["critical_path"] == ["extract", "report"]
    tasks = {task["name"]: task for task in found["tasks"]}
    assert {name: task["state"] for name, task in tasks.items()} == {
        "extract": "SUCCEEDED",
        "stock": "PARKED",
        "report": "DEAD",
        "mail": "WAITING",
    }
    assert tasks["report"]["reason"] == "ValueError: no rows today"
    assert (tasks["mail"]["waits_for"], tasks["mail"]["url_id"], tasks["mail"]["duration"]) == (["stock"], None, None)
    assert api.get(f"/runs/{tasks['extract']['url_id']}")["result"] == "Hello Ada"
    assert tasks["extract"]["duration"] >= 0


def test_statistics_of_tasks(api: Api, address: str) -> None:
    items = {item["name"]: item for item in api.get("/schedules/nightly/task-stats?runs=5")["items"]}
    assert items["report"]["states"] == {"DEAD": 1}
    assert items["report"]["last_failed"] == api.get(address)["id"]
    assert items["extract"]["median_duration"] >= 0


def test_skip(api: Api, address: str) -> None:
    skipped = api.post(f"{address}/tasks/mail/skip", None)
    assert {task["name"]: task["state"] for task in skipped["tasks"]}["mail"] == "SKIPPED"
    assert api.post(f"{address}/tasks/mail/skip", None)["run"] == skipped["run"], "the same again"
    status, problem = api.problem("POST", f"{address}/tasks/stock/skip")
    assert (status, problem["code"]) == (409, "conflict")
    assert "POST /v1/tenants/{tenant}/runs/{run}/cancel" in problem["remedy"]
    status, problem = api.problem("POST", f"{address}/tasks/nix/skip")
    assert (status, problem["field"], problem["value"]) == (404, "task", "nix")
    assert api.problem("POST", f"{address}/tasks/a%20b/skip")[0] == 404


def test_retry(api: Api, address: str) -> None:
    status, problem = api.problem("POST", f"{address}/retry-tasks")
    assert (status, problem["code"]) == (409, "conflict")
    api.post(f"{address}/cancel", None)
    api.harness.advance(minutes=1)
    body = {"skip": ["stock", "report"]}
    answer = api.ask("POST", f"{address}/retry-tasks", body, Idempotency_Key="again")
    again = api.ask("POST", f"{address}/retry-tasks", body, Idempotency_Key="again")
    assert (answer.status_code, answer.json()["id"]) == (201, again.json()["id"])
    assert answer.headers["Location"].endswith(f"/runs/{answer.json()['url_id']}")
    api.harness.advance(minutes=1)
    repeated = f"/runs/{answer.json()['url_id']}"
    assert api.get(repeated)["state"] == "SUCCEEDED"
    assert states(api, repeated) == {
        "extract": "SUCCEEDED",
        "stock": "SKIPPED",
        "report": "SKIPPED",
        "mail": "SUCCEEDED",
    }
    assert api.problem("POST", f"{repeated}/retry-tasks")[1]["code"] == "conflict"
    assert api.problem("POST", f"{address}/retry-tasks", {"skip": ["nix"]})[0] == 404
    assert api.problem("POST", f"{address}/retry-tasks", {"skip": "stock"})[1]["field"] == "skip"


def test_why_of_a_task(api: Api, address: str) -> None:
    assert api.get(f"{address}/why")["verdict"] == "PARKED"
    assert api.get(f"{address}/why?task=mail")["verdict"] == "SKIPPED"
    assert api.get(f"{address}/why?task=extract")["verdict"] == "RAN"
    assert api.problem("GET", f"{address}/why?task=nix")[0] == 404


def test_a_run_of_no_pipeline_is_refused(api: Api) -> None:
    run = api.scheduler.submit("greet", {"to": "Ada"})
    status, problem = api.problem("GET", f"/runs/{run_in_url(run.id)}/tasks")
    assert (status, problem["field"]) == (422, "run")


def test_a_patch_writes_no_masked_values_back(api: Api) -> None:
    for to, can in (("iam:*", "admin"), ("app:eve@acme", "viewer"), ("app:eve@acme", ["update", "submit"])):
        api.harness.tenants.grant("default", to, can)
    eve, before = Api(scheduler=api.scheduler, actor=Actor(name="eve@acme")), api.scheduler.get_schedule("nightly")
    for body in (
        {"tasks": {"mail": {"optional": True}}},
        {"payload": 1},
        {"payload": 1, "tasks": {"mail": {"payload": 2}}},
    ):
        status, problem = eve.problem("PATCH", "/schedules/nightly", body)
        assert (status, problem["verb"]) == (403, "read-payloads"), body
        assert "you may not read the values of its tasks, so they cannot be kept" in problem["detail"]
    assert api.scheduler.get_schedule("nightly") == before


def test_a_viewer_may_neither_skip_nor_retry(api: Api, address: str) -> None:
    for to, can in (("iam:*", "admin"), ("app:eve@acme", "viewer")):
        api.harness.tenants.grant("default", to, can)
    eve = Api(scheduler=api.scheduler, actor=Actor(name="eve@acme"))
    assert eve.problem("POST", f"{address}/tasks/mail/skip")[1]["verb"] == "skip"
    assert eve.problem("POST", f"{address}/retry-tasks")[1]["verb"] == "replay"
    assert states(eve, address)["mail"] == "WAITING"


def test_a_wrong_run_or_task_is_refused_with_what_is_right(api: Api, address: str) -> None:
    run_id = api.get(f"{address}/tasks")["run"]["id"]
    _, problem = api.problem("GET", f"/runs/{run_id.partition('/')[2].replace('#', '%23')}/tasks")
    assert (problem["field"], problem["remedy"]) == ("run", "use the url_id of a run")
    status, problem = api.problem("POST", f"{address}/tasks/gr%C3%B6%C3%9Fe/skip")
    assert (status, problem["field"], problem["value"]) == (404, "task", "größe")
    assert problem["remedy"] == "its tasks are extract, stock, report, mail"
