"""Pause and delete: close the current revision, then withdraw its runs. When they return, nothing of the schedule starts any more.

A pause with an end puts the agenda entry that ends it in the same transaction: see ``pauses``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from minutehand.domain.schedule import ChangeKind, ClosedBy, Head, Revision, ScheduleState
from minutehand.errors import Conflict
from minutehand.fires.current import check_seen, must_exist, revision_of
from minutehand.fires.withdraw import withdraw
from minutehand.owner.schedules.arm import RACES
from minutehand.owner.schedules.client_tokens import ChangeResult, ClientToken, finish, recall
from minutehand.owner.schedules.pauses import resume_entry
from minutehand.ports.clock import Clock
from minutehand.ports.records import Record
from minutehand.ports.services import Services


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
