"""Requests of HTTP jobs, checked where they are declared or submitted, and the secrets in them.

Declarations, payloads, results and logs hold the place of a secret and never its value.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from minutehand.aws import Client
from minutehand.domain.payload import MAX_DEPTH, is_too_deep, json_text
from minutehand.errors import InvalidInput, Misconfigured
from minutehand.ready_jobs.http.guard import checked_url
from minutehand.settings import from_environment, variable

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
KEPT = 300.0  # seconds until a value is looked up again; a rotated value is used from then on
_HIDDEN = "[secret]"


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A text that the worker looks up when it sends a request; give one of the three places.

    The worker's role needs ``ssm:GetParameter`` or ``secretsmanager:GetSecretValue`` on the named place, and ``kms:Decrypt`` if its
    key is one of yours. A value is looked up again after five minutes. Raises InvalidInput.
    """

    env: str | None = None  # name of a variable in the worker's environment
    parameter: str | None = None  # name of a parameter in SSM Parameter Store, decrypted
    secret: str | None = None  # name or ARN of a secret in Secrets Manager
    key: str | None = None  # of a secret that is a JSON object: which of its values
    form: str = "{}"  # what is sent, with the value in place of {}

    def __post_init__(self) -> None:
        places = [place for place in (self.env, self.parameter, self.secret) if place is not None]
        if len(places) != 1 or not isinstance(places[0], str) or not places[0]:
            raise InvalidInput("secret", self, "does not name one place", "give env=, parameter= or secret=")
        if self.key is not None and self.secret is None:
            raise InvalidInput("key", self.key, "goes with secret= only", "leave it out")
        if not isinstance(self.form, str) or self.form.count("{}") != 1:
            raise InvalidInput("form", self.form, "does not hold the value once", 'use a text with one {}: "Bearer {}"')


class Vault:
    """The values that this process has looked up."""

    def __init__(self) -> None:
        self._kept: dict[Secret, tuple[float, str]] = {}
        self._clients: dict[str, Client] = {}
        self._lock = threading.Lock()

    def value(self, secret: Secret) -> str:
        """The present value of a secret, without its form. Raises Misconfigured, Unavailable."""
        if secret.env is not None:
            found = variable(secret.env)
            if not found:
                where = "in the worker's environment; set it where the worker runs"
                raise Misconfigured(f"{secret.env} is not set {where}")
            return found
        with self._lock:
            known = self._kept.get(secret)
            if known is None or time.monotonic() - known[0] > KEPT:
                self._kept[secret] = known = (time.monotonic(), self._look_up(secret))
            return known[1]

    def _look_up(self, secret: Secret) -> str:
        service = "secretsmanager" if secret.parameter is None else "ssm"
        if service not in self._clients:
            self._clients[service] = Client(service, from_environment())
        if secret.parameter is not None:
            answer = self._clients[service].call("get_parameter", Name=secret.parameter, WithDecryption=True)
            return str(answer["Parameter"]["Value"]).strip()
        answer = self._clients[service].call("get_secret_value", SecretId=secret.secret)
        text = str(answer.get("SecretString", "")).strip()
        if secret.key is None:
            return text
        try:
            return str(json.loads(text)[secret.key])
        except (ValueError, TypeError, KeyError):
            raise Misconfigured(f"secret={secret.secret!r} is not a JSON object with the key {secret.key!r}") from None


vault = Vault()


def resolve(text: str | Secret) -> tuple[str, tuple[str, ...]]:
    """The text to send, and the values in it that must not appear in results, errors or logs."""
    if isinstance(text, str):
        return text, ()
    value = vault.value(text)
    return text.form.replace("{}", value), (value,)


def redact(hidden: Collection[str], text: str) -> str:
    """A text with the values of secrets replaced; an endpoint may echo the request."""
    for value in sorted(hidden, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return text


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
        if name.lower() in _OURS or name.lower().startswith("minutehand-"):
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
