"""The sender of a request, and the ways to find it, for ``access=`` of ``create_app``.

A way is a function from a request to an actor, or to None: a key of the process, API keys, what API Gateway has checked. What the actor may
do, the SDK checks at each call. An actor that came by an API key or by API Gateway may do only what was granted.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from quarterjack.domain.tenants.caller import MAX_ACTOR, AccessScope, Caller, Via, checked_reason
from quarterjack.owner.api_keys import authenticate
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.tenants.tenants import Tenants

_Acts = TypeVar("_Acts", Scheduler, Tenants)


@dataclass(frozen=True, kw_only=True)
class Actor:
    """The sender of a request, as ``access`` has found it.

    With a ``name`` the server acts for somebody: it needs the grants, too. A ``principal`` acts alone, and needs grants even where
    there are none for anybody. With neither, the server acts for itself.
    """

    name: str | None = None  # e.g. "alice@acme": "app:alice@acme" in the audit
    principal: str | None = None  # what this application itself has checked: "key:crm", "oidc:…", "iam:<ARN>"
    scope: AccessScope | None = None  # what the principal may do, whatever grants there are; None: the grants say it
    tenants: Collection[str] | None = None  # the tenants that it may name in an address; None: all
    operator: bool = False  # may it ask what concerns all tenants: /v1/tenants, /v1/doctor

    @property
    def label(self) -> str:
        """Whose requests are counted together."""
        return self.principal or self.name or ""

    def acting(self, over: _Acts, reason: str | None, via: Via = Via.API) -> _Acts:
        """The scheduler or the tenants; changes through them are this actor's. Raises InvalidInput."""
        if self.principal is None:
            return over.acting_as(self.name, reason=reason, via=via)
        caller = Caller(actor=self.principal, via=via, reason=checked_reason(reason), is_remote=True, scope=self.scope)
        return over.with_caller(caller)

    def may_name(self, tenant: str) -> bool:
        """Whether this actor may name a tenant in an address."""
        return self.tenants is None or tenant in self.tenants


Access = Callable[[Request], "Actor | Awaitable[Actor | None] | None"]


async def found_by(access: Access, request: Request) -> Actor | None:
    """Whom a function of this kind finds. One that is no coroutine may ask a database, so it has a thread."""
    asked: Any = access(request) if iscoroutinefunction(access) else await run_in_threadpool(access, request)
    found: Actor | None = await asked if isawaitable(asked) else asked
    return found


def bearer_of(request: Request) -> str | None:
    """The text of ``Authorization: Bearer TEXT``, in any case; None: there is no such header."""
    scheme, _, text = request.headers.get("authorization", "").strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def closed(request: Request) -> Actor | None:  # noqa: ARG001 (an ``Access``)
    """The default of ``access``: nobody is let in."""
    return None


class KeyAccess:
    """A caller that sends this key, as ``Authorization: Bearer KEY``, is the operator of the process."""

    def __init__(self, key: str, actor: Actor | None = None) -> None:
        self._wanted, self._actor = key.encode(), actor or Actor(operator=True)

    def __call__(self, request: Request) -> Actor | None:
        """The operator, or None."""
        given = bearer_of(request)
        return self._actor if given is not None and hmac.compare_digest(given.encode(), self._wanted) else None


class ApiKeyAccess:
    """A caller that sends a valid API key, as ``Authorization: Bearer KEY``, may do what the key allows, for the key's tenant.

    ``scheduler`` is one of the installation that has the keys, of any tenant. A key is believed for 5 s after it has been read.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._session = scheduler.session

    def __call__(self, request: Request) -> Actor | None:
        """The key's holder; None for anything else. Raises Unavailable if the keys cannot be read."""
        given = bearer_of(request)
        return None if given is None else self.holder_of(given)

    def holder_of(self, text: str) -> Actor | None:
        """The holder of a key; None for a text that is no valid key. Raises Unavailable if the keys cannot be read."""
        key = authenticate(text, self._session.services, self._session.clock())
        if key is None:
            return None
        scope = AccessScope(tenant=key.tenant, grant=key.scope)
        return Actor(principal=key.principal, scope=scope, tenants={key.tenant})


def gateway_access(request: Request) -> Actor | None:
    """A caller that API Gateway's authoriser let in: by IAM ``iam:<ARN>``, by a JSON Web Token ``oidc:<issuer>/<sub>``.

    It reads the event that the Lambda adapter puts into the ASGI scope, which no request can.
    """
    event = request.scope.get("aws.event")
    found = event.get("requestContext", {}).get("authorizer") if isinstance(event, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    principal = _of_iam(found.get("iam")) or _of_token(found.get("jwt"))
    if principal is None or len(principal) > MAX_ACTOR or not principal.isprintable():
        return None
    return Actor(principal=principal, operator=True)  # the installation's grants say what it may do as one


def _of_iam(about: Any) -> str | None:
    arn = about.get("userArn") if isinstance(about, Mapping) else None
    return f"iam:{arn}" if isinstance(arn, str) and arn else None


def _of_token(about: Any) -> str | None:
    claims = about.get("claims") if isinstance(about, Mapping) else None
    issuer, subject = (claims.get(name) if isinstance(claims, Mapping) else None for name in ("iss", "sub"))
    return principal_of(issuer, subject)


def principal_of(issuer: Any, subject: Any) -> str | None:
    """The principal of an issuer's subject, the same by whichever way it comes; None if one of the two is missing."""
    if not isinstance(issuer, str) or not isinstance(subject, str) or not issuer or not subject:
        return None
    return f"oidc:{issuer.removeprefix('https://').rstrip('/')}/{subject}"


def first_of(*ways: Access) -> Access:
    """The actor that the first of several ways finds; None if none does."""

    async def access(request: Request) -> Actor | None:
        for way in ways:
            found = await found_by(way, request)
            if found is not None:
                return found
        return None

    return access
