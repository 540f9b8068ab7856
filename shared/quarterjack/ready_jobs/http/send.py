"""Send a job's request: look up its secrets, follow redirects, and decide whether the response is a success."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

from quarterjack.domain.job import Context
from quarterjack.errors import InvalidInput, Permanent, UnexpectedStatus
from quarterjack.masking import TELLING, parts_of_url
from quarterjack.ready_jobs.http.exchange import JobResponse, Watchdog, exchange
from quarterjack.ready_jobs.http.guard import AddressGuard, CheckedAddress, guard_of
from quarterjack.ready_jobs.http.request import METHODS, Request, check_value
from quarterjack.ready_jobs.http.secrets import Secret, mask, mask_short, resolve, without_beginning
from quarterjack.state.retry import is_permanent_status
from quarterjack.values import replace

KEPT_HEADERS = (
    *("content-type", "etag", "location", "retry-after"),
    *("x-amzn-requestid", "x-amzn-trace-id", "x-correlation-id", "x-request-id"),
)
LONGEST_KEY = 255  # characters: the limit of payment providers
_MOST_WAIT = 86_400.0  # seconds: the longest Retry-After that is followed
_SHOWN = 300  # characters of a body in an error
_MOST_HEADER = 200  # characters of a header that is kept
_SPARE = 2.0  # seconds of a function's time that are kept to settle the run
# Methods with which a redirect is followed, by status: those that the redirect does not change.
_FOLLOWED = {301: ("GET", "HEAD"), 302: ("GET", "HEAD"), 303: ("GET", "HEAD"), 307: METHODS, 308: METHODS}
_OF_ONE_HOST = frozenset(("authorization", "cookie", "proxy-authorization"))


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    method: str
    url: str
    headers: dict[str, str]
    private: frozenset[str]  # names of headers, in lower case, that are dropped when a redirect leads to another origin
    body: bytes | None
    hidden: tuple[str, ...]  # values that must not appear in results, errors or logs
    has_secret: bool  # whether a secret is sent


def send(
    ctx: Context,
    request: Request,
    *,
    hosts: Sequence[str] = (),
    networks: Sequence[str] = (),
    allow_env_secrets: bool = False,
) -> dict[str, Any]:
    """Send a request from a job of your own; the response: ``status``, some ``headers``, the end of its ``body``, its ``bytes``.

    It carries ``Idempotency-Key`` (the run's, the same in every attempt), ``Quarterjack-Run``, ``Quarterjack-Attempt`` and
    ``Quarterjack-Scheduled-At``. ``hosts`` are the names that it may go to ("*.example.com": all subdomains; empty: any name),
    ``networks`` the allowed addresses in addition to public ones ("10.0.0.0/8"). A request with a Secret needs ``hosts``, and goes
    over https. ``allow_env_secrets`` lets a deployed worker read ``Secret(env=...)``. Raises UnexpectedStatus, ConnectionError,
    TimeoutError, Permanent for an address that may not be reached, InvalidInput, RunCancelled, LeaseLost.
    """
    if request.secrets and not hosts:
        remedy = 'name the hosts that may have them: hosts=("api.example.com",)'
        raise InvalidInput("hosts", hosts, f"is empty, and {', '.join(request.secrets)} is a Secret", remedy)
    return send_guarded(ctx, request, guard_of(hosts, networks), allow_env=allow_env_secrets)


def send_guarded(
    ctx: Context, request: Request, guard: AddressGuard, *, allow_env: bool, hidden: tuple[str, ...] = ()
) -> dict[str, Any]:
    """``hidden`` are values of secrets in the body: they are sent over https only. Secrets that the run has read are masked in any case."""
    ctx.raise_if_cancelled()
    check_encrypted(request)
    prepared, began, left = _prepare(ctx, request, allow_env=allow_env), time.monotonic(), ctx.remaining()
    prepared = replace(
        prepared,
        hidden=(*prepared.hidden, *hidden, *ctx.effects.hidden),
        has_secret=prepared.has_secret or bool(hidden),
    )
    limit = request.timeout if left is None else min(request.timeout, left - _SPARE)
    watchdog = Watchdog(limit, ctx.raise_if_cancelled)
    try:
        target, response = _exchange_and_follow(prepared, request.redirects, guard, watchdog)
    except (ConnectionError, Permanent) as problem:
        if not prepared.hidden:
            raise
        raise type(problem)(mask_short(prepared.hidden, str(problem))) from None
    ms = round((time.monotonic() - began) * 1_000)
    origin = mask_short(prepared.hidden, target.origin)  # of a redirect's target, which the endpoint chose
    fields = {"origin": origin, "method": prepared.method, "status": response.status, "ms": ms}
    ctx.logger.info("http.answered", extra=fields)
    return _check_response(request, prepared, target, response)


# The request.


def check_encrypted(request: Request) -> None:
    """Raise Permanent for a secret that would be sent in the clear."""
    if request.secrets and isinstance(request.url, str) and not request.url.lower().startswith("https:"):
        raise Permanent(f"{', '.join(request.secrets)} is a Secret, which is sent over https only; use an https:// URL")


def _prepare(ctx: Context, request: Request, *, allow_env: bool) -> _Prepared:
    url, hidden = resolve(request.url, ctx, allow_env=allow_env)
    hidden += parts_of_url(url) if hidden else ()
    headers, private = dict[str, str](), set(_OF_ONE_HOST)
    for name, value in request.headers.items():
        headers[name], secret = resolve(value, ctx, allow_env=allow_env)
        check_value(name, headers[name])
        hidden += secret
        if isinstance(value, Secret) or _holds(ctx.effects.hidden, headers[name]):
            private.add(name.lower())
    body, kind = request.content()
    key = ctx.idempotency_key
    given = {name.lower() for name in headers}
    own = {"Accept": "*/*", "User-Agent": "quarterjack"} | ({"Content-Type": kind} if kind else {})
    headers |= {name: value for name, value in own.items() if name.lower() not in given}
    headers |= {
        "Accept-Encoding": "identity",
        "Idempotency-Key": key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest(),
        "Quarterjack-Run": ctx.run_id,
        "Quarterjack-Attempt": str(ctx.attempt),
        "Quarterjack-Scheduled-At": ctx.scheduled_at.isoformat(),
    }
    sent = (url, *headers.values(), "" if body is None else body.decode())
    return _Prepared(
        method=request.method,
        url=url,
        headers=headers,
        private=frozenset(private),
        body=body,
        hidden=hidden,
        has_secret=bool(hidden) or any(_holds(ctx.effects.hidden, text) for text in sent),
    )


def _holds(secrets: Sequence[str], text: str) -> bool:
    """Whether a job has put a secret that it looked up into a part of its request; short ones may be there by chance."""
    told = [secret for secret in secrets if len(secret) >= TELLING]
    return bool(told) and mask(told, text) != text


def _exchange_and_follow(
    prepared: _Prepared, redirects: int, guard: AddressGuard, watchdog: Watchdog
) -> tuple[CheckedAddress, JobResponse]:
    """The response after at most ``redirects`` redirects. The guard checks the target of each."""
    url, headers = prepared.url, prepared.headers
    target = guard.admit(url)
    if prepared.has_secret and target.scheme != "https":
        raise Permanent(f"{target.origin} is called without encryption, and a Secret is sent over https only")
    for hops in range(redirects + 1):
        response = exchange(target, prepared.method, headers | {"Host": target.authority}, prepared.body, watchdog)
        methods, to = _FOLLOWED.get(response.status, ()), response.headers.get("location")
        if to is None or prepared.method not in methods or hops == redirects:
            break
        try:
            url, before = urljoin(url, to), target
        except ValueError:  # its text repeats a part of the location, which may be a secret
            raise Permanent(f"{target.origin} redirects to what is no URL; it was not followed") from None
        target = guard.admit(url)
        if before.scheme == "https" and target.scheme == "http":
            raise Permanent(f"{before.origin} redirects to {target.origin}, without encryption; it was not followed")
        if before.origin != target.origin:
            headers = {name: value for name, value in headers.items() if name.lower() not in prepared.private}
    return target, response


# The response.


def _check_response(
    request: Request, prepared: _Prepared, target: CheckedAddress, response: JobResponse
) -> dict[str, Any]:
    text = mask(prepared.hidden, response.body.decode("utf-8", "replace"))
    if not response.is_whole:
        text = without_beginning(prepared.hidden, text)
    status = response.status
    if status in request.expect or (not request.expect and 200 <= status <= 299):
        return _result(request, prepared, response, text)
    permanent = status not in request.again and (status < 400 or is_permanent_status(status))
    phrase = f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""
    tail = f": {text[-_SHOWN:]}" if text.strip() else ""
    origin = mask_short(prepared.hidden, target.origin)
    message = f"{prepared.method} {origin} answered {status}{phrase}{tail}"
    seconds = None if permanent else retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    raise UnexpectedStatus(status, message, permanent=permanent, seconds=seconds)


def _result(request: Request, prepared: _Prepared, response: JobResponse, text: str) -> dict[str, Any]:
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    result: dict[str, Any] = {
        "status": response.status,
        "headers": {name: mask(prepared.hidden, value)[:_MOST_HEADER] for name, value in headers.items()},
        "body": text[len(text) - min(request.keep, len(text)) :],
        "bytes": len(response.body),
    }
    return result if response.is_whole else result | {"more": True}


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds of a ``Retry-After`` header, a day at most; None if it is missing or cannot be parsed."""
    if value is None:
        return None
    try:
        seconds = float(value) if value.strip().isdecimal() else (parsedate_to_datetime(value) - now).total_seconds()
    except (TypeError, ValueError, OverflowError):  # TypeError: a date without its zone
        return None
    return min(max(seconds, 0.0), _MOST_WAIT)
