"""Plan one step of a chain: which fires to claim now, and what entry to leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.model.entry import Entry, EntryKind
from minutehand.model.moment import SECOND
from minutehand.model.schedule import Revision
from minutehand.schedule import timetable

LOOKAHEAD = 180 * SECOND  # ticks may be 119 s apart; private to the ticker
REACH = 840 * SECOND  # how far ahead a step may go: SQS delays 900 s
SHARED = 10  # fires that a step towards REACH collects: they share the two writes of a step
LARGEST = 100  # fires of one step at most: a backlog is worked off in pieces


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a chain."""

    fires: tuple[int, ...]  # UTC ms, to claim
    following: Entry | None  # the next entry to leave; None: this revision has no further fire
    exhausted: bool  # the expression itself has no further fire, so the schedule is complete
    cut: bool  # more fires are due already than one step takes


def plan_step(revision: Revision, *, after: int, now: int, oldest: int, reach: int = REACH) -> Step:
    """The fires of a revision in ``(after, now + LOOKAHEAD]``, or further up to SHARED fires within ``reach`` ms.

    ``oldest`` (UTC ms) bounds the past: rows older than the ledger's retention may have expired and must not be claimed again.
    """
    table = timetable(revision.definition.rule, anchor=revision.active_from, key=revision.owner)
    floor = max(after, revision.active_from, oldest)
    near, far = revision.bound(now + LOOKAHEAD), revision.bound(now + reach)
    fires: list[int] = []
    fire = table.next(floor)
    while fire is not None and len(fires) < LARGEST and (fire <= near or (0 < len(fires) < SHARED and fire <= far)):
        fires.append(fire)
        fire = table.next(fire)
    cut = fire is not None and fire <= near
    reached = max(floor, fires[-1] if fires else floor, floor if cut else near)
    return Step(fires=tuple(fires), following=_following(revision, fire, reached, now), exhausted=fire is None, cut=cut)


def first_entry(revision: Revision, now: int) -> Entry | None:
    """The entry that arming a revision leaves, or None if it never fires."""
    table = timetable(revision.definition.rule, anchor=revision.active_from, key=revision.owner)
    return _following(revision, table.next(revision.active_from), revision.active_from, now)


def _following(revision: Revision, fire: int | None, after: int, now: int) -> Entry | None:
    if fire is None or (revision.active_until is not None and fire > revision.active_until):
        return None
    return Entry(shard=revision.shard, due=fire, kind=EntryKind.CHAIN, id=revision.id, after=after, created_at=now)
