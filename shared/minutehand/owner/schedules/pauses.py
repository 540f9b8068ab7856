"""Pauses with an end, and where a resumed schedule goes on.

The transaction of the pause puts an agenda entry at its end, which the head names in ``resume_at``. The entry ends the pause if the head
is still PAUSED until that instant; a later pause, resume or deletion makes the entry moot. It is removed only after the resume is written.

    paused                                 resume_at                    now, if the ticker is late
    ───┼───────────────────────────────────────┼───────────────────────────┼────────►
       (  automatic_backfill: fires from here  (  otherwise from here      )
"""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.run import AgendaEntry, EntryKind
from minutehand.domain.schedule import ClosedBy, Head, Revision, ScheduleState
from minutehand.domain.times import MINUTE
from minutehand.ports.services import Services

EARLY = MINUTE  # a ticker may end a pause so long before its end, so that fires right after it start in time


@dataclass(frozen=True)
class RevisionStart:
    """The beginning of a revision."""

    active_from: int  # UTC ms, exclusive
    anchor: int | None = None  # UTC ms that its rates count from; None: active_from


def resume_entry(head: Head, shard: int) -> AgendaEntry | None:
    """The entry that ends a pause; None for one that has no end."""
    if head.state is not ScheduleState.PAUSED or head.resume_at is None:
        return None
    return AgendaEntry(shard=shard, due=head.resume_at, kind=EntryKind.RESUME, id=head.owner)


def resumed(head: Head, previous: Revision, services: Services, now: int, *, early: int = 0) -> RevisionStart:
    """Where a schedule goes on that is resumed now: at the end of its pause, if that is at most ``early`` ms away.

    A fire at the exact end of the pause is due. With ``automatic_backfill`` the fires of the pause are due too, as missed ones.
    """
    if previous.definition.options.automatic_backfill and head.state is ScheduleState.PAUSED:
        return RevisionStart(_paused_since(head, services), previous.counts_from)
    bound = max(previous.active_from, previous.active_until or 0)
    ends = head.resume_at
    if ends is not None and bound < ends <= now + early:
        return RevisionStart(ends - 1, ends)
    return RevisionStart(max(now, bound))


def _paused_since(head: Head, services: Services) -> int:
    """When (UTC ms) the pause began; revisions made during the pause are empty."""
    since = head.created_at
    for revision in services.schedules.history(head.owner):
        if revision.active_until is None or revision.closed_by not in (ClosedBy.PAUSED, ClosedBy.DRAINED):
            break
        since = max(revision.active_until, head.created_at)
        if revision.active_from < revision.active_until:
            break
    return since
