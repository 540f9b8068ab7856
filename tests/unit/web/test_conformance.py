"""Requests that are generated from the document, to the application in this process: valid and invalid ones, and sequences of them."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from minutehand.web.app import openapi_document
from minutehand.web.urls import run_in_url

from tests.support.api import KEY, NIGHTLY, Api

schemathesis: Any = import_module("schemathesis")  # without types
pytestmark = pytest.mark.check

HEADERS = {"Authorization": f"Bearer {KEY}"}
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]
QUIET = settings(max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=SLOW)
DOCUMENT = openapi_document(Api().app)
OPERATIONS = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if path.startswith("/v1/")
]


def lively() -> tuple[Api, dict[str, str]]:
    """An API with a schedule, an ended run and a dead one; and what a run that waits and the schedule have in addresses."""
    api = Api()
    api.put("/schedules/hello~x", NIGHTLY, 201)
    for job in ("greet", "fail"):
        api.post("/runs", {"job": job, "payload": {"to": "Ada"}}, 201)
    api.harness.advance(minutes=1)
    waiting = api.post("/runs", {"job": "greet", "delay": 1_000_000}, 201)["id"]
    lenient = Api(scheduler=api.scheduler.strictly(strict=False), longest=0.1)
    return lenient, {"tenant": "default", "name": "hello~x", "run": run_in_url(waiting)}


def checks() -> list[Any]:
    """What an answer is checked for. That valid requests are accepted is none of it: a schema knows no expressions and no jobs."""
    checks = import_module("schemathesis.specs.openapi.checks")
    words = ("status_code", "content_type", "response_headers", "response_schema")
    conformance = [getattr(checks, f"{word}_conformance") for word in words]
    server_error = import_module("schemathesis.checks").not_a_server_error
    return [server_error, *conformance, checks.negative_data_rejection, checks.ignored_auth]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_answers_are_as_the_document_says(method: str, path: str, mode: str) -> None:
    api, known = lively()
    operation = schemathesis.openapi.from_asgi("/openapi.json", api.app)[path][method]
    kind = schemathesis.GenerationMode[mode.upper()]

    @given(case=operation.as_strategy(generation_mode=kind))
    @QUIET
    def asked(case: Any) -> None:
        if mode == "positive":
            case.path_parameters |= {name: known[name] for name in known.keys() & case.path_parameters.keys()}
        assume(mode == "positive" or not _lists_for_texts(case))
        answer = case.call(headers=HEADERS)
        case.validate_response(answer, headers=HEADERS, checks=checks())

    asked()


def _lists_for_texts(case: Any) -> set[str]:
    """The parameters of a query that get a list although they take none: it is no fault when it is sent, of ``?job=a&job=b`` the last."""
    parameters = DOCUMENT["paths"][case.path][case.method.lower()].get("parameters", ())
    lists = {one["name"] for one in parameters if '"array"' in json.dumps(one["schema"])}
    return {name for name, value in dict(case.query or {}).items() if isinstance(value, list)} - lists


class FreshApp:
    """An application that begins anew, with the same things in it, for each sequence of requests."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._app = lively()[0].app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


def test_sequences_of_requests_meet_no_fault() -> None:
    """What one answers, the next asks for: made, read, changed, deleted, read again."""
    app = FreshApp()
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)

    class Sequences(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            app.begin()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            case.path_parameters["tenant"] = "default"
            return {"headers": HEADERS}

        def validate_response(self, response: Any, case: Any, **given: Any) -> None:
            case.validate_response(response, headers=HEADERS, checks=checks()[:-2])

    Sequences.run(settings=settings(QUIET, max_examples=20, stateful_step_count=8, phases=[Phase.generate]))
