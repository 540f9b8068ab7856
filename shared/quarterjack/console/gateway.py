"""The API and the console as they are deployed: one function, in which people sign in with an API key."""

from __future__ import annotations

from fastapi import FastAPI

from quarterjack.console.app import add_console
from quarterjack.console.sign_in import ApiKeySession
from quarterjack.ports.services import Services
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.web.actors import Access, closed
from quarterjack.web.app import create_gateway_app
from quarterjack.web.authentication import first_of


def gateway_front_door(services: Services, *, also: Access = closed) -> FastAPI:
    """The application of a function. No process keeps sessions: any of them answers any request. ``also`` as in ``create_gateway_app``."""
    session = ApiKeySession(Scheduler(services=services))
    return add_console(create_gateway_app(services, also=first_of(session, also)), session=session)
