"""Freeze and thaw a tenant or parts of its runs, and read its freeze. A call that would change nothing writes nothing.

    a tenant     its messages come back until the freeze has ended
    a part       the runs of a job, a queue or a flow's key wait in a wait queue, and start at a rate when the freeze has ended

Both are one item, which workers read with the revisions of a batch; its version decides between acts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.schedule import Freeze, FrozenKind, FrozenPart, freeze_key
from quarterjack.domain.times import HOUR, MINUTE
from quarterjack.errors import Conflict, NotFound, Unavailable
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FAR, FireContext, next_look
from quarterjack.ports.services import Clock, Services
from quarterjack.values import replace

_TRIES = 5  # writes that other acts may win
_PAGE, _PAGES = 1_000, 100  # entries of a wait queue that are counted
_REST = HOUR  # ms after the end of a part's freeze in which what waited starts at its rate, where nobody counted it


def freeze(tenant: str, until: int, reason: str | None, context: FireContext) -> None:
    """Start no run of a tenant before ``until`` (UTC ms). Replaces another freeze. Raises Conflict, Unavailable.

    Without a reason the caller's counts.
    """
    reason = reason or context.caller.reason

    def edit(present: Freeze | None) -> Freeze | None:
        if present is not None and (present.until, present.reason) == (until, reason):
            return None
        return _of_all(tenant, until, reason, present, context)

    _change(tenant, AuditAct.FREEZE, edit, context)


def thaw(tenant: str, context: FireContext) -> None:
    """End a tenant's freeze now, if there is one; parts stay frozen. Raises Conflict, Unavailable."""

    def edit(present: Freeze | None) -> Freeze | None:
        if present is None or present.until <= context.clock():
            return None
        return _of_all(tenant, context.clock(), None, present, context)

    _change(tenant, AuditAct.THAW, edit, context)


def _of_all(tenant: str, until: int, reason: str | None, present: Freeze | None, context: FireContext) -> Freeze:
    return Freeze(
        tenant=tenant,
        until=until,
        reason=reason,
        created_at=context.clock(),
        actor=actor_of(context),
        parts=() if present is None else present.parts,
    )


def freeze_part(tenant: str, part: FrozenPart, context: FireContext) -> None:
    """Start no run of a part before its end. Replaces another freeze of the same part. Raises Conflict, Unavailable."""
    wanted = replace(part, actor=actor_of(context), reason=part.reason or context.caller.reason)
    detail = {"part": part.label, "until": part.until}
    _change(tenant, AuditAct.FREEZE, lambda present: _with_part(tenant, wanted, present, context), context, **detail)


def thaw_part(tenant: str, name: tuple[FrozenKind, str], per_minute: int, context: FireContext, *, said: str) -> int:
    """End the freeze of a part now; what waits starts at a rate, in its order. Returns how many runs wait. ``said``: the part, as given.

    Raises NotFound (it is not frozen), Conflict, Unavailable.
    """
    from quarterjack.fires.flow.wait_queue import change_cap, put_queue_timer  # noqa: PLC0415 (who thaws nothing loads neither)
    from quarterjack.state.tenants.caps import frozen_cap  # noqa: PLC0415

    services, clock = context.services, context.clock
    present = _stored(tenant, context)
    found = None if present is None else next((one for one in present.parts_at(clock()) if one.name == name), None)
    if found is None:
        raise NotFound(f"{name[0]}={said!r}: it is not frozen; list what holds runs")
    waiting, now = count_waiting(tenant, found, services), clock()
    rest = now + math.ceil(waiting * MINUTE / per_minute * 1.25) + _REST
    ended = replace(found, since=now, until=now, per_minute=per_minute, rest_until=rest)
    detail = {"part": found.label, "per_minute": per_minute}
    _change(tenant, AuditAct.THAW, lambda present: _with_part(tenant, ended, present, context), context, **detail)
    cap = frozen_cap(tenant, ended)
    put_queue_timer(cap, services, next_look(clock()), clock())
    change_cap(cap, lambda permits: permits.under(cap).enqueued(), services, clock, name=cap.id)
    return waiting


def count_waiting(tenant: str, part: FrozenPart, services: Services) -> int:
    """How many runs of a part wait, up to 100,000. Raises Unavailable."""
    from quarterjack.state.tenants.caps import frozen_cap  # noqa: PLC0415 (where nothing is frozen it is not loaded)

    queue, number, after = frozen_cap(tenant, part).wait_queue, 0, None
    for _ in range(_PAGES):
        page = services.agenda.due(queue, upto=FAR, after=after, limit=_PAGE)
        number, after = number + len(page.entries), page.last
        if after is None:
            break
    return number


def part_of(kind: FrozenKind, value: str, label: str, *, until: int, reason: str | None, now: int) -> FrozenPart:
    """A part that is frozen from now on."""
    return FrozenPart(
        kind=kind,
        value=value,
        label=label,
        since=now,
        until=until,
        per_minute=6_000,
        rest_until=until + _REST,
        reason=reason,
    )


def _with_part(tenant: str, part: FrozenPart, present: Freeze | None, context: FireContext) -> Freeze:
    now, others = context.clock(), present or Freeze(tenant=tenant, until=0)
    left = tuple(one for one in others.parts_at(now) if one.name != part.name)
    return replace(others, parts=(*left, part))


def read_freeze(tenant: str, services: Services, clock: Clock) -> Freeze | None:
    """A tenant's freeze, if it is not over. Raises Unavailable, and Unreadable for a freeze that cannot be read."""
    found = read_stored(tenant, services)
    return found if found is not None and found.until > clock() else None


def read_stored(tenant: str, services: Services) -> Freeze | None:
    """A tenant's freeze with the parts that are frozen, be they over or not. Raises as ``read_freeze``."""
    found, problem = _read(tenant, services)
    if problem is not None:
        raise problem
    return found


def _stored(tenant: str, context: FireContext) -> Freeze | None:
    """The freeze that a call replaces. One that cannot be read delays all starts until it is replaced, whatever is stored then."""
    found, problem = _read(tenant, context.services)
    return found if problem is None else Freeze(tenant=tenant, until=FAR, version=-1)


def _read(tenant: str, services: Services) -> tuple[Freeze | None, Exception | None]:
    """The freeze that is stored, and why it cannot be read. Raises Unavailable."""
    key = freeze_key(tenant)
    answer = services.schedules.revisions([key])
    if key in answer.unanswered:
        raise Unavailable(f"the freeze of tenant {tenant!r} could not be read; try again")
    return answer.frozen.get(tenant), answer.broken.get(key)


def _change(
    tenant: str,
    act: AuditAct,
    edit: Callable[[Freeze | None], Freeze | None],
    context: FireContext,
    **detail: Any,
) -> None:
    """Write what ``edit`` makes of the present freeze, unless that is None; the audit entry tells since when that one has held the runs."""
    for _ in range(_TRIES):
        present = _stored(tenant, context)
        wanted = edit(present)
        if wanted is None:
            return
        said = detail or {"until": wanted.until}
        if not detail and present is not None and 0 < present.created_at < wanted.created_at < present.until:
            said["since"] = present.created_at
        audit = audit_entry(act, tenant, context, reason=wanted.reason if not detail else None, **said)
        version = 0 if present is None else present.version
        if context.services.schedules.freeze(replace(wanted, version=version + 1), audit):
            return
    raise Conflict(f"the freeze of tenant {tenant!r} was changed by others {_TRIES} times meanwhile; try again")
