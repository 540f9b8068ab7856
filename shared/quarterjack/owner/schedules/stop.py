"""Pause and delete: close the current revision, then withdraw its runs. A timer ends a pause at its time. Tags change the head alone.

The transaction of a pause with an end puts an agenda entry at that end, which the head names in ``resume_at``. The entry ends the pause
if the head is still PAUSED until that instant; a later pause, resume or deletion makes the entry unneeded. It is removed only after the
resume is written. Where the resumed revision begins:

    paused                                 resume_at                    now, if the ticker is late
    ───┼───────────────────────────────────────┼───────────────────────────┼────────►
       (  automatic_backfill: fires from here  (  otherwise from here      )
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from quarterjack.domain.audit import AuditAct
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.schedule import ChangeKind, ClosedBy, Head, Revision, ScheduleState
from quarterjack.domain.times import MINUTE, from_ms
from quarterjack.errors import Conflict, ExpressionError, InvalidInput, NotFound
from quarterjack.fires.audit_entry import actor_of, audit_entry
from quarterjack.fires.context import GOES, STAYS, FireContext, Handled, revision_of
from quarterjack.fires.plan import end_of
from quarterjack.fires.withdraw import withdraw
from quarterjack.owner.schedules.arm import resume
from quarterjack.owner.schedules.client_tokens import RACES, ChangeResult, ScheduleCall, change
from quarterjack.stores.records import Record
from quarterjack.values import replace, value

log = logging.getLogger(__name__)

EARLY = MINUTE  # a ticker may end a pause so long before its end, so that fires right after it start in time
Tags = Mapping[str, str | None]  # None removes one


def pause(
    call: ScheduleCall,
    context: FireContext,
    *,
    reason: str | None = None,
    until: int | None = None,
    drain: bool = False,
    at: int | None = None,
) -> Head:
    """Stop a schedule until it is resumed, by its owner or at ``until`` (UTC ms). Without a reason the caller's counts.

    Pausing again finishes an interrupted pause, and sets its end anew. With ``drain`` its fires may end ``at`` an instant ahead (UTC ms):
    the chain goes on until then, and a resume before then begins there.
    """
    by = ClosedBy.DRAINED if drain else ClosedBy.PAUSED
    stop = _Stop(
        state=ScheduleState.PAUSED,
        by=by,
        reason=reason or context.caller.reason,
        resume_at=until,
        at=at if drain else None,
    )
    return _close(call, stop, context)


def delete(call: ScheduleCall, context: FireContext, *, drain: bool = False) -> Head:
    """Remove a schedule; its runs stay in the ledger. Deleting again finishes an interrupted delete."""
    by = ClosedBy.DRAINED if drain else ClosedBy.DELETED
    return _close(call, _Stop(state=ScheduleState.DELETED, by=by), context)


@value(kw_only=True)
class _Stop:
    """How to stop a schedule."""

    state: ScheduleState  # of the head afterwards
    by: ClosedBy  # the reason of the revision's end
    reason: str | None = None  # None keeps the present reason
    resume_at: int | None = None  # UTC ms at which the pause ends
    at: int | None = None  # UTC ms at which its fires end; None: now

    @property
    def act(self) -> AuditAct:
        return AuditAct.PAUSE if self.state is ScheduleState.PAUSED else AuditAct.DELETE

    def done(self, head: Head, now: int, find_actor: Callable[[], str], *, changed: bool) -> ChangeResult:
        """The result of the stop; ``changed``: the end of the revision changes."""
        if head.state is self.state and head.resume_at == self.resume_at and not changed:
            return ChangeResult(head=head, change=ChangeKind.UNCHANGED)
        actor = find_actor()
        over = replace(head, state=self.state, resume_at=self.resume_at, reason=self.reason or head.reason)
        if head.state is not self.state:  # whoever sets another end of a pause has not begun it
            began = (now, actor) if self.state is ScheduleState.PAUSED else (None, None)
            over = replace(over, paused_at=began[0], paused_by=began[1])
        over = replace(over, version=head.version + 1, updated_at=now, actor=actor)
        return ChangeResult(head=over, change=ChangeKind.UPDATED)


def _close(call: ScheduleCall, stop: _Stop, context: FireContext) -> Head:
    services = context.services

    def attempt(head: Head | None, remember: Callable[[ChangeResult], Record | None]) -> ChangeResult | None:
        seen = call.check(head, deleted=stop.state is ScheduleState.DELETED)
        revision = revision_of(seen, services)
        if stop.at is not None and stop.at <= context.clock():
            raise InvalidInput("at", from_ms(stop.at), "has passed", "give an instant ahead")
        closed = _closed(revision, stop.by, context.clock(), stop.at)
        done = stop.done(seen, context.clock(), partial(actor_of, context), changed=closed != revision)
        if done.change is ChangeKind.UNCHANGED:
            token = remember(done)
            written = token is None or services.records.write(token)
        else:
            end, ended = resume_entry(done.head, revision.shard), None if closed == revision else closed
            audit = audit_entry(stop.act, seen.owner, context, before=seen, after=done.head, reason=stop.reason)
            written = services.schedules.close(
                done.head, expected=seen.version, revision=ended, entry=end, token=remember(done), audit=audit
            )
        if not written:
            return None
        withdraw(closed, context)
        return done

    return change(call, context, attempt).head


def _closed(revision: Revision, by: ClosedBy, now: int, at: int | None) -> Revision:
    """The revision with its end set; an end stays, but a drain may become a full stop, at once if its end is ahead."""
    if revision.active_until is None:
        return replace(revision, active_until=max(at or now, revision.active_from), closed_by=by)
    if revision.closed_by is ClosedBy.DRAINED and by is not ClosedBy.DRAINED:
        end = min(revision.active_until, max(now, revision.active_from))
        return replace(revision, active_until=end, closed_by=by)
    return revision


def resume_entry(head: Head, shard: int) -> AgendaEntry | None:
    """The entry that ends a pause; None for one that has no end."""
    if head.state is not ScheduleState.PAUSED or head.resume_at is None:
        return None
    return AgendaEntry(shard=shard, due=head.resume_at, kind=EntryKind.RESUME, id=head.owner)


class _NoLongerNeeded(Exception):
    """The head has moved: another change was first."""


def end_pause(entry: AgendaEntry, context: FireContext) -> Handled:
    """Resume a schedule whose pause ends. Raises Unavailable, Conflict."""
    services = context.services
    tenant, _, name = entry.id.partition("/")
    head = services.schedules.head(tenant, name)
    if head is None or not _means(head, entry):
        return GOES
    options = revision_of(head, services).definition.options
    early = 0 if options.automatic_backfill else EARLY  # its fires lie in the pause, and must not start in it
    if entry.due > context.clock() + early:
        return STAYS

    def allow(now: Head | None) -> None:
        if now is None or not _means(now, entry):
            raise _NoLongerNeeded

    owners = FireContext(services=services, clock=context.clock)  # without the tick's limits
    try:
        resume(ScheduleCall(tenant=tenant, name=name), owners, early=early, allow=allow)
    except _NoLongerNeeded:
        return GOES
    except ExpressionError:  # the expression ended during the pause
        over = replace(
            head,
            state=end_of(options),
            resume_at=None,
            paused_at=None,
            paused_by=None,
            version=head.version + 1,
            updated_at=context.clock(),
            actor=actor_of(context),
        )
        audit = audit_entry(AuditAct.COMPLETE, head.owner, context, before=head, after=over)
        return Handled(may_go=services.schedules.close(over, expected=head.version, revision=None, audit=audit))
    log.info("schedule.resumed", extra={"tenant": tenant, "schedule": name})
    return GOES


def _means(head: Head, entry: AgendaEntry) -> bool:
    return head.state is ScheduleState.PAUSED and head.resume_at == entry.due


def retag(
    seen: Head, tags: Tags, context: FireContext, permit: Callable[[Head | None], None] = lambda head: None
) -> Head:
    """Change some tags of a schedule that was just read; no revision is made. Raises NotFound, Conflict, Unavailable, as ``permit``."""
    head: Head | None = seen
    for _ in range(RACES):
        permit(head)  # it may have got another job
        if head is None or head.state is ScheduleState.DELETED:
            raise NotFound(f"name={seen.name!r}: it was deleted meanwhile")
        after = retagged(head.tags, tags)
        if after == head.tags:
            return head
        actor, now = actor_of(context), context.clock()
        changed = replace(head, tags=after, version=head.version + 1, updated_at=now, actor=actor)
        audit = audit_entry(AuditAct.RETAG, head.owner, context, before=head, after=changed)
        if context.services.schedules.close(changed, expected=head.version, revision=None, audit=audit):
            return changed
        head = context.services.schedules.head(seen.tenant, seen.name)
    raise Conflict(f"name={seen.name!r}: others changed it {RACES} times meanwhile; try again")


def retagged(present: Mapping[str, str], tags: Tags) -> dict[str, str]:
    """The present tags after a change."""
    return {key: value for key, value in {**present, **tags}.items() if value is not None}
