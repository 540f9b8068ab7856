"""Requests of HTTP jobs, checked where they are declared or submitted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from quarterjack.domain.payload import MAX_DEPTH, is_too_deep, json_text
from quarterjack.errors import InvalidInput
from quarterjack.ready_jobs.http.guard import checked_url
from quarterjack.ready_jobs.http.secrets import Secret

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODILESS = ("GET", "HEAD", "OPTIONS")
LONGEST = 840.0  # seconds: a Lambda function has 900
MOST_KEPT = 10_000  # characters: a result of this size fits the run's row in any encoding
MOST_HEADERS = 50
_MOST_VALUE = 8_000  # characters of a header
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\t -~]*")  # no line break: text after it would be read as another header
# Headers that only this package sets. With those of the framing, a job could smuggle in a second request.
_OURS = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host"}
    | {"idempotency-key", "te", "trailer", "transfer-encoding", "upgrade"}
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request of a job, and which answers are a success. Raises InvalidInput."""

    url: str | Secret  # http:// or https://, without user and password
    method: str = ""  # GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; empty: POST with a body, else GET
    headers: Mapping[str, str | Secret] = field(default_factory=dict)  # beside those that are set for you
    body: Any = None  # text as it is, anything else as JSON; None: no body
    timeout: float = 30.0  # seconds for the whole of it, redirects included; 0.1 to 840
    expect: tuple[int, ...] = ()  # statuses that are a success; empty: 200 to 299
    again: tuple[int, ...] = ()  # statuses worth another attempt, beside 408, 425, 429 and 5xx
    redirects: int = 0  # that are followed, 0 to 5; none: a redirect is an answer like any other
    keep: int = 1_000  # characters of the answer's body that are kept, the last ones; 0 to 10,000

    def __post_init__(self) -> None:
        if not isinstance(self.url, Secret):
            checked_url(self.url)
        _check_headers(self.headers)
        self.content()
        for name in ("expect", "again"):
            object.__setattr__(self, name, _statuses(name, getattr(self, name)))
        _within("redirects", self.redirects, 0, 5, whole=True)
        _within("keep", self.keep, 0, MOST_KEPT, whole=True)
        _within("timeout", self.timeout, 0.1, LONGEST)
        method = self.method or ("GET" if self.body is None else "POST")
        object.__setattr__(self, "method", method.upper() if isinstance(method, str) else method)
        if self.method not in METHODS:
            raise InvalidInput("method", method, "is not known", f"use one of {', '.join(METHODS)}")
        if self.body is not None and self.method in BODILESS:
            raise InvalidInput("body", self.body, f"does not go with {self.method}", "leave it out, or use POST")

    def content(self) -> tuple[bytes | None, str]:
        """The body as it is sent, and its type."""
        if self.body is None:
            return None, ""
        try:
            if isinstance(self.body, str):
                return self.body.encode(), "text/plain; charset=utf-8"
            text = json_text(self.body)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput("body", self.body, f"is not JSON ({error})", "use text or a JSON value") from None
        if is_too_deep(text):
            problem = f"is nested more than {MAX_DEPTH} levels deep"
            raise InvalidInput("body", self.body, problem, "flatten it, or pass it as text")
        return text.encode(), "application/json"

    @property
    def secrets(self) -> list[str]:
        """The names of the fields and headers that are secrets."""
        named = {"url": self.url, **self.headers}
        return [name for name, value in named.items() if isinstance(value, Secret)]


FIELDS = tuple(f.name for f in fields(Request))


def _check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping) or len(headers) > MOST_HEADERS:
        raise InvalidInput("headers", headers, "is not a dict of fitting size", f"use at most {MOST_HEADERS} pairs")
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidInput("headers", name, "is not the name of a header", "use letters, digits and -")
        if name.lower() in _OURS or name.lower().startswith("quarterjack-"):
            raise InvalidInput("headers", name, "is set for you", "leave it out")
        if not isinstance(value, Secret):
            check_value(name, value)


def check_value(name: str, value: object) -> None:
    """Raise InvalidInput for a text that is not a valid header value. The error does not show it."""
    if not isinstance(value, str) or len(value) > _MOST_VALUE or not _VALUE.fullmatch(value):
        remedy = f"use at most {_MOST_VALUE:,} printable characters"
        raise InvalidInput("headers", name, "has a value that is not one line of ASCII", remedy)


def _statuses(name: str, given: object) -> tuple[int, ...]:
    listed = tuple(given) if isinstance(given, (list, tuple, range, set, frozenset)) else (given,)
    if not all(type(status) is int and 100 <= status <= 599 for status in listed):
        raise InvalidInput(name, given, "is not a list of HTTP statuses", "use e.g. (200, 204)")
    return tuple(sorted({int(str(status)) for status in listed}))


def _within(name: str, given: object, least: float, most: float, *, whole: bool = False) -> None:
    kinds = int if whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kinds) or not least <= given <= most:
        what = "a whole number" if whole else "seconds"
        raise InvalidInput(name, given, "is out of range", f"use {what} from {least:g} to {most:g}")
