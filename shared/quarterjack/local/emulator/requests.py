"""Requests of DynamoDB and SQS in JSON, handed to their services at once.

MiniStack (1.5) asks of each request whether it belongs to one of its hundred services, by host, path and headers: more processor time
than a message takes that is received. An AWS SDK names the service in a header; such a request goes to the same function of the
service in the same context, and everything else goes through ``ministack.app``, also where MiniStack checks keys (AUTH=true), records
events, or is being reset. A release without the names in ``_NEEDED`` gets all its requests that way.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

from quarterjack.local.snapshots import Asgi, Scope

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_SERVICES = {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs"}  # by the first part of the header x-amz-target
_NEEDED = (
    *("AUTH", "SERVICE_HANDLERS", "_get_reset_lock", "extract_access_key_id", "extract_region"),
    *("set_request_account_id", "set_request_client_ip", "set_request_region"),
)
_ENCODED = "content-encoding", "transfer-encoding"


def shortened(emulator: Any) -> Asgi:
    """MiniStack's application, with a direct way for requests that name their service."""
    app: Asgi = emulator.app
    if not all(hasattr(emulator, name) for name in _NEEDED) or emulator.AUTH or "CLOUDTRAIL_RECORDING" in os.environ:
        return app

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope) if scope["type"] == "http" else {}
        service = _SERVICES.get(headers.get("x-amz-target", "").partition(".")[0])
        is_plain = scope.get("path") == "/" and scope.get("method") == "POST" and not scope.get("query_string")
        is_reset = emulator._get_reset_lock().locked()  # noqa: SLF001 (there is no other way in)
        if service is None or not is_plain or is_reset or any(name in headers for name in _ENCODED):
            await app(scope, receive, send)
            return
        body = await _body(receive)
        if body is not None:
            _set_context(emulator, scope, headers)
            await _answer(emulator.SERVICE_HANDLERS[service], headers, body, send)

    return application


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def _body(receive: Receive) -> bytes | None:
    """None: the client has left before all was there."""
    chunks = list[bytes]()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


def _set_context(emulator: Any, scope: Scope, headers: dict[str, str]) -> None:
    emulator.set_request_client_ip((scope.get("client") or ("127.0.0.1",))[0])
    emulator.set_request_account_id(emulator.extract_access_key_id(headers, {}))
    emulator.set_request_region(emulator.extract_region(headers, {}))


async def _answer(handle: Callable[..., Awaitable[Any]], headers: dict[str, str], body: bytes, send: Send) -> None:
    try:
        status, answered, content = await handle("POST", "/", headers, body, {})
    except Exception as problem:  # as MiniStack answers it
        log.exception("request.failed")
        status, answered = 500, {"Content-Type": "application/x-amz-json-1.0"}
        content = json.dumps({"__type": "InternalError", "message": str(problem)})
    content = content if isinstance(content, bytes) else content.encode()
    answered |= {
        "x-amzn-requestid": str(uuid.uuid4()),
        "Date": formatdate(usegmt=True),
        "Content-Length": str(len(content)),
    }
    lines = [(name.encode("latin-1"), str(value).encode("latin-1")) for name, value in answered.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": content})
