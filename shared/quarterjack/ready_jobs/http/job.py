"""The HTTP job: with a fixed URL, or an open job whose payload is the request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarterjack.domain.job import Context, JobFunction
from quarterjack.domain.names import check_secret
from quarterjack.domain.payload import json_text
from quarterjack.domain.policies import DeliveryWord, PriorityWord, Retry, StartWord
from quarterjack.domain.redaction import USUAL, Redact
from quarterjack.errors import InvalidInput, Permanent
from quarterjack.jobs import Registry, default_registry
from quarterjack.ready_jobs.http.guard import AddressGuard, guard_of
from quarterjack.ready_jobs.http.request import BODILESS, FIELDS, Request
from quarterjack.ready_jobs.http.secrets import Secret, check_env
from quarterjack.ready_jobs.http.send import check_encrypted, send_guarded

_SOME_URL = "https://example.com"  # in place of the payload's, while the rest is checked


def http_job(
    name: str,
    *,
    url: str | Secret | None = None,
    method: str = "",
    headers: Mapping[str, str | Secret] | None = None,
    timeout: float = 30.0,
    expect: Sequence[int] = (),
    again: Sequence[int] = (),
    redirects: int = 0,
    keep: int = 1_000,
    hosts: Sequence[str] = (),
    networks: Sequence[str] = (),
    allow_env_secrets: bool = False,
    delivery: DeliveryWord | None = None,
    start: StartWord | None = None,
    priority: PriorityWord | None = None,
    retry: Retry | None = None,
    deadline: float | None = None,
    queue: str | None = None,
    redact: Redact = USUAL,
    registry: Registry = default_registry,
) -> JobFunction:
    """Register a job that calls an HTTP endpoint; its function, for ``@schedule`` to decorate.

    With a ``url``, the payload is sent to it as JSON (``method`` POST by default). Without one the job is *open*: the payload is
    the request, ``{"url": ..., "method": ..., "headers": ..., "body": ...}`` with any field of Request, and the arguments given
    here are its defaults. ``hosts`` and ``networks`` are as in ``send``, the policies as in ``job``; ``timeout`` is the request's.
    A Secret is sent over https, and to the host of a fixed ``url`` or to declared ``hosts`` only: an open job with one, or a ``url``
    that is one, needs ``hosts``. A tenant whose jobs are limited may run an open job only if its profile has the job's full name.
    Outside of ``quarterjack local`` a ``Secret(env=...)`` needs ``allow_env_secrets=True``. Raises InvalidInput, JobError.
    """
    given: dict[str, Any] = {
        "url": url,
        "method": method,
        "headers": dict(headers or {}),
        "timeout": timeout,
        "expect": expect,
        "again": again,
        "redirects": redirects,
        "keep": keep,
    }
    call = (_Open if url is None else _Endpoint)(given, guard_of(hosts, networks), allow_env_secrets)
    call.check_declaration()
    register = registry.job(
        name,
        delivery=delivery,
        start=start,
        priority=priority,
        retry=retry,
        deadline=deadline,
        queue=queue,
        check=call.check,
        redact=redact,
        by_name=url is None,
    )
    return register(call)


@dataclass(frozen=True, repr=False, eq=False)
class _Call(ABC):
    given: dict[str, Any]
    guard: AddressGuard
    allow_env: bool  # whether a deployed worker may read secrets from its environment

    def __call__(self, ctx: Context, payload: Any) -> dict[str, Any]:
        try:
            request = self.request(payload)
        except InvalidInput as problem:
            raise Permanent(str(problem)) from None
        return send_guarded(ctx, request, self.guard, allow_env=self.allow_env)

    def __repr__(self) -> str:
        """For the error that two jobs have one name; without headers, which may hold secrets."""
        return f"http_job(url={self.given['url']!r}, method={self.given['method']!r})"

    def check(self, payload: Any) -> None:
        """Raise InvalidInput for a payload that makes no valid request, as far as that can be checked before the run."""
        request = self.request(payload)
        url = request.url
        if not isinstance(url, Secret):
            try:
                check_encrypted(request)
                self.guard.look(url)
            except Permanent as problem:
                raise InvalidInput("url", url, str(problem), "use another one, or change the job") from None

    @property
    def env_secrets(self) -> tuple[str, ...]:
        """The variables that its secrets are read from."""
        values = (self.given["url"], *self.given["headers"].values())
        return tuple(value.env for value in values if isinstance(value, Secret) and value.env is not None)

    def check_secrets(self) -> None:
        """Raise Misconfigured for a variable that this process could not use: a worker asks when it starts."""
        check_env(self.env_secrets, allowed=self.allow_env)

    @abstractmethod
    def check_declaration(self) -> None:
        """Raise InvalidInput for a declaration that no payload can make valid."""

    @abstractmethod
    def request(self, payload: Any) -> Request:
        """The request of a run. Raises InvalidInput."""


class _Endpoint(_Call):
    """A fixed URL; the payload is the body."""

    def check_declaration(self) -> None:
        if isinstance(self.given["url"], Secret) and not self.guard.hosts:
            remedy = 'declare the host that may have it: hosts=("hooks.example.com",)'
            raise InvalidInput("hosts", self.guard.hosts, "is empty, and the URL is a Secret", remedy)
        self.check(None)

    def request(self, payload: Any) -> Request:
        base = self.given | {"method": self.given["method"] or "POST"}
        if payload is None:
            return Request(**base)
        if base["method"].upper() in BODILESS:
            raise InvalidInput("payload", payload, f"cannot be sent with {base['method']}", "leave it out, or use POST")
        has_type = any(name.lower() == "content-type" for name in base["headers"])
        headers = base["headers"] | ({} if has_type else {"Content-Type": "application/json"})
        return Request(**base | {"body": json_text(payload), "headers": headers})


class _Open(_Call):
    """Any URL that the guard admits; the payload is the request."""

    def check_declaration(self) -> None:
        request = Request(**self.given | {"url": _SOME_URL})
        if request.secrets and not self.guard.hosts:
            remedy = 'declare the hosts that may have them: hosts=("api.example.com",)'
            raise InvalidInput("headers", request.secrets, "would be sent to any host that a payload names", remedy)

    def request(self, payload: Any) -> Request:
        if not isinstance(payload, Mapping) or "url" not in payload:
            raise InvalidInput("payload", payload, "is not a request", 'use {"url": "https://...", "body": ...}')
        unknown = [name for name in payload if name not in FIELDS]
        if unknown:
            raise InvalidInput("payload", unknown[0], "is not a field of a request", f"use {', '.join(FIELDS)}")
        own, wanted = self.given["headers"], payload.get("headers", {})
        if not isinstance(wanted, Mapping):
            raise InvalidInput("headers", wanted, "is not a dict", 'use {"Name": "value"}')
        taken = {str(name).lower() for name in own} & {str(name).lower() for name in wanted}
        if taken:
            raise InvalidInput("headers", min(taken), "is set by the job", "leave it out")
        named = {name: self._secret(value) if isinstance(value, Mapping) else value for name, value in wanted.items()}
        return Request(**self.given | dict(payload) | {"headers": {**own, **named}})

    def _secret(self, given: Mapping[str, Any]) -> Secret:
        """A secret of the tenant that a payload names: ``{"secret": "crm-token", "form": "Bearer {}"}``. Never says whose."""
        if not {"secret"} <= set(given) <= {"secret", "form"}:
            remedy = 'use text, or {"secret": "name of a secret of the tenant", "form": "Bearer {}"}'
            raise InvalidInput("headers", given, "is neither text nor the name of a secret", remedy)
        if not self.guard.hosts:
            remedy = 'declare the hosts that may have secrets: hosts=("api.example.com",)'
            raise InvalidInput("headers", given, "would send a secret to any host that a payload names", remedy)
        return Secret(tenant=check_secret(given["secret"], "headers: secret"), form=given.get("form", "{}"))
