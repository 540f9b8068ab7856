"""Put a schedule of a dump into an installation, in one transaction: head, revision, first agenda entry and audit entry.

    there   ──o────o────o────│ ended at T
    here                     │────o────o────   active_from = T, the same revision's rule, seed and phase

A schedule that does not start arrives paused, and its fires end where those there do. If it was active there, its pause has the reason
LOADED, so that a later load with a start finds it; once somebody has resumed or paused it otherwise, it is the owner's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.message import INLINE_PAYLOAD
from quarterjack.domain.payload import size
from quarterjack.domain.run import AgendaEntry
from quarterjack.domain.schedule import ClosedBy, Definition, Head, Revision, ScheduleState
from quarterjack.errors import Conflict
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import FireContext
from quarterjack.fires.plan import end_of, first_entry, success_check
from quarterjack.moving.schedules import ScheduleItem
from quarterjack.owner.limits import arming, put_payload
from quarterjack.owner.schedules.arm import ScheduleSpec, new_head, send_first
from quarterjack.owner.schedules.stop import resume_entry
from quarterjack.timing import pin
from quarterjack.values import replace

LOADED = "loaded from a dump, and not started"


def arrive(item: ScheduleItem, there: Head | None, start: int | None, context: FireContext) -> Head:
    """The head that was written. ``there`` is what the caller has read here: none, deleted, or paused as LOADED.

    Raises Conflict (it was changed meanwhile), ExpressionError (by hand, and without a fire to come), LimitExceeded, Unavailable.
    """
    services, now = context.services, context.clock()
    is_new = there is None or there.state is ScheduleState.DELETED
    revision, entry = _begun(item, there, start, context)
    definition = revision.definition
    spec = ScheduleSpec(
        definition=_unchanged(definition), description=item.description, tags=item.tags, managed_by=item.managed_by
    )
    head = new_head(spec, None, there, revision, now, stays_paused=revision.active_until is not None)
    if entry is None and revision.active_until is None:
        head = replace(
            head, state=ScheduleState.COMPLETED if item.state is ScheduleState.COMPLETED else end_of(definition.options)
        )
    head = replace(head, created_at=item.created_at or now, actor=actor_of(context), **_pause(item, head, now, context))
    written = services.schedules.arm(
        head,
        expected=0 if there is None else there.version,
        previous=None,
        revision=replace(revision, actor=head.actor),
        entry=resume_entry(head, revision.shard) if head.state is ScheduleState.PAUSED else entry,
        expect=success_check(revision, now) if head.state is ScheduleState.ACTIVE else None,
        usage=arming(item.tenant, definition.rule, None if is_new else definition.rule, context, is_new=is_new),
        audit=audit_entry(AuditAct.LOAD, item.owner, context, before=there, after=head),
    )
    if not written:
        raise Conflict(f"name={item.name!r}: somebody changed it meanwhile; load again")
    send_first(entry, context)
    return head


def begins_at(item: ScheduleItem, start: int | None) -> int | None:
    """The instant (UTC ms, exclusive) from which it fires here; None: it arrives paused."""
    if start is None or not item.goes_on(start):
        return None
    return max(start, item.active_from or 0) if item.state is ScheduleState.ACTIVE else start


def may_start(item: ScheduleItem, there: Head, revision: Revision) -> bool:
    """Whether a schedule is here as it was loaded, paused, and nobody has changed or resumed it since."""
    if there.state is not ScheduleState.PAUSED or revision.active_from != revision.active_until:
        return False
    return there.reason == LOADED or revision.active_until == item.ended_at


def _begun(
    item: ScheduleItem, there: Head | None, start: int | None, context: FireContext
) -> tuple[Revision, AgendaEntry | None]:
    """The revision, and the first entry of its chain; None: it has none."""
    now, begin = context.clock(), begins_at(item, start)
    is_over = item.state is ScheduleState.COMPLETED and begin is None
    end = None if begin is not None or is_over else item.ended_at or now
    begin = begin if begin is not None else item.active_from or now if is_over else end or now
    definition = _stored(item, context)
    if not item.is_pinned and not is_over:
        rule = pin(definition.rule, anchor=begin, key=item.owner, seed=uuid.uuid4().hex, since=begin)
        definition = replace(definition, rule=rule)
    revision = Revision(
        tenant=item.tenant,
        name=item.name,
        number=max(item.revision, 1 if there is None else there.revision + 1),
        shard=context.services.agenda.layout().shard_of(item.owner),
        definition=definition,
        active_from=begin,
        anchor=item.counts_from,
        active_until=end,
        closed_by=None if end is None else ClosedBy.PAUSED,
    )
    return revision, None if end is not None or is_over else first_entry(revision)


def _pause(item: ScheduleItem, head: Head, now: int, context: FireContext) -> Mapping[str, Any]:
    """What the head says of its pause."""
    if head.state is not ScheduleState.PAUSED:
        return {}
    if item.state is ScheduleState.PAUSED:
        names = ("reason", "resume_at", "paused_at", "paused_by")
        return {name: getattr(item, name) for name in names}
    return {"reason": LOADED, "paused_at": now, "paused_by": actor_of(context)}


def _stored(item: ScheduleItem, context: FireContext) -> Definition:
    """The definition with a large payload in the bucket."""
    text = item.definition.payload or "null"
    if size(text) <= INLINE_PAYLOAD:
        return item.definition
    return replace(item.definition, payload=None, payload_ref=put_payload(item.owner, text, context))


def _unchanged(definition: Definition) -> Callable[[Definition | None], Definition]:
    return lambda present: definition
