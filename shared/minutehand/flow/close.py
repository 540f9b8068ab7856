"""Pause and delete: close the current revision, then sweep. When they return, nothing of the schedule starts any more."""

from __future__ import annotations

from dataclasses import replace

from minutehand.errors import Conflict, NotFound
from minutehand.flow.create import RACES, read_revision
from minutehand.flow.ports import Clock, Record, Services
from minutehand.flow.remember import Done, Token, finish, recall
from minutehand.flow.sweep import sweep
from minutehand.model.schedule import Change, ClosedBy, Head, Revision, ScheduleState


def pause(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    note: str | None = None,
    drain: bool = False,
    expected: int | None = None,
    token: Token | None = None,
) -> Head:
    """Stop a schedule until it is resumed. Pausing again finishes what an interrupted pause left."""
    by = ClosedBy.DRAINED if drain else ClosedBy.PAUSED
    return _close(tenant, name, ScheduleState.PAUSED, by, services, clock, note, expected, token)


def delete(
    tenant: str,
    name: str,
    services: Services,
    clock: Clock,
    *,
    drain: bool = False,
    expected: int | None = None,
    token: Token | None = None,
) -> Head:
    """Remove a schedule; its runs stay in the ledger. Deleting again finishes what an interrupted delete left."""
    by = ClosedBy.DRAINED if drain else ClosedBy.DELETED
    return _close(tenant, name, ScheduleState.DELETED, by, services, clock, None, expected, token)


def _close(
    tenant: str,
    name: str,
    state: ScheduleState,
    by: ClosedBy,
    services: Services,
    clock: Clock,
    note: str | None,
    expected: int | None,
    token: Token | None,
) -> Head:
    for _ in range(RACES):
        head = services.schedules.head(tenant, name)
        memory = recall(token, services, clock())
        if memory.first is not None:
            finish(memory.first, services, clock)
            return memory.first.head
        if head is None or (head.state is ScheduleState.DELETED and state is not ScheduleState.DELETED):
            raise NotFound(
                f"name={name!r}: tenant {tenant!r} has no schedule of that name; list_schedules() shows those it has"
            )
        if expected is not None and head.revision != expected:
            raise Conflict(
                f"name={name!r}: you saw revision {expected}, but revision {head.revision} is current; read it again"
            )
        revision = read_revision(services, head)
        closed = _closed(revision, by, clock())
        after = replace(head, state=state, version=head.version + 1, updated_at=clock(), note=note or head.note)
        unchanged = head.state is state and closed == revision
        done = Done(head=head if unchanged else after, change=Change.UNCHANGED if unchanged else Change.UPDATED)
        if _write(done, head.version, None if closed == revision else closed, memory.record(done), services):
            sweep(closed, services, clock)
            return done.head
    raise Conflict(f"name={name!r}: others changed it {RACES} times meanwhile; try again")


def _write(done: Done, expected: int, closed: Revision | None, token: Record | None, services: Services) -> bool:
    """Whether it was written; no if somebody else was first."""
    if done.change is Change.UNCHANGED:
        return token is None or services.records.write(token)
    return services.schedules.close(done.head, expected=expected, revision=closed, token=token)


def _closed(revision: Revision, by: ClosedBy, now: int) -> Revision:
    """The revision with its end set, once; only a drain may still become a full stop."""
    if revision.active_until is None:
        return replace(revision, active_until=max(now, revision.active_from), closed_by=by)
    if revision.closed_by is ClosedBy.DRAINED and by is not ClosedBy.DRAINED:
        return replace(revision, closed_by=by)
    return revision
