"""Who sends a request. ``access`` of ``create_app`` finds it out; what that actor may do, the SDK checks at the act.

Signed requests (SigV4), tokens (OIDC) and API keys become further functions of this kind: from a request to an actor, or to None.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from fastapi import Request


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who sends a request, as far as ``access`` has found out."""

    name: str | None = (
        None  # e.g. "alice@acme": "app:alice@acme" in the audit; None: the IAM identity of the server alone
    )
    tenants: Collection[str] | None = None  # the tenants that it may name in an address; None: all
    operator: bool = False  # may it ask what concerns all tenants: /v1/tenants, /v1/doctor

    def may_name(self, tenant: str) -> bool:
        """Whether this actor may name a tenant in an address."""
        return self.tenants is None or tenant in self.tenants


Access = Callable[[Request], "Actor | Awaitable[Actor | None] | None"]


def closed(request: Request) -> Actor | None:  # noqa: ARG001 (an ``Access``)
    """Nobody is let in: what an application without ``access`` does."""
    return None


class KeyAccess:
    """Whoever sends this key, as ``Authorization: Bearer KEY``, is the operator of the process."""

    def __init__(self, key: str, actor: Actor | None = None) -> None:
        self._wanted, self._actor = f"Bearer {key}".encode(), actor or Actor(operator=True)

    def __call__(self, request: Request) -> Actor | None:
        """The operator, or None."""
        given = request.headers.get("authorization", "").encode()
        return self._actor if hmac.compare_digest(given, self._wanted) else None
