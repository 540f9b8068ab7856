"""Requests that are generated from the document, to the application in this process: valid and invalid ones, and sequences of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from quarterjack.web.urls import run_in_url

from tests.support.api import KEY, NIGHTLY, Api, document
from tests.support.conformance import MODES, checks, generation, lists_for_texts, operations, quietly, schemathesis

pytestmark = pytest.mark.check

HEADERS = {"Authorization": f"Bearer {KEY}"}
DOCUMENT = document()


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


@cache
def described() -> Any:
    """The document of one application, which has the state of another API in each test: to look through an application takes long."""
    return schemathesis().openapi.from_asgi("/openapi.json", lively()[0].app)


@pytest.mark.parametrize(("method", "path"), operations(DOCUMENT))
@pytest.mark.parametrize("mode", MODES)
def test_answers_are_as_the_document_says(method: str, path: str, mode: str) -> None:
    ask(method, path, mode, 12)


@pytest.mark.proof
@pytest.mark.parametrize(("method", "path"), operations(DOCUMENT))
@pytest.mark.parametrize("mode", MODES)
def test_many_more_answers_are_as_the_document_says(method: str, path: str, mode: str) -> None:
    ask(method, path, mode, 100)


def ask(method: str, path: str, mode: str, examples: int) -> None:
    """Requests of an operation, whose answers are compared with the document."""
    api, known = lively()
    described().app.state = api.app.state
    operation = described()[path][method]

    @given(case=operation.as_strategy(generation_mode=generation(mode)))
    @quietly(examples)
    def asked(case: Any) -> None:
        if mode == "positive":
            case.path_parameters |= {name: known[name] for name in known.keys() & case.path_parameters.keys()}
        assume(mode == "positive" or not lists_for_texts(case, DOCUMENT))
        answer = case.call(headers=HEADERS)
        case.validate_response(answer, headers=HEADERS, checks=checks(answer.status_code))

    asked()


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
    schema = schemathesis().openapi.from_asgi("/openapi.json", app)

    class Sequences(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            app.begin()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            case.path_parameters["tenant"] = "default"
            return {"headers": HEADERS}

        def validate_response(self, response: Any, case: Any, **given: Any) -> None:
            case.validate_response(response, headers=HEADERS, checks=checks()[:-2])

    Sequences.run(settings=settings(quietly(20), stateful_step_count=8, phases=[Phase.generate]))
