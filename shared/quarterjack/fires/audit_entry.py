"""The audit entry of an act: who, by which way, what, on what. It is written in the transaction of the act's deciding write."""

from __future__ import annotations

import secrets
from itertools import count
from typing import Any

from quarterjack.domain.audit import AuditAct, AuditEntryRow
from quarterjack.domain.schedule import Head, Revision
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import DAY
from quarterjack.fires.context import FireContext
from quarterjack.values import replace

_TURNS = 1 << 24
# The entries of one process go through the gates in turn, so that acts at the same time do not meet at one.
_turns = count(secrets.randbelow(_TURNS))


def actor_of(context: FireContext) -> str:
    """Who acts: the claimed actor or the role, else the IAM identity, which the first act of a process resolves."""
    return context.caller.actor or context.services.identity()


def by_role(context: FireContext, name: str) -> FireContext:
    """The context of what the system does by itself, whoever set it off; an act of a role stays that role's."""
    return context if context.caller.is_system else replace(context, caller=role(name))


def audit_entry(
    act: AuditAct,
    target: str,
    context: FireContext,
    *,
    before: Head | None = None,
    after: Head | None = None,
    reason: str | None = None,
    **detail: Any,
) -> AuditEntryRow:
    """The entry of an act on ``target``, now. ``before`` and ``after``: the schedule's head, if the act changes it. Raises Unavailable."""
    caller, now, tenant = context.caller, context.clock(), target.partition("/")[0]
    context.services.audit.register(tenant, now // DAY)
    return AuditEntryRow(
        tenant=tenant,
        at=now,
        id=f"{next(_turns) % _TURNS:06x}{secrets.token_hex(5)}",
        call=caller.call or secrets.token_hex(8),
        act=act,
        target=target,
        actor=actor_of(context),
        identity=None if caller.actor is None or caller.is_system else context.services.identity(),
        via=caller.via,
        before=None if before is None else before.revision,
        after=None if after is None else after.revision,
        version=None if after is None else after.version,
        reason="; ".join(dict.fromkeys(filter(None, (caller.reason, reason)))) or None,
        detail={name: value for name, value in detail.items() if value is not None},
        salt=secrets.token_hex(16),
    )


def completion_entry(revision: Revision, context: FireContext) -> AuditEntryRow:
    """The entry of the end of a schedule without a further fire. A ticker finds it, or the owner's call that claims the last fire."""
    entry = audit_entry(AuditAct.COMPLETE, revision.owner, by_role(context, "ticker"))
    return replace(entry, before=revision.number, after=revision.number)
