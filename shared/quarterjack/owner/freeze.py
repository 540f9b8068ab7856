"""Freeze and thaw a tenant, and read its freeze. A call that would change nothing writes nothing."""

from __future__ import annotations

from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.schedule import Freeze, freeze_key
from quarterjack.errors import Unavailable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FAR, FireContext
from quarterjack.ports.services import Clock, Services
from quarterjack.values import replace


def freeze(tenant: str, until: int, reason: str | None, context: FireContext) -> None:
    """Start no run of a tenant before ``until`` (UTC ms). Replaces another freeze. Raises Unavailable.

    Without a reason the caller's counts.
    """
    present, reason = _stored(tenant, context), reason or context.caller.reason
    if present is None or (present.until, present.reason) != (until, reason):
        wanted = Freeze(tenant=tenant, until=until, reason=reason, created_at=context.clock())
        _write(wanted, AuditAct.FREEZE, present, context)


def thaw(tenant: str, context: FireContext) -> None:
    """End a tenant's freeze now, if there is one. Raises Unavailable."""
    present, now = _stored(tenant, context), context.clock()
    if present is not None and present.until > now:
        _write(Freeze(tenant=tenant, until=now, created_at=now), AuditAct.THAW, present, context)


def read_freeze(tenant: str, services: Services, clock: Clock) -> Freeze | None:
    """A tenant's freeze, if it is not over. Raises Unavailable, and Unreadable for a freeze that cannot be read."""
    found, problem = _read(tenant, services)
    if problem is not None:
        raise problem
    return found if found is not None and found.until > clock() else None


def _stored(tenant: str, context: FireContext) -> Freeze | None:
    """The freeze that a call replaces. One that cannot be read delays all starts until it is replaced."""
    found, problem = _read(tenant, context.services)
    return found if problem is None else Freeze(tenant=tenant, until=FAR)


def _read(tenant: str, services: Services) -> tuple[Freeze | None, Exception | None]:
    """The freeze that is stored, and why it cannot be read. Raises Unavailable."""
    key = freeze_key(tenant)
    answer = services.schedules.revisions([key])
    if key in answer.unanswered:
        raise Unavailable(f"the freeze of tenant {tenant!r} could not be read; try again")
    return answer.frozen.get(tenant), answer.broken.get(key)


def _write(wanted: Freeze, act: AuditAct, present: Freeze | None, context: FireContext) -> None:
    """Write a freeze in place of the present one; the audit entry tells since when that one, if it still holds, has held the runs."""
    detail: dict[str, Any] = {"until": wanted.until}
    if present is not None and 0 < present.created_at < wanted.created_at < present.until:
        detail["since"] = present.created_at
    audit = audit_entry(act, wanted.tenant, context, reason=wanted.reason, **detail)
    context.services.schedules.freeze(replace(wanted, actor=actor_of(context)), audit)
