"""One tenant: its profile, and the acts on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen
from quarterjack.console.pages.operations.waiting import counts_of
from quarterjack.console.pages.tenants.index import FIELDS, home_of, profile_of
from quarterjack.console.pages.tenants.operators import front_of, holder_of, of_holder, operating
from quarterjack.console.parts import part
from quarterjack.domain.audit import Via
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.profile import INSTALLATION, SHARED
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.tenants.tenant_views import Tenant


@dataclass(frozen=True)
class TenantAct:
    """What can be done to a tenant."""

    title: str  # of its button
    danger: bool


ACTS: Mapping[str, TenantAct] = {
    "suspend": TenantAct("Suspend", danger=True),
    "resume": TenantAct("Resume", danger=False),
}


def show(call: PageCall) -> Response:
    """The page of a tenant, which may have no profile."""
    holder = holder_of(call)
    is_shared = holder.startswith(SHARED)
    return call.render(
        "tenants/detail.html",
        holder=holder,
        is_shared=is_shared,
        profile=found(call, holder),
        installation=INSTALLATION,
        default=None if holder == INSTALLATION else found(call, INSTALLATION),
        figures=None if is_shared else part(lambda: operating(call).figures(holder)),
        of_holder=of_holder,
        breakers=() if is_shared else operating(call).breakers(holder),
        home=None if is_shared else home_of(call, holder),
        done=call.param("done"),
        now=call.now,
    )


def found(call: PageCall, holder: str) -> Tenant | None:
    """A profile; None if there is none."""
    try:
        return operating(call).get(holder)
    except NotFound:
        return None


def preview_act(call: PageCall) -> Response:
    """What suspending or resuming would do, in numbers, and the form that does it."""
    word, holder = chosen(call.param("do"), ACTS, "do"), holder_of(call)
    profile = found(call, holder)
    call.require(Verb.MANAGE_TENANTS, holder=holder)
    of_tenant = front_of(call).scheduler_of(holder)
    return call.render(
        "tenants/act.html",
        act=ACTS[word],
        word=word,
        holder=holder,
        profile=profile,
        counts=counts_of(call.actor.acting(of_tenant, None, Via.CONSOLE), call.now),
        action=of_holder(call, holder, "act"),
        back=of_holder(call, holder),
    )


def act(call: PageCall) -> Response:
    """Do it."""
    word, holder, tenants = chosen(call.form.get("do"), ACTS, "do"), holder_of(call), operating(call)
    if word == "suspend":
        tenants.suspend(holder, reason=call.reason)
    else:
        tenants.resume(holder)
    return call.go(of_holder(call, holder, done=word))


def edit(call: PageCall) -> Response:
    """The form that changes a profile."""
    holder = holder_of(call)
    profile = found(call, holder)
    call.require(Verb.MANAGE_TENANTS, holder=holder)
    given = dict.fromkeys(FIELDS, "")
    if profile is not None:
        given |= {"limited": "" if profile.jobs is None else "yes", "jobs": "\n".join(profile.jobs or ())}
        given |= {"limits": "\n".join(f"{name}={value}" for name, value in profile.limits.items())}
        given |= {"tier": profile.tier or "", "queue": profile.queue or "", "description": profile.description or ""}
    return _form(call, holder, given, 0 if profile is None else profile.version, None)


def change(call: PageCall) -> Response:
    """Change the profile that was shown."""
    form, holder = call.form, holder_of(call)
    version, profile = form.get("version", ""), found(call, holder)
    try:
        operating(call).set(
            holder,
            **profile_of(call, () if profile is None else profile.limits),
            expected_version=int(version) if version.isdecimal() else None,
        )
    except InvalidInput as problem:
        given = {word: form.get(word, "") for word in FIELDS}
        return _form(call, holder, given, int(version) if version.isdecimal() else 0, problem)
    return call.go(of_holder(call, holder, done="change"))


def _form(call: PageCall, holder: str, given: Mapping[str, str], version: int, fault: InvalidInput | None) -> Response:
    return call.render(
        "tenants/profile.html",
        200 if fault is None else 422,
        holder=holder,
        action=of_holder(call, holder, "edit"),
        back=of_holder(call, holder),
        given=given,
        version=version,
        fault=fault,
    )
