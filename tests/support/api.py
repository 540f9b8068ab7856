"""The HTTP API over a harness: a client that is let in, and short words for what tests ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from functools import cache
from typing import Any
from unittest.mock import patch

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response
from quarterjack import Registry, Scheduler
from quarterjack.testing import Harness
from quarterjack.web import Actor, create_app
from quarterjack.web.app import openapi_document, routed
from quarterjack.web.authentication import KeyAccess
from quarterjack.web.guard import GuardOptions
from starlette.datastructures import State

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
KEY = "k"
NIGHTLY = {"job": "greet", "expression": "30 2 * * *", "timezone": "Europe/Berlin", "payload": {"to": "Ada"}}

# Bodies that the document's examples cannot know, for the harness has a clock of its own.
BODIES: dict[str, Any] = {
    "freeze": {"until": "2026-06-01T00:00:00Z"},
    "reschedule_run": {"delay": 60},
    "requeue_run": {"priority": "low"},
    "reassign_run": {"version": "1.4"},
    "set_latest_version": {"name": "1.4"},
    "retire_version": {"to": "1.4"},
    "fail": {"error": "boom"},
    "make_link": {"name": "go", "to": "ada", "base": "https://jobs.example.com"},
    "redrive": {"job": "fail"},
    "purge": {"job": "fail"},
    "submit_batch": {"items": [{"job": "greet", "payload": {"to": "Ada"}}]},
    "submit": {"job": "greet", "payload": {"to": "Ada"}},
    "put_schedule": NIGHTLY,
    "create_schedule": {"name": "other", **NIGHTLY},
    "apply_declarations": {"schedules": {"other": NIGHTLY}},
    "plan_declarations": {"schedules": {"other": NIGHTLY}},
    "patch_schedule": {"timezone": "UTC"},
    "start_backfill": {"start": "2026-05-04T10:00:00Z", "end": "2026-05-04T12:00:00Z", "current": True},
    "cancel_schedule_runs": {"after": "2026-05-04T10:00:00Z", "upto": "2026-05-04T13:00:00Z"},
    "bulk_runs": {"action": "cancel", "filter": {"job": "greet"}},
    "bulk": {"action": "pause", "filter": {"prefix": "n"}},
}


def greeting_jobs() -> Registry:
    jobs = Registry()

    @jobs.job("greet")
    def greet(ctx: Any, payload: Any) -> Any:
        return f"Hello {payload['to']}"

    @jobs.job("fail")
    def fail(ctx: Any, payload: Any) -> Any:
        from quarterjack.errors import Permanent

        raise Permanent("it never works")

    return jobs


@cache
def _shared(options: GuardOptions) -> FastAPI:
    """One application for all tests: making its routes takes longer than most tests."""
    return routed(options)


def _of_its_own(options: GuardOptions) -> FastAPI:
    """An application with a state of its own, that shares its routes."""
    app = copy(_shared(options))
    app.state = State()
    return app


class AsgiClient:
    """Requests to an application in this process, one after the other."""

    def __init__(self, app: Any, headers: Mapping[str, str]) -> None:
        self._app, self.headers = app, dict(headers)

    def request(self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **content: Any) -> Response:
        """The answer; an error of the application is an answer, too."""

        async def ask() -> Response:
            transport = ASGITransport(self._app, raise_app_exceptions=False)
            async with AsyncClient(transport=transport, base_url="http://localhost", headers=self.headers) as client:
                return await client.request(method, path, headers=headers, **content)

        return asyncio.run(ask())

    def get(self, path: str, **given: Any) -> Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> Response:
        return self.request("POST", path, **given)


class Api:
    """The API of a harness, asked by an actor with the key."""

    def __init__(self, *, actor: Actor | None = None, scheduler: Scheduler | None = None, **options: Any) -> None:
        self.harness = Harness(greeting_jobs(), at=NOON)
        self.scheduler = scheduler or self.harness.scheduler
        with patch("quarterjack.web.app.routed", _of_its_own):
            self.app: FastAPI = create_app(
                self.scheduler, access=KeyAccess(KEY, actor or Actor(name="alice@acme")), **{"rate": None, **options}
            )
        self.client = AsgiClient(self.app, {"Authorization": f"Bearer {KEY}"})

    def ask(
        self, method: str, path: str, body: Any = None, *, tenant: str | None = "default", **headers: str
    ) -> Response:
        """A request below the tenant's address, or with None below /v1; words of headers are written with `_` for `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        content = {} if body is None else {"json": body}
        base = "/v1" if tenant is None else f"/v1/tenants/{tenant}"
        return self.client.request(method, f"{base}{path}", headers=given, **content)

    def get(self, path: str, **headers: Any) -> Any:
        answer = self.ask("GET", path, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200, **headers: Any) -> Any:
        answer = self.ask("POST", path, body, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def put(self, path: str, body: Any = None, status: int = 200, **headers: Any) -> Any:
        answer = self.ask("PUT", path, body, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def problem(self, method: str, path: str, body: Any = None, **headers: Any) -> tuple[int, Any]:
        """Status and content of a refusal."""
        answer = self.ask(method, path, body, **headers)
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        found = answer.json()
        assert found["status"] == answer.status_code
        assert {"type", "title", "code", "detail"} <= set(found)
        return answer.status_code, found


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document of the application, made once a process: it takes longer than most tests."""
    return openapi_document(Api().app)
