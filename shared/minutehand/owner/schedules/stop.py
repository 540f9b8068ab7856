"""Pause and delete: close the current revision, then withdraw its runs. A timer ends a pause at its time. Tags change the head alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from minutehand.domain.run import AgendaEntry
from minutehand.domain.schedule import ChangeKind, ClosedBy, Head, Revision, ScheduleState
from minutehand.errors import Conflict, ExpressionError, NotFound
from minutehand.fires.chain import TickCounts
from minutehand.fires.context import FireContext, check_seen, must_exist, revision_of
from minutehand.fires.plan import end_of
from minutehand.fires.withdraw import withdraw
from minutehand.owner.schedules.arm import RACES, resume
from minutehand.owner.schedules.client_tokens import ChangeResult, ClientToken, finish, recall
from minutehand.owner.schedules.pauses import EARLY, resume_entry
from minutehand.ports.records import Record
from minutehand.ports.services import Clock, Services


def pause(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    note: str | None = None,
    until: int | None = None,
    drain: bool = False,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> Head:
    """Stop a schedule until it is resumed, by its owner or at ``until`` (UTC ms).

    Pausing again finishes an interrupted pause, and sets its end anew.
    """
    by = ClosedBy.DRAINED if drain else ClosedBy.PAUSED
    stop = _Stop(state=ScheduleState.PAUSED, by=by, note=note, resume_at=until)
    return _close(tenant, name, stop, services, clock, expected, token)


def delete(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    drain: bool = False,
    expected: int | None = None,
    token: ClientToken | None = None,
) -> Head:
    """Remove a schedule; its runs stay in the ledger. Deleting again finishes an interrupted delete."""
    by = ClosedBy.DRAINED if drain else ClosedBy.DELETED
    stop = _Stop(state=ScheduleState.DELETED, by=by)
    return _close(tenant, name, stop, services, clock, expected, token)


@dataclass(frozen=True, kw_only=True)
class _Stop:
    """How to stop a schedule."""

    state: ScheduleState  # of the head afterwards
    by: ClosedBy  # the reason of the revision's end
    note: str | None = None  # None keeps the present note
    resume_at: int | None = None  # UTC ms at which the pause ends

    def done(self, head: Head, now: int, *, changed: bool) -> ChangeResult:
        """The result of the stop; ``changed``: the end of the revision changes."""
        if head.state is self.state and head.resume_at == self.resume_at and not changed:
            return ChangeResult(head=head, change=ChangeKind.UNCHANGED)
        over = replace(head, state=self.state, resume_at=self.resume_at, note=self.note or head.note)
        return ChangeResult(head=replace(over, version=head.version + 1, updated_at=now), change=ChangeKind.UPDATED)


def _close(
    tenant: str,
    name: str,
    stop: _Stop,
    services: Services,
    clock: Clock,
    expected: int | None,
    token: ClientToken | None,
) -> Head:
    for _ in range(RACES):
        head = services.schedules.head(tenant, name)
        repeated = recall(token, services, clock())
        if repeated.first is not None:
            finish(repeated.first, services, clock)
            return repeated.first.head
        head = must_exist(tenant, name, head, deleted=stop.state is ScheduleState.DELETED)
        check_seen(head, expected)
        revision = revision_of(head, services)
        closed = _closed(revision, stop.by, clock())
        done = stop.done(head, clock(), changed=closed != revision)
        if _write(done, head.version, revision, closed, repeated.record(done), services):
            withdraw(closed, services, clock)
            return done.head
    raise Conflict(f"name={name!r}: others changed it {RACES} times meanwhile; try again")


def _write(
    done: ChangeResult, expected: int, revision: Revision, closed: Revision, token: Record | None, services: Services
) -> bool:
    """Whether it was written; False if another change was first."""
    if done.change is ChangeKind.UNCHANGED:
        return token is None or services.records.write(token)
    return services.schedules.close(
        done.head,
        expected=expected,
        revision=None if closed == revision else closed,
        entry=resume_entry(done.head, revision.shard),
        token=token,
    )


def _closed(revision: Revision, by: ClosedBy, now: int) -> Revision:
    """The revision with its end set; an end stays, but a drain may become a full stop."""
    if revision.active_until is None:
        return replace(revision, active_until=max(now, revision.active_from), closed_by=by)
    if revision.closed_by is ClosedBy.DRAINED and by is not ClosedBy.DRAINED:
        return replace(revision, closed_by=by)
    return revision


log = logging.getLogger(__name__)


class _MootError(Exception):
    """The head has moved: another change was first."""


def end_pause(entry: AgendaEntry, context: FireContext, counts: TickCounts) -> bool:
    """Resume a schedule whose pause ends. True when the entry may go. Raises Unavailable, Conflict."""
    del counts
    services, clock = context.services, context.clock
    tenant, _, name = entry.id.partition("/")
    head = services.schedules.head(tenant, name)
    if head is None or not _means(head, entry):
        return True
    options = revision_of(head, services).definition.options
    early = 0 if options.automatic_backfill else EARLY  # its fires lie in the pause, and must not start in it
    if entry.due > clock() + early:
        return False

    def allow(now: Head | None) -> None:
        if now is None or not _means(now, entry):
            raise _MootError

    try:
        resume(tenant, name, services, clock, early=early, allow=allow)
    except _MootError:
        return True
    except ExpressionError:  # the expression ended during the pause
        return _complete(head, end_of(options), services, clock)
    log.info("schedule.resumed", extra={"tenant": tenant, "schedule": name})
    return True


def _means(head: Head, entry: AgendaEntry) -> bool:
    return head.state is ScheduleState.PAUSED and head.resume_at == entry.due


def _complete(head: Head, state: ScheduleState, services: Services, clock: Clock) -> bool:
    over = replace(head, state=state, resume_at=None, version=head.version + 1, updated_at=clock())
    return services.schedules.close(over, expected=head.version, revision=None)


Tags = Mapping[str, str | None]  # None removes one


def retag(seen: Head, tags: Tags, services: Services, clock: Clock) -> Head:
    """Change some tags of a schedule that was just read. Raises NotFound, Conflict, Unavailable."""
    head: Head | None = seen
    for _ in range(RACES):
        if head is None or head.state is ScheduleState.DELETED:
            raise NotFound(f"name={seen.name!r}: it was deleted meanwhile")
        after = retagged(head.tags, tags)
        if after == head.tags:
            return head
        changed = replace(head, tags=after, version=head.version + 1, updated_at=clock())
        if services.schedules.close(changed, expected=head.version, revision=None):
            return changed
        head = services.schedules.head(seen.tenant, seen.name)
    raise Conflict(f"name={seen.name!r}: others changed it {RACES} times meanwhile; try again")


def retagged(present: Mapping[str, str], tags: Tags) -> dict[str, str]:
    """The present tags after a change."""
    return {key: value for key, value in {**present, **tags}.items() if value is not None}
