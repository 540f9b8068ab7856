"""The HTTP API: a request that API Gateway has let through, or one with an API key. Bodies are not logged."""

from __future__ import annotations

from functools import cache
from typing import Any

from mangum import Mangum
from minutehand.web.app import create_gateway_app

from functions.observe import logger, services

_TEXT = ["application/json", "application/problem+json"]  # sent as they are; anything else in base64


@cache
def _adapter() -> Mangum:
    return Mangum(create_gateway_app(services()), lifespan="off", text_mime_types=_TEXT)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request, an event of an HTTP API in format 2.0."""
    return _adapter()(event, context)
