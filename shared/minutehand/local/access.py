"""Access control of the emulator: a request needs the access key of this start, and must not come from a web page.

The emulator executes code on this machine (Lambda functions, and jobs through their queues), and a web page of any site may send
requests to a port of loopback. ``guarded`` wraps the emulator's whole ASGI application, so no route is left out.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Awaitable, Callable, Collection
from html import escape
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Asgi = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Awaitable[None]]
KeyCheck = Callable[[str, str | None], bool]  # whether the emulator itself issued an access key (with a session token)

HOSTS = frozenset({"127.0.0.1", "localhost"})
_CREDENTIAL = re.compile(r"^AWS4-HMAC-SHA256\s+(?:.*,\s*)?Credential=([^/,\s]+)/")
_REFUSED = "UnrecognizedClientException"
_BY_KEY = "its access key is not that of this local cloud; use the `export` line that `minutehand local` prints, or LocalCloud.environment"


def authorization(key: str) -> dict[str, str]:
    """The headers of an unsigned request with ``key``, for routes that belong to no service of AWS."""
    return {"Authorization": f"AWS4-HMAC-SHA256 Credential={key}/-, SignedHeaders=host, Signature=-"}


def guarded(app: Asgi, keys: Collection[str], is_issued: KeyCheck) -> Asgi:
    """``app`` for requests with one of ``keys`` as access key or session token, or with a key for which ``is_issued``."""

    async def application(scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Any]) -> None:
        reason = None if scope["type"] == "lifespan" else refusal(scope, keys, is_issued)
        if reason is None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _forbid(scope, send, reason)

    return application


def refusal(scope: Scope, keys: Collection[str], is_issued: KeyCheck) -> str | None:
    """Why a request is refused; None if it is not."""
    headers = _headers(scope)
    if "origin" in headers:
        return "it has an Origin header: web pages have no access to this local cloud"
    host = headers.get("host", "").partition(":")[0].lower()
    if host not in HOSTS:  # a page whose name was rebound to loopback
        return f"its Host is {host!r}; use 127.0.0.1 or localhost"
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    key = _access_key(headers, query)
    token = headers.get("x-amz-security-token") or query.get("X-Amz-Security-Token", [None])[0]
    if _is_one_of(key, keys) or _is_one_of(token, keys) or (key and is_issued(key, token)):
        return None
    return _BY_KEY


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _access_key(headers: dict[str, str], query: dict[str, list[str]]) -> str | None:
    """The access key of a signed request, or of a presigned URL."""
    found = _CREDENTIAL.match(headers.get("authorization", ""))
    if found is not None:
        return found.group(1)
    given = query.get("X-Amz-Credential") or query.get("AWSAccessKeyId") or [""]
    return given[0].partition("/")[0] or None


def _is_one_of(given: str | None, keys: Collection[str]) -> bool:
    return given is not None and any(hmac.compare_digest(given.encode(), key.encode()) for key in keys)


async def _forbid(scope: Scope, send: Callable[..., Any], reason: str) -> None:
    """403 in the form that the SDK of the request reads: JSON, or XML."""
    headers = _headers(scope)
    message = f"refused: {reason}"
    if "x-amz-target" in headers or "json" in headers.get("content-type", ""):
        kind, body = "application/x-amz-json-1.0", json.dumps({"__type": _REFUSED, "message": message})
    else:
        kind = "text/xml"
        body = (
            f"<ErrorResponse><Error><Code>{_REFUSED}</Code><Message>{escape(message)}</Message></Error></ErrorResponse>"
        )
    length = str(len(body.encode())).encode()
    start = [(b"content-type", kind.encode()), (b"content-length", length), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 403, "headers": start})
    await send({"type": "http.response.body", "body": body.encode()})
