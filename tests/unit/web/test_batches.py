"""Many runs in one request: each item is answered."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack.sdk.submissions.many import MAX_ITEMS
from quarterjack.testing import Harness
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.api import NOON, Api, greeting_jobs


@pytest.fixture
def api() -> Api:
    jobs = greeting_jobs()
    jobs.job("report")(lambda ctx, payload: payload)
    harness = Harness(jobs, at=NOON)
    api = Api(scheduler=harness.scheduler)
    api.harness = harness
    return api


GREET = {"job": "greet", "payload": {"to": "Ada"}}


def test_each_item_is_answered_with_its_run_or_its_problem(api: Api) -> None:
    items = [
        GREET,
        GREET | {"delay": -1},
        GREET | {"unique": "k"},
        7,
        {"payload": 1},
        GREET | {"run_at": "tomorrow"},
        GREET | {"retry": {"max_attempts": "x"}},
        GREET | {"retry": {"attempts": 3}},
        GREET | {"run_at": "2026-05-04T13:00:00Z", "retry": {"max_attempts": 2}, "priority": "low"},
    ]
    done = api.post("/batches", {"items": items, "on_end": "report"}, Idempotency_Key="may")
    assert (done["id"], done["refused"]) == ("may", 7)
    runs, problems = [item["run_id"] for item in done["items"]], [item["problem"] for item in done["items"]]
    assert runs == ["default/~may:00001#once", *[None] * 7, "default/~may:00009#once"]
    assert [item["number"] for item in done["items"]] == [*range(1, 10)]
    assert done["items"][0]["url_id"] == run_in_url(str(runs[0]))
    told = [(problem["code"], problem["field"]) for problem in problems if problem]
    fields = ["delay", "unique", "item", "job", "run_at", "retry.max_attempts", "retry.attempts"]
    assert told == [("invalid-input", field) for field in fields]
    assert all(problem["remedy"] and problem["status"] == 422 for problem in problems if problem)
    api.harness.advance(hours=2)
    found = api.scheduler.get_run(done["on_end"]).result
    assert (found["succeeded"], found["refused"]) == (2, 7)


def test_the_same_request_submits_nothing_twice(api: Api) -> None:
    first, again = (api.post("/batches", {"items": [GREET, GREET]}, Idempotency_Key="k") for _ in range(2))
    assert first == again
    assert len(api.harness.runs()) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "items"),
        ({"items": []}, "items"),
        ({"items": GREET}, "items"),
        ({"items": [GREET] * (MAX_ITEMS + 1)}, "items"),
        ({"items": [GREET], "on_end": "no such#job"}, "on_end"),
        ({"items": [GREET], "on_end": "absent"}, "on_end"),
        ({"items": [GREET], "more": 1}, "more"),
    ],
)
def test_what_is_wrong_as_a_whole_submits_nothing(api: Api, body: Any, field: str) -> None:
    status, problem = api.problem("POST", "/batches", body)
    assert (status, problem["field"]) == (422, field)
    assert list(api.harness.runs()) == []


def test_a_body_that_is_too_large_is_refused_as_such(api: Api) -> None:
    assert api.problem("POST", "/batches", {"items": ["x" * 1_100_000]})[0] == 413


def test_a_request_of_which_nothing_is_allowed_is_forbidden(api: Api) -> None:
    tenants = api.harness.tenants
    for to, can, jobs in (("iam:*", "admin", "*"), ("app:eve", "viewer", "*"), ("app:gil", "submit", "greet")):
        tenants.grant("default", to, can, jobs=jobs)
    eve, gil = (Api(scheduler=api.scheduler, actor=Actor(name=name)) for name in ("eve", "gil"))
    assert eve.problem("POST", "/batches", {"items": [GREET, GREET]})[1]["verb"] == "submit"
    one, other = gil.post("/batches", {"items": [GREET, {"job": "fail"}]})["items"]
    assert (one["problem"], other["problem"]["code"]) == (None, "forbidden")


def test_a_request_of_which_everything_is_throttled_says_when_to_come_again(api: Api) -> None:
    api.harness.tenants.set("default", limits={"runs_per_second": 1, "runs_burst": 2})
    done = api.post("/batches", {"items": [GREET] * 3}, Idempotency_Key="k")
    assert [item["problem"] and item["problem"]["code"] for item in done["items"]] == [None, None, "throttled"]
    answer = api.ask("POST", "/batches", {"items": [GREET] * 2})
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
