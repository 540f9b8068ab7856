"""Tenants: the list for operators, a new profile, one tenant, and the actions on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post
from quarterjack.console.forms import chosen, number_typed, words_of
from quarterjack.console.pages.freeze import counts_of
from quarterjack.console.rendering import ROOT
from quarterjack.domain.names import check_tenant
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import Via
from quarterjack.domain.tenants.limits import NAMES, typed_limits
from quarterjack.domain.tenants.profile import INSTALLATION, SHARED
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.tenants.base import Tenant
from quarterjack.web.urls import name_in_url, name_of_url

_FIELDS = ("limited", "jobs", "tier", "queue", "limits", "description", "reason")  # of the form of a profile


@dataclass(frozen=True)
class TenantAction:
    """An action on a tenant."""

    title: str  # of its button
    danger: bool


TENANT_ACTIONS: Mapping[str, TenantAction] = {
    "suspend": TenantAction("Suspend", danger=True),
    "resume": TenantAction("Resume", danger=False),
}


def holder_of(call: PageCall) -> str:
    """The tenant that the address names, a tier, or the installation."""
    segment = str(call.request.path_params["holder"])
    return segment if segment.startswith(SHARED) else name_of_url(segment)


def of_holder(call: PageCall, holder: str, *more: str, **query: object) -> str:
    """The address of a page about a tenant, a tier or the installation."""
    return call.address("tenant", holder if holder.startswith(SHARED) else name_in_url(holder), *more, **query)


def find_profile(call: PageCall, holder: str) -> Tenant | None:
    """A profile; None if there is none. Raises RefusedRequest 403."""
    try:
        return call.operating().get(holder)
    except NotFound:
        return None


def show_tenants(call: PageCall) -> Response:
    """All profiles, for operators; for others the tenants that they may name."""
    return call.render(
        "tenants/index.html",
        operator=call.operates,
        profiles=part(call.operating().list) if call.operates else None,
        own=sorted(call.actor.tenants or [call.tenant]),
        installation=INSTALLATION,
        of_holder=of_holder,
        home=_home,
    )


def switch(call: PageCall) -> Response:
    """Go to the pages of another tenant, which needs no profile."""
    return call.go(_home(call, check_tenant(call.param("to") or "")))


def _home(call: PageCall, tenant: str) -> str:
    """The address of a tenant's overview."""
    return f"{call.request.scope[ROOT]}/t/{name_in_url(tenant)}/"


def new(call: PageCall) -> Response:
    """The form of a new profile."""
    call.operating()
    call.require(Verb.MANAGE_TENANTS, holder=INSTALLATION)
    return _form(call, None, _typed(call), None)


def create(call: PageCall) -> Response:
    """Give a tenant a profile."""
    name = call.form.get("tenant", "").strip()
    try:
        call.operating().create(name, **_profile(call))
    except InvalidInput as problem:
        return _form(call, None, _typed(call), problem)
    return call.go(of_holder(call, name, done="create"))


def edit(call: PageCall) -> Response:
    """The form that changes a profile."""
    holder = holder_of(call)
    profile = find_profile(call, holder)
    call.require(Verb.MANAGE_TENANTS, holder=holder)
    given = dict.fromkeys(_FIELDS, "")
    if profile is not None:
        given |= {"limited": "" if profile.jobs is None else "yes", "jobs": "\n".join(profile.jobs or ())}
        given |= {"limits": "\n".join(f"{name}={value}" for name, value in profile.limits.items())}
        given |= {"tier": profile.tier or "", "queue": profile.queue or "", "description": profile.description or ""}
    return _form(call, holder, given, None, version=0 if profile is None else profile.version)


def change(call: PageCall) -> Response:
    """Change the profile that was shown."""
    holder, version = holder_of(call), number_typed(call.form.get("version"))
    profile = find_profile(call, holder)
    try:
        limits = () if profile is None else profile.limits
        call.operating().set(holder, **_profile(call, limits), expected_version=version)
    except InvalidInput as problem:
        return _form(call, holder, _typed(call), problem, version=version or 0)
    return call.go(of_holder(call, holder, done="change"))


def _typed(call: PageCall) -> dict[str, str]:
    return {word: call.form.get(word, "") for word in ("tenant", *_FIELDS)}


def _profile(call: PageCall, present: Iterable[str] = ()) -> dict[str, Any]:
    """The form's fields as keywords of the SDK; None means the installation's default. ``present``: names of the profile's limits."""
    form = call.form
    return {
        "jobs": words_of(form.get("jobs", "")) if form.get("limited") == "yes" else None,
        **{word: form.get(word, "").strip() or None for word in ("tier", "queue", "description")},
        "limits": dict.fromkeys((*NAMES, *present)) | typed_limits(words_of(form.get("limits", ""))),
    }


def _form(
    call: PageCall,
    holder: str | None,
    given: Mapping[str, str],
    fault: InvalidInput | None,
    *,
    version: int | None = None,
) -> Response:
    """The form of a profile; without a ``holder`` it asks for the tenant's name."""
    return call.render(
        "tenants/profile.html",
        holder=holder,
        action=call.address("tenants", "new") if holder is None else of_holder(call, holder, "edit"),
        back=call.address("tenants") if holder is None else of_holder(call, holder),
        given=given,
        version=version,
        fault=fault,
    )


def show_tenant(call: PageCall) -> Response:
    """The page of a tenant, which may have no profile."""
    holder = holder_of(call)
    is_shared = holder.startswith(SHARED)
    return call.render(
        "tenants/detail.html",
        holder=holder,
        is_shared=is_shared,
        profile=find_profile(call, holder),
        installation=INSTALLATION,
        default=None if holder == INSTALLATION else find_profile(call, INSTALLATION),
        figures=None if is_shared else part(lambda: call.operating().figures(holder)),
        of_holder=of_holder,
        breakers=() if is_shared else call.operating().breakers(holder),
        home=None if is_shared else _home(call, holder),
        done=call.param("done"),
    )


def preview_action(call: PageCall) -> Response:
    """What suspending or resuming would do, in numbers, and the form that does it."""
    word, holder = chosen(call.param("do"), TENANT_ACTIONS, "do"), holder_of(call)
    profile = find_profile(call, holder)
    call.require(Verb.MANAGE_TENANTS, holder=holder)
    scheduler = call.actor.acting(call.console.front.scheduler_of(holder), None, Via.CONSOLE)
    return call.render(
        "tenants/act.html",
        action=TENANT_ACTIONS[word],
        word=word,
        holder=holder,
        profile=profile,
        counts=counts_of(scheduler, call.now),
        address=of_holder(call, holder, "act"),
        back=of_holder(call, holder),
    )


def act(call: PageCall) -> Response:
    """Suspend or resume the tenant."""
    word, holder = chosen(call.form.get("do"), TENANT_ACTIONS, "do"), holder_of(call)
    if word == "suspend":
        call.operating().suspend(holder, reason=call.reason)
    else:
        call.operating().resume(holder)
    return call.go(of_holder(call, holder, done=word))


ROUTES = (
    get("/tenants", show_tenants),
    get("/tenants/switch", switch),
    get("/tenants/new", new),
    post("/tenants/new", create),
    get("/tenant/{holder}", show_tenant),
    get("/tenant/{holder}/act", preview_action),
    post("/tenant/{holder}/act", act),
    get("/tenant/{holder}/edit", edit),
    post("/tenant/{holder}/edit", change),
)
