"""Change the profile of a tenant, or close its circuit breakers: conditional on the version that was read, with the act's audit entry.

A call that changes nothing writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.domain.tenants.editing import checked_profile
from quarterjack.domain.tenants.limits import NO_LIMITS, TenantLimits
from quarterjack.domain.tenants.profile import SHARED, TenantProfile, TenantState
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.breakers import read_breakers, write_breakers
from quarterjack.fires.context import FireContext
from quarterjack.values import replace

_RACES = 5  # changes that others may make meanwhile
_TOLD = ("jobs", "tier", "queue", "description", "limits")  # fields whose values the audit entry has

Edit = Callable[[TenantProfile], TenantProfile]
_RESETS = 8  # writes of workers that may come in between


def create(profile: TenantProfile, context: FireContext) -> TenantProfile:
    """Put the first profile of a tenant. Raises AlreadyExists, Unavailable."""
    now, store = context.clock(), context.services.tenants
    made = replace(checked_profile(profile), version=1, created_at=now, updated_at=now)
    _check_tier(None, made, context)
    audit = audit_entry(AuditAct.CREATE_TENANT, profile.tenant, context, **_detail(None, made))
    for _ in range(_RACES):
        present = store.profile(profile.tenant)
        if present is not None and present.is_erased:
            raise AlreadyExists(f"tenant={profile.tenant!r} was erased: its name is not used again; choose another one")
        if present is not None:
            raise AlreadyExists(f"tenant={profile.tenant!r} has a profile already; change it with set")
        if store.put(made, expected=0, audit=audit, layout=_layout(None, made, context)):
            return made
    raise _raced(profile.tenant)


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
    """The profile after an edit; a tenant without one gets one. ``reason`` and ``detail`` are told in the audit entry; without
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
        _check_tier(present, after, context)
        made = replace(after, version=present.version + 1, created_at=present.created_at or now, updated_at=now)
        audit = audit_entry(act, tenant, context, reason=reason, **_detail(present, made), **detail)
        if store.put(made, expected=present.version, audit=audit, layout=_layout(present, made, context)):
            return made
    raise _raced(tenant)


def suspend(tenant: str, reason: str | None, context: FireContext) -> TenantProfile:
    """Accept and start nothing of a tenant. Without a reason the caller's counts.

    Raises InvalidInput for the installation, Conflict, Unavailable.
    """
    if tenant.startswith(SHARED):
        remedy = "suspend single tenants, or stop the workers"
        raise InvalidInput("tenant", tenant, "cannot be suspended", remedy)
    why = reason or context.caller.reason

    def edit(profile: TenantProfile) -> TenantProfile:
        return replace(profile, state=TenantState.SUSPENDED, suspension_reason=why or profile.suspension_reason)

    return change(tenant, AuditAct.SUSPEND_TENANT, edit, context, reason=reason)


def resume(tenant: str, context: FireContext) -> TenantProfile:
    """End the suspension of a tenant, if it is suspended. Raises Conflict, Unavailable."""

    def edit(profile: TenantProfile) -> TenantProfile:
        return profile if profile.accepts else replace(profile, state=TenantState.ACTIVE, suspension_reason=None)

    return change(tenant, AuditAct.RESUME_TENANT, edit, context)


def _raced(tenant: str) -> Conflict:
    return Conflict(
        f"tenant={tenant!r}: others changed its profile, or the layout of the agenda, {_RACES} times meanwhile; try again"
    )


def _check_tier(before: TenantProfile | None, after: TenantProfile, context: FireContext) -> None:
    """Raises InvalidInput for a new tier without a profile, with which the tenant would have no limits by a slip of the pen."""
    if after.tier is None or (before is not None and before.tier == after.tier):
        return
    name = f"{SHARED}{after.tier}"
    if context.services.tenants.profile(name) is None:
        remedy = f"give it one first: `quarterjack tenants create {name!r} --limit …`"
        raise InvalidInput("tier", after.tier, "has no profile", remedy)


def _layout(
    before: TenantProfile | None, after: TenantProfile, context: FireContext
) -> tuple[AgendaLayout, AgendaLayout] | None:
    """The layout of the agenda before and after a change of a profile; None if it stays. Raises InvalidInput, Unavailable."""
    limits = after.limits
    had = NO_LIMITS if before is None else before.limits
    if (had.weight, had.agenda_shards) == (limits.weight, limits.agenda_shards):
        return None
    present = context.services.agenda.layout(fresh=True)
    layout = present.placed(after.tenant, limits.agenda_shards or 0, limits.weight or 1)
    return None if layout == present else (present, layout)


def _as_json(value: object) -> object:
    if isinstance(value, TenantLimits):
        return value.given()
    return list(value) if isinstance(value, tuple) else value if value is not None else ""


def _detail(before: TenantProfile | None, after: TenantProfile) -> dict[str, Any]:
    """What an audit entry tells: the version, and the fields that differ, as they are by now."""
    other = before or TenantProfile(tenant=after.tenant)
    told: dict[str, Any] = {"profile": after.version}
    for name in _TOLD:
        value = getattr(after, name)
        if value != getattr(other, name):
            told[name] = _as_json(value)
    return told


def reset(tenant: str, job: str | None, context: FireContext) -> list[str]:
    """Close the breaker of a job, or all of a tenant (None); the names of those that were open. Raises NotFound, Conflict, Unavailable."""
    for _ in range(_RESETS):
        before, version = read_breakers(tenant, context.services)
        if job is not None and job not in before.open:
            raise NotFound(
                f"job={job!r}: tenant {tenant!r} has no open breaker of that name; `quarterjack breakers list` shows those there are"
            )
        closed = before.open if job is None else [job]
        if not closed:
            return []
        audit = audit_entry(AuditAct.RESET_BREAKER, tenant, context, jobs=closed)
        after = before.without(job, context.clock(), actor_of(context))
        if write_breakers(tenant, before, after, version, context.services, audit):
            return closed
    raise Conflict(f"tenant={tenant!r}: workers changed its breakers {_RESETS} times meanwhile; try again")
