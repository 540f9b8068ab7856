"""The tenants of the installation, and the way to the pages of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall
from quarterjack.console.pages.tenants.operators import is_operator, of_holder, operating, words_of
from quarterjack.console.parts import part
from quarterjack.console.rendering import ROOT
from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import NAMES, typed_limits
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput
from quarterjack.web.urls import name_in_url


def show(call: PageCall) -> Response:
    """All profiles, for operators; for others the tenants that they may name."""
    operator = is_operator(call)
    return call.render(
        "tenants/index.html",
        operator=operator,
        profiles=part(operating(call).list) if operator else None,
        own=sorted(call.actor.tenants or [call.tenant]),
        installation=INSTALLATION,
        of_holder=of_holder,
        home=home_of,
        now=call.now,
    )


def switch(call: PageCall) -> Response:
    """Go to the pages of another tenant, which needs no profile."""
    return call.go(home_of(call, check_tenant(call.param("to") or "")))


def home_of(call: PageCall, tenant: str) -> str:
    """The address of a tenant's overview."""
    return f"{call.request.scope[ROOT]}/t/{name_in_url(tenant)}/"


def new(call: PageCall) -> Response:
    """The form of a new profile."""
    operating(call)
    call.require(Verb.MANAGE_TENANTS, holder=INSTALLATION)
    return _form(call, None)


def create(call: PageCall) -> Response:
    """Give a tenant a profile."""
    name = call.form.get("tenant", "").strip()
    try:
        operating(call).create(name, **profile_of(call))
    except InvalidInput as problem:
        return _form(call, problem)
    return call.go(of_holder(call, name, done="create"))


FIELDS = ("limited", "jobs", "tier", "queue", "limits", "description", "reason")  # of the form


def profile_of(call: PageCall, present: Iterable[str] = ()) -> dict[str, Any]:
    """What a form says of a profile: None where the installation's default is wanted. ``present``: names of the limits that it has."""
    form = call.form
    limited = form.get("limited", "") == "yes"
    return {
        "jobs": words_of(form.get("jobs", "")) if limited else None,
        "tier": form.get("tier", "").strip() or None,
        "queue": form.get("queue", "").strip() or None,
        "description": form.get("description", "").strip() or None,
        "limits": dict.fromkeys((*NAMES, *present)) | typed_limits(words_of(form.get("limits", ""))),
    }


def _form(call: PageCall, fault: InvalidInput | None) -> Response:
    return call.render(
        "tenants/profile.html",
        200 if fault is None else 422,
        holder=None,
        action=call.address("tenants", "new"),
        back=call.address("tenants"),
        given={word: call.form.get(word, "") for word in ("tenant", *FIELDS)},
        version=None,
        fault=fault,
    )
