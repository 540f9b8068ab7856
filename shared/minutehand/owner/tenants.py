"""Change the profile of a tenant: conditional on the version that was read, with the act's line. What changes nothing writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minutehand.domain.audit import AuditAct
from minutehand.domain.tenants.editing import checked_size
from minutehand.domain.tenants.limits import TenantLimits
from minutehand.domain.tenants.profile import INSTALLATION, TenantProfile, TenantState
from minutehand.errors import AlreadyExists, Conflict, InvalidInput
from minutehand.fires.acts import line_of
from minutehand.fires.context import FireContext

_RACES = 5  # changes that others may make meanwhile
_TOLD = ("jobs", "queue", "note", "limits")  # fields whose values the audit's line has

Edit = Callable[[TenantProfile], TenantProfile]


def create(profile: TenantProfile, context: FireContext) -> TenantProfile:
    """Put the first profile of a tenant. Raises AlreadyExists, Unavailable."""
    now, store = context.clock(), context.services.tenants
    made = replace(checked_size(profile), version=1, created_at=now, updated_at=now)
    present = store.profile(profile.tenant)
    line = line_of(AuditAct.CREATE_TENANT, profile.tenant, context, **_detail(None, made))
    if present is not None or not store.put(made, expected=0, line=line):
        present = present or store.profile(profile.tenant)
        if present is not None and present.is_erased:
            raise AlreadyExists(f"tenant={profile.tenant!r} was erased: its name is not used again; choose another one")
        raise AlreadyExists(f"tenant={profile.tenant!r} has a profile already; change it with set")
    return made


def change(
    tenant: str,
    act: AuditAct,
    edit: Edit,
    context: FireContext,
    *,
    expected: int | None = None,
    reason: str | None = None,
    **detail: Any,
) -> TenantProfile:
    """The profile after an edit; a tenant without one gets one. ``reason`` and ``detail`` are told in the audit's line; without
    a reason, the caller's is.

    Raises Conflict (it has not the version that the caller saw, or others keep changing it, or it is erased), Unavailable, and what
    ``edit`` raises.
    """
    store = context.services.tenants
    for _ in range(_RACES):
        stored = store.profile(tenant)
        present = stored or TenantProfile(tenant=tenant)
        if expected is not None and present.version != expected:
            raise Conflict(
                f"expected_version={expected}: the profile of {tenant!r} has version {present.version} by now; "
                "read it again, then decide"
            )
        if present.is_erased:
            raise Conflict(f"tenant={tenant!r} is {present.state}: its profile does not change any more")
        after, now = edit(present), context.clock()
        if after == present:
            return present
        made = replace(after, version=present.version + 1, created_at=present.created_at or now, updated_at=now)
        line = line_of(act, tenant, context, reason=reason, **_detail(present, made), **detail)
        if store.put(made, expected=present.version, line=line):
            return made
    raise Conflict(f"tenant={tenant!r}: others changed its profile {_RACES} times meanwhile; try again")


def suspend(tenant: str, note: str | None, context: FireContext) -> TenantProfile:
    """Accept and start nothing of a tenant. Raises InvalidInput for the installation, Conflict, Unavailable."""
    if tenant == INSTALLATION:
        remedy = "suspend single tenants, or stop the workers"
        raise InvalidInput("tenant", tenant, "cannot be suspended", remedy)

    def edit(profile: TenantProfile) -> TenantProfile:
        return replace(profile, state=TenantState.SUSPENDED, suspension_note=note or profile.suspension_note)

    return change(tenant, AuditAct.SUSPEND_TENANT, edit, context, reason=note)


def resume(tenant: str, context: FireContext) -> TenantProfile:
    """End the suspension of a tenant, if it is suspended. Raises Conflict, Unavailable."""

    def edit(profile: TenantProfile) -> TenantProfile:
        return profile if profile.accepts else replace(profile, state=TenantState.ACTIVE, suspension_note=None)

    return change(tenant, AuditAct.RESUME_TENANT, edit, context)


def _as_json(value: object) -> object:
    if isinstance(value, TenantLimits):
        return value.given()
    return list(value) if isinstance(value, tuple) else value if value is not None else ""


def _detail(before: TenantProfile | None, after: TenantProfile) -> dict[str, Any]:
    """What an audit's line tells: the version, and the fields that differ, as they are by now."""
    other = before or TenantProfile(tenant=after.tenant)
    told: dict[str, Any] = {"profile": after.version}
    for name in _TOLD:
        value = getattr(after, name)
        if value != getattr(other, name):
            told[name] = _as_json(value)
    return told
