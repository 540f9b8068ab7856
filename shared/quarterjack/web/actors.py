"""Who sends a request. ``access`` of ``create_app`` finds it out; what that actor may do, the SDK checks at the act.

API keys, tokens and signed requests are further functions of this kind, from a request to an actor, or to None: ``authentication``.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from quarterjack.domain.audit import AccessScope, Caller, Via, checked_reason
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.tenants.tenants import Tenants

_Acts = TypeVar("_Acts", Scheduler, Tenants)


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who sends a request, as far as ``access`` has found out.

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
        """The scheduler, or the tenants, with acts of this actor. Raises InvalidInput."""
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
    """What a request has as ``Authorization: Bearer TEXT``, in whatever case; None: it has no such header."""
    scheme, _, text = request.headers.get("authorization", "").strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def closed(request: Request) -> Actor | None:  # noqa: ARG001 (an ``Access``)
    """Nobody is let in: what an application without ``access`` does."""
    return None


class KeyAccess:
    """Whoever sends this key, as ``Authorization: Bearer KEY``, is the operator of the process."""

    def __init__(self, key: str, actor: Actor | None = None) -> None:
        self._wanted, self._actor = key.encode(), actor or Actor(operator=True)

    def __call__(self, request: Request) -> Actor | None:
        """The operator, or None."""
        given = bearer_of(request)
        return self._actor if given is not None and hmac.compare_digest(given.encode(), self._wanted) else None
