"""Ways to find out who sends a request, for ``access=`` of ``create_app``: API keys, and what API Gateway has checked.

Whoever comes by one of these may do what was granted, and nothing where nothing was granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Request

from quarterjack.domain.audit import MAX_ACTOR, AccessScope
from quarterjack.owner.api_keys import authenticate
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.web.actors import Access, Actor, bearer_of, found_by


class ApiKeyAccess:
    """Whoever sends a valid API key, as ``Authorization: Bearer KEY``, may do what the key says, for the key's tenant.

    ``scheduler`` is one of the installation that has the keys, of any tenant. A key is believed for 5 s after it has been read.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._session = scheduler.session

    def __call__(self, request: Request) -> Actor | None:
        """The key's holder; None for anything else. Raises Unavailable if the keys cannot be read."""
        given = bearer_of(request)
        return None if given is None else self.holder_of(given)

    def holder_of(self, text: str) -> Actor | None:
        """Whose key a text is; None for what is no valid key. Raises Unavailable if the keys cannot be read."""
        key = authenticate(text, self._session.services, self._session.clock())
        if key is None:
            return None
        scope = AccessScope(tenant=key.tenant, grant=key.scope)
        return Actor(principal=key.principal, scope=scope, tenants={key.tenant})


def gateway_access(request: Request) -> Actor | None:
    """Whoever API Gateway's authoriser let in: by IAM ``iam:<ARN>``, by a JSON Web Token ``oidc:<issuer>/<sub>``.

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
