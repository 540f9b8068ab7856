"""The API and the console as they are deployed: one function, in which people sign in with an API key."""

from __future__ import annotations

from fastapi import FastAPI

from minutehand.console.app import add_console
from minutehand.console.sign_in import ApiKeySession
from minutehand.ports.services import Services
from minutehand.sdk.scheduler import Scheduler
from minutehand.web.app import create_gateway_app


def gateway_front_door(services: Services) -> FastAPI:
    """The application of a function. No process keeps sessions: any of them answers any request."""
    session = ApiKeySession(Scheduler(services=services))
    return add_console(create_gateway_app(services, also=session), session=session)
