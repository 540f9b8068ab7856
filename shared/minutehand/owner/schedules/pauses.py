"""Pauses that end by themselves, and where a resumed schedule goes on.

The pause's own transaction puts an agenda entry at its end, and the head says when that is. The entry ends the pause if the head is
still PAUSED until that very instant; any later pause, resume or deletion makes it moot. It goes only when the resume is written.

    paused                                 resume_at                    now, if nobody came in time
    ───┼───────────────────────────────────────┼───────────────────────────┼────────►
       (  automatic_backfill: fires from here  (  otherwise from here      )
"""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from minutehand.domain.times import MINUTE
from minutehand.ports.services import Services

EARLY = MINUTE  # how much before its end a pause may be ended by a ticker: fires right after it start in time


@dataclass(frozen=True)
class RevisionStart:
    """Where a revision begins."""

    active_from: int  # UTC ms, exclusive
    anchor: int | None = None  # UTC ms that its rates count from; None: active_from


def resume_entry(head: Head, shard: int) -> AgendaEntry | None:
    """The entry that ends a pause; None for one that has no end."""
    if head.state is not ScheduleState.PAUSED or head.resume_at is None:
        return None
    return AgendaEntry(shard=shard, due=head.resume_at, kind=EntryKind.RESUME, id=head.owner)


def resumed(head: Head, previous: Revision, services: Services, now: int, *, early: int = 0) -> RevisionStart:
    """Where a schedule goes on that is resumed now. The end of its pause counts, if that is not more than ``early`` ms away.

    A fire at the very end of the pause is due. With ``automatic_backfill`` the pause's own fires are as well: missed ones.
    """
    if previous.definition.options.automatic_backfill and head.state is ScheduleState.PAUSED:
        return RevisionStart(_paused_since(head, services), previous.counts_from)
    bound = max(previous.active_from, previous.active_until or 0)
    ends = head.resume_at
    if ends is not None and bound < ends <= now + early:
        return RevisionStart(ends - 1, ends)
    return RevisionStart(max(now, bound))


def _paused_since(head: Head, services: Services) -> int:
    """When the pause began: revisions that were made during it are empty (UTC ms)."""
    since = head.created_at
    for revision in services.schedules.history(head.owner):
        if revision.active_until is None or revision.closed_by not in (ClosedBy.PAUSED, ClosedBy.DRAINED):
            break
        since = max(revision.active_until, head.created_at)
        if revision.active_from < revision.active_until:
            break
    return since
