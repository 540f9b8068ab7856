"""The doctor: what it found, with remedies. Its checks run in the background; the page shows how far they are."""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.checkups import Checkup, Checkups
from quarterjack.console.pages.tenants.operators import front_of, operating
from quarterjack.settings import Settings
from quarterjack.web.problems import RefusedRequest


def show(call: PageCall) -> Response:
    """The last check-up; the first visit begins one."""
    settings = _settings(call)
    checkup = None if settings is None else _checkups(call).last(settings, call.now)
    return call.render("operations/doctor.html", checkup=checkup, now=call.now)


def begin(call: PageCall) -> Response:
    """Begin a new one, unless one is under way. It writes nothing."""
    settings = _settings(call)
    if settings is None:
        raise RefusedRequest(404, "this server was not told the settings of its installation", "create_app(settings=…)")
    _checkups(call).begin(settings, call.now)
    return call.go(call.address("doctor"))


def last_checkup(call: PageCall) -> Checkup | None:
    """The last one, for operators; None for whom there is none. Raises Forbidden."""
    front = front_of(call)
    if not call.actor.operator or front.tenants is None or front.settings is None:
        return None
    settings = _settings(call)
    return None if settings is None else _checkups(call).last(settings, call.now)


def _settings(call: PageCall) -> Settings | None:
    """Of the installation, about this tenant; None: the server was not told. Raises RefusedRequest, Forbidden."""
    operating(call).check_operator()
    settings = front_of(call).settings
    return None if settings is None else replace(settings, tenant=call.tenant)


def _checkups(call: PageCall) -> Checkups:
    found: Checkups = call.request.app.state.console.checkups
    return found
