"""What the pages for operators share: whether the caller is one, and the words of their forms."""

from __future__ import annotations

import re

from quarterjack.console.calls import PageCall
from quarterjack.domain.audit import Via
from quarterjack.domain.tenants.profile import SHARED
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.web.calls import FrontDoor
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.urls import name_in_url, name_of_url

_BETWEEN = re.compile(r"[\s,]+")


def front_of(call: PageCall) -> FrontDoor:
    """What the application is made with."""
    front: FrontDoor = call.request.app.state.console.front
    return front


def is_operator(call: PageCall) -> bool:
    """Whether the caller may ask what concerns all tenants; what of it, its grants say."""
    return call.operates


def operating(call: PageCall) -> Tenants:
    """The tenants; acts are the caller's, with the form's reason. Raises RefusedRequest 403."""
    tenants = front_of(call).tenants
    if tenants is None or not call.actor.operator:
        raise RefusedRequest(403, "this is for operators of the installation", "ask one of them")
    return call.actor.acting(tenants, call.reason, Via.CONSOLE)


def holder_of(call: PageCall) -> str:
    """The tenant that the address names, or the installation."""
    segment = str(call.request.path_params["holder"])
    return segment if segment.startswith(SHARED) else name_of_url(segment)


def of_holder(call: PageCall, holder: str, *more: str, **query: object) -> str:
    """The address of a page about a tenant."""
    return call.address("tenant", holder if holder.startswith(SHARED) else name_in_url(holder), *more, **query)


def words_of(text: str) -> list[str]:
    """The words of a field that takes several, with blanks or commas between them."""
    return [word for word in _BETWEEN.split(text) if word]
