"""Freeze and thaw a tenant. A call that would change nothing writes nothing."""

from __future__ import annotations

from dataclasses import replace

from minutehand.domain.audit import AuditAct
from minutehand.domain.schedule import Freeze, freeze_key
from minutehand.errors import Unavailable
from minutehand.fires.acts import actor_of, line_of
from minutehand.fires.context import FAR, FireContext


def freeze(tenant: str, until: int, note: str | None, context: FireContext) -> None:
    """Start no run of a tenant before ``until`` (UTC ms). Replaces another freeze. Raises Unavailable."""
    present = _stored(tenant, context)
    if present is None or (present.until, present.note) != (until, note):
        _write(Freeze(tenant=tenant, until=until, note=note, created_at=context.clock()), AuditAct.FREEZE, context)


def thaw(tenant: str, context: FireContext) -> None:
    """End a tenant's freeze now, if there is one. Raises Unavailable."""
    present, now = _stored(tenant, context), context.clock()
    if present is not None and present.until > now:
        _write(Freeze(tenant=tenant, until=now, created_at=now), AuditAct.THAW, context)


def _stored(tenant: str, context: FireContext) -> Freeze | None:
    key = freeze_key(tenant)
    answer = context.services.schedules.revisions([key])
    if key in answer.broken:  # it holds all starts back until it is replaced
        return Freeze(tenant=tenant, until=FAR)
    if key in answer.unanswered:
        raise Unavailable(f"the freeze of {tenant!r} could not be read; call again")
    return answer.frozen.get(tenant)


def _write(wanted: Freeze, act: AuditAct, context: FireContext) -> None:
    line = line_of(act, wanted.tenant, context, reason=wanted.note, until=wanted.until)
    context.services.schedules.freeze(replace(wanted, actor=actor_of(context)), line)
