"""Plan one step of a chain: which fires to claim now, and what entry to leave. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from minutehand.domain.agenda_entry import AgendaEntry, EntryKind
from minutehand.domain.options import Options
from minutehand.domain.quick import quick
from minutehand.domain.schedule import Revision, ScheduleState
from minutehand.domain.times import SECOND
from minutehand.state.catch_up import LARGEST_GAP, judged_at, skipped_fires, take_fires
from minutehand.timing import Timetable, timetable

LOOKAHEAD = 180 * SECOND  # ticks may be 119 s apart; private to the ticker
REACH = 840 * SECOND  # how far ahead a step may go: SQS delays 900 s
SHARED = 10  # fires that a step going beyond the look-ahead has at most: they share its two writes
# Such a step ends where a window does, so that chains of one revision that parted meet again. Windows are counted from a second of the
# owner's own, so that chains of different owners take their steps at different times.
WINDOWS = (600 * SECOND, 300 * SECOND, 120 * SECOND, 60 * SECOND)
LARGEST = 100  # fires of one step at most: a backlog is worked off in pieces


@quick
@dataclass(frozen=True, kw_only=True)
class ChainPlan:
    """One step of a chain."""

    passed: tuple[int, ...]  # UTC ms of missed fires, earlier than the others, that the policy passes over
    fires: tuple[int, ...]  # UTC ms, to claim
    following: AgendaEntry | None  # the next entry to leave; None: this revision has no further fire
    exhausted: bool  # the expression itself has no further fire, so the schedule is complete
    cut: bool  # more fires are due already than one step takes


def plan_chain(
    revision: Revision,
    *,
    after: int,
    now: int,
    oldest: int,
    reach: int = REACH,
    excused: Sequence[tuple[int, int | None]] = (),
) -> ChainPlan:
    """The fires of a revision in ``(after, now + LOOKAHEAD]``, or a few more within ``reach`` ms: see ``_further``.

    Those among them that were missed are passed over as the revision's policy has it. ``oldest`` (UTC ms) bounds the past: rows
    older than the ledger's retention may have expired and must not be claimed again. ``excused`` are the times (UTC ms, in order)
    whose fires were held back and not missed: a step that comes to one judges as of its beginning, and ends with it.
    """
    table = timetable_of(revision)
    floor = max(after, revision.active_from, oldest)
    fire = table.next(floor)
    judged, end = judged_at(fire, now, excused)
    passed, fire = skipped_fires(table, fire, revision.bound(judged), judged, revision.definition.options)
    if len(passed) == LARGEST_GAP:
        following = _following(revision, fire, passed[-1])
        return ChainPlan(
            passed=tuple(passed), fires=(), following=following, exhausted=fire is None, cut=fire is not None
        )
    floor = passed[-1] if passed else floor
    near = revision.bound(now + LOOKAHEAD)
    fires, fire = take_fires(table, fire, near if end is None else min(near, end), LARGEST)
    cut = fire is not None and fire <= near
    if fires and fire is not None and not cut:
        for end in _further(revision.owner, near, fires[0], fire, revision.bound(now + reach)):
            more, beyond = take_fires(table, fire, end, SHARED - len(fires) + 1)
            if len(fires) + len(more) <= SHARED:
                fires, fire = fires + more, beyond
                break
    reached = max(floor, fires[-1] if fires else floor, floor if cut else near)
    following = _following(revision, fire, reached)
    return ChainPlan(passed=tuple(passed), fires=tuple(fires), following=following, exhausted=fire is None, cut=cut)


def timetable_of(revision: Revision) -> Timetable:
    """The fires of a revision, whatever its interval."""
    return timetable(revision.definition.rule, anchor=revision.counts_from, key=revision.owner)


def _further(owner: str, near: int, first: int, fire: int, limit: int) -> list[int]:
    """Where a step may end beyond the look-ahead, ``fire`` and what follows included, furthest first: at the end of a window.

    An entry that is handled twice, at different times, leaves two next ones. If the end of a step depended on when it was
    handled, or on where it began, the two chains would go on beside each other for good and send every fire twice; at the end of a
    window they meet. So the ``first`` fire of the step lies in that window too: of fires ten minutes apart a step would else end one
    window and skip the next, and two chains could pass over each other for good.
    """
    if fire > limit:  # as of most sparse schedules
        return []
    shift = shift_of(owner)
    ends = ((-(-(near + shift) // window) * window - shift, window) for window in WINDOWS)
    return [end for end, window in ends if fire <= end <= limit and end - window < first]


def shift_of(owner: str) -> int:
    """By how much an owner's windows end before those of the wall clock (ms, whole seconds): the same in every process."""
    return crc32(owner.encode()) * SECOND % WINDOWS[0]


def end_of(options: Options) -> ScheduleState:
    """What becomes of a schedule that has no further fire."""
    return ScheduleState.DELETED if options.delete_after_completion else ScheduleState.COMPLETED


def first_entry(revision: Revision) -> AgendaEntry | None:
    """The entry that arming a revision leaves, or None if it never fires."""
    return _following(revision, timetable_of(revision).next(revision.active_from), revision.active_from)


def _following(revision: Revision, fire: int | None, after: int) -> AgendaEntry | None:
    if fire is None or (revision.active_until is not None and fire > revision.active_until):
        return None
    return chain_entry(revision, fire, after)


def chain_entry(revision: Revision, fire: int, after: int) -> AgendaEntry:
    """The entry of a revision's chain at a fire (UTC ms), all before it up to ``after`` being claimed."""
    queue = revision.definition.options.queue
    return AgendaEntry(shard=revision.shard, due=fire, kind=EntryKind.CHAIN, id=revision.id, after=after, queue=queue)
