"""Checks of every request before its route: a bounded JSON body, the right host, no foreign site; and headers of every answer.

A HEAD is a GET whose answer has no body.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quarterjack.web.problems import RefusedRequest, refused

MAX_BODY = 1024 * 1024  # bytes: a payload of 256 KB, escaped, and a file of declarations
_SAFE = ("GET", "HEAD", "OPTIONS")
_ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """``hosts``: the names by which the server may be asked, without port; None: any (a proxy or gateway checks it)."""

    hosts: Collection[str] | None = None
    max_body: int = MAX_BODY  # bytes
    forms_below: str | None = None  # the path below which bodies are forms of pages, not JSON


class Guard:
    """ASGI middleware. ``scope["state"]["answer_headers"]`` is a dict that goes into the answer's headers."""

    def __init__(self, app: ASGIApp, options: GuardOptions) -> None:
        self._app, self._options = app, options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["state"] = dict(scope.get("state") or {})
        extra: dict[str, str] = scope["state"].setdefault("answer_headers", {})

        is_head = scope["method"] == "HEAD"

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**_ALWAYS, **extra}.items():
                    headers.setdefault(name, value)
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        try:
            self._check(scope)
            receive = await self._with_body(scope, receive)
        except RefusedRequest as refusal:
            await refused(Request(scope), refusal)(scope, receive, answer)
            return
        await self._app({**scope, "method": "GET"} if is_head else scope, receive, answer)

    def _check(self, scope: Scope) -> None:
        """Raises RefusedRequest for a foreign host, and for a change that the page of another site makes."""
        headers = Headers(scope=scope)
        hosts = self._options.hosts
        if hosts is not None and _host_of(headers.get("host", "")) not in hosts:
            raise RefusedRequest(
                421,
                "this server is asked by another name",
                f"use {' or '.join(sorted(hosts))} as the host",
                field="Host",
                value=headers.get("host"),
            )
        site = headers.get("sec-fetch-site")
        if scope["method"] not in _SAFE and site not in (None, "same-origin", "none"):
            raise RefusedRequest(
                403,
                f"a browser sends this for another site (Sec-Fetch-Site: {site})",
                "send it from this site",
                field="Sec-Fetch-Site",
                value=site,
            )

    async def _with_body(self, scope: Scope, receive: Receive) -> Receive:
        """A ``receive`` that returns the body, after it was read completely. Raises RefusedRequest."""
        if scope["method"] in _SAFE:
            return receive
        headers, most = Headers(scope=scope), self._options.max_body
        announced = headers.get("content-length", "0")
        body = bytearray()
        too_large = announced.isdecimal() and int(announced) > most
        is_over = too_large
        while not is_over:
            message = await receive()
            if message["type"] != "http.request":
                return receive  # the client is gone
            body += message.get("body", b"")
            too_large = len(body) > most
            is_over = too_large or not message.get("more_body", False)
        if too_large:
            raise RefusedRequest(
                413,
                f"the body has more than {most:,} bytes",
                f"send at most {most:,} bytes",
                field="body",
                Connection="close",
            )
        coding, kind = headers.get("content-encoding", "identity"), headers.get("content-type", "")
        if body and coding.strip().lower() != "identity":
            raise RefusedRequest(
                415,
                f"the body is encoded as {coding[:80]!r}, which is not read here",
                "send it as it is, without Content-Encoding",
                field="Content-Encoding",
                value=coding,
                Accept_Encoding="identity",
            )
        if body and not self._takes(scope, kind):
            raise RefusedRequest(
                415,
                "the body is not declared as JSON",
                "send Content-Type: application/json",
                field="Content-Type",
                value=kind,
            )
        return _replayed(bytes(body), receive)

    def _takes(self, scope: Scope, content_type: str) -> bool:
        below = self._options.forms_below
        if below is not None and scope["path"].removeprefix(scope.get("root_path", "")).startswith(f"{below}/"):
            return content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"
        return _is_json(content_type)


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def _host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""
