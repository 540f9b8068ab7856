"""The extra web: the API answers a request, and the console another."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from quarterjack import Registry
from quarterjack.console import add_console
from quarterjack.testing import Harness
from quarterjack.web import create_app

harness = Harness(Registry(), at=datetime(2026, 5, 4, 12, tzinfo=UTC))
app = create_app(harness.scheduler)


def answer(path: str) -> tuple[int, bytes]:
    """Status and body of a GET."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"localhost")]}
    scope |= {"client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 80), "root_path": "", "state": {}}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent)


status, body = answer("/openapi.json")
assert (status, json.loads(body)["info"]["title"]) == (200, "Quarterjack"), body
assert answer("/v1/tenants/default/schedules")[0] == 401
assert callable(add_console)
