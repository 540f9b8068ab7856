"""The HTTP API: a request that API Gateway has let through, or one with an API key. Bodies are not logged."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from fastapi import FastAPI
from mangum import Mangum
from minutehand.web.app import create_gateway_app

from functions.observe import logger, services

_TEXT = ["application/json", "application/problem+json", "text/"]  # sent as they are; anything else in base64


@cache
def _adapter() -> Mangum:
    return Mangum(_application(), lifespan="off", text_mime_types=_TEXT)


def _application() -> FastAPI:
    """The API, and with MINUTEHAND_CONSOLE=on the console beside it, which an API alone does not load."""
    if os.environ.get("MINUTEHAND_CONSOLE") != "on":
        return create_gateway_app(services())
    from minutehand.console.gateway import gateway_front_door  # noqa: PLC0415 (as the docstring says)

    return gateway_front_door(services())


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request, an event of an HTTP API in format 2.0."""
    return _adapter()(event, context)
