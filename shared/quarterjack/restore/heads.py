"""Which of a schedule's two rows is the younger one, and what the schedule was: decided from head and revisions. Pure.

head's number    newest revision    the schedule
the same         open, closed       as the younger row says: a revision is closed once, and with its head
greater          older              as the head says; the definition is that of the newest revision: the change to it is lost
smaller          younger            as the revision says
no head          any                likewise
any              none               its definition is lost: DELETED
"""

from __future__ import annotations

from collections.abc import Sequence

from quarterjack.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from quarterjack.values import value

_AFTER = {
    ClosedBy.PAUSED: ScheduleState.PAUSED,
    ClosedBy.DRAINED: ScheduleState.PAUSED,
    ClosedBy.DELETED: ScheduleState.DELETED,
}


@value(kw_only=True)
class JoinedSchedule:
    """A schedule from its two rows."""

    state: ScheduleState  # at the restored time, or later
    ended: int | None  # UTC ms at which its newest revision was closed; None: it is open
    why: str = ""  # what does not fit; empty: the rows fit
    again: int | None = None  # UTC ms at which a pause ended by itself since; None: there was none


def joined(head: Head | None, newest: Revision, until: int, last: int) -> JoinedSchedule:
    """``until``: UTC ms at which the restore began: a pause that ends before it is over. ``last``: the greatest number of a revision."""
    state, why = _state_of(head, newest, last)
    ended = newest.active_until
    if ended is None and state in (ScheduleState.PAUSED, ScheduleState.DELETED) and head is not None:
        ended = max(head.paused_at or head.updated_at, newest.active_from)
    if state is ScheduleState.PAUSED and head is not None and head.state is state:
        again = head.resume_at
        if again is not None and again <= until:
            return JoinedSchedule(state=ScheduleState.ACTIVE, ended=ended, why="its pause is over", again=again)
    return JoinedSchedule(state=state, ended=ended, why=why)


def _state_of(  # noqa: PLR0911 (a table of cases)
    head: Head | None, newest: Revision, last: int
) -> tuple[ScheduleState, str]:
    by_revision = (
        ScheduleState.ACTIVE if newest.closed_by is None else _AFTER.get(newest.closed_by, ScheduleState.ACTIVE)
    )
    if head is None:
        return by_revision, f"its head is missing: it is as revision {newest.number} was"
    if head.state is ScheduleState.DELETED and newest.active_until is not None and head.revision >= last:
        return head.state, ""
    if last > newest.number:
        return head.state, f"revision {last} is missing: its definition is that of revision {newest.number}"
    if head.revision < newest.number:
        return by_revision, f"its head is of revision {head.revision}: it is as revision {newest.number} was"
    is_open = newest.active_until is None
    if head.state is ScheduleState.ACTIVE and not is_open:
        return by_revision, "its head is older than the end of its revision"
    if head.state in (ScheduleState.PAUSED, ScheduleState.DELETED) and is_open:
        return head.state, "its revision is older than its head"
    return head.state, ""


def periods(
    history: Sequence[Revision], now: JoinedSchedule, since: int, until: int
) -> list[tuple[Revision, int, int]]:
    """The revisions, newest first, that were active in ``(since, until]`` (UTC ms), each with the part in which it was."""
    found = []
    for revision in history:
        ended = now.ended if revision is history[0] else revision.active_until
        low, high = max(since, revision.active_from), until if ended is None else min(until, ended)
        if low < high:
            found.append((revision, low, high))
        if revision.active_from <= since:
            break
    if now.again is not None:
        found.insert(0, (history[0], max(since, now.again - 1), until))
    return found
