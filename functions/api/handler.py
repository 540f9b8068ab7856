"""The HTTP API: a request that API Gateway has let through, or one with an API key. Bodies are not logged."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from fastapi import FastAPI
from mangum import Mangum
from quarterjack.clock import system_clock
from quarterjack.web.app import create_gateway_app
from quarterjack.web.authentication import Access, closed

from functions.observe import logger, services

_TEXT = ["application/json", "application/problem+json", "text/"]  # sent as they are; anything else in base64


@cache
def _adapter() -> Mangum:
    return Mangum(_application(), lifespan="off", text_mime_types=_TEXT)


def _application() -> FastAPI:
    """The API, and with QUARTERJACK_CONSOLE=on the console beside it, which an API alone does not load."""
    also = _load_balancer_access()
    if os.environ.get("QUARTERJACK_CONSOLE") != "on":
        return create_gateway_app(services(), also=also)
    from quarterjack.console.app import gateway_front_door  # noqa: PLC0415 (as the docstring says)

    return gateway_front_door(services(), also=also)


def _load_balancer_access() -> Access:
    """The sign-in by the load balancer of QUARTERJACK_LOAD_BALANCER; without one there is none, and nothing is loaded."""
    arn = os.environ.get("QUARTERJACK_LOAD_BALANCER")
    if not arn:
        return closed
    from quarterjack.web.load_balancer import LoadBalancer, LoadBalancerAccess  # noqa: PLC0415 (as the docstring says)

    issuer, client = os.environ["QUARTERJACK_OIDC_ISSUER"], os.environ["QUARTERJACK_OIDC_CLIENT"]
    return LoadBalancerAccess(LoadBalancer(arn=arn, issuer=issuer, client=client), system_clock)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request, an event of an HTTP API in format 2.0, or of a load balancer."""
    return _adapter()(event, context)
