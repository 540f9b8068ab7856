"""Plan the next fires of a chain: which to claim now, and which are missed and recorded as skipped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from zlib import crc32

from quarterjack.domain.names import RunRef
from quarterjack.domain.options import Options
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.schedule import Revision, ScheduleState
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.fires.context import LOOKAHEAD, REACH, FireContext
from quarterjack.ports.services import Services
from quarterjack.state.before_start import skip
from quarterjack.state.catch_up import (
    LARGEST_GAP,
    WORD,
    CorrectMissed,
    PutMissed,
    judged_at,
    on_gap,
    reason_of,
    skipped_fires,
    take_fires,
)
from quarterjack.state.incidents import first_check
from quarterjack.timing import Timetable, fires, timetable
from quarterjack.values import value

SHARED = 10  # the most fires of a plan beyond the look-ahead: they share its two writes
# Such a plan ends at the end of a window, so that two chains of one revision meet again. The offset of the windows depends on the owner, so
# that chains of different owners are handled at different times.
WINDOWS = (600 * SECOND, 300 * SECOND, 120 * SECOND, 60 * SECOND)
LARGEST = 100  # the most fires of one plan: a backlog is handled in pieces
LOOK_BACK = 200  # the last row of skipped fires is searched among so many: manual and late runs may lie between
_ROUNDS = 10  # writes before the rows are left to the next tick, because other processes keep changing them


@value(kw_only=True)
class ChainPlan:
    """The next fires of a chain."""

    passed: tuple[int, ...]  # UTC ms of missed fires, earlier than the others, that the policy skips
    fires: tuple[int, ...]  # UTC ms, to claim
    following: AgendaEntry | None  # the next entry to leave; None: this revision has no further fire
    exhausted: bool  # the expression itself has no further fire, so the schedule is complete
    cut: bool  # more fires are due already than one plan takes


def plan_chain(
    revision: Revision,
    *,
    after: int,
    now: int,
    oldest: int,
    ahead: int = LOOKAHEAD,
    reach: int = REACH,
    most: int = LARGEST,
    excused: Sequence[tuple[int, int | None]] = (),
) -> ChainPlan:
    """The fires of a revision in ``(after, now + ahead]``, or a few more within ``reach`` ms: see ``_further``.

    The revision's policy decides which missed fires are skipped. ``oldest`` (UTC ms) bounds the past: rows older than the ledger's
    retention may have expired, and their fires must not be claimed again. ``excused`` are periods (UTC ms, in order) whose fires were
    held back and not missed: a plan that reaches such a period decides as of its beginning, and ends with it. ``most`` fires are planned.
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
    near = revision.bound(now + ahead)
    fires, fire = take_fires(table, fire, near if end is None else min(near, end), min(most, LARGEST))
    cut = fire is not None and fire <= near
    if fires and fire is not None and not cut and most >= LARGEST:
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
    """The ends of windows (UTC ms, furthest first) at which a plan may end beyond the look-ahead, from ``fire`` up to ``limit``.

    An entry that is handled twice, at different times, leaves two next entries. If the end of a plan depended on when its entry was
    handled, or on its first fire, both chains would go on for good and send every fire twice; at the end of a window they meet. So the
    ``first`` fire must lie in the same window: with fires ten minutes apart a plan would otherwise end one window and skip the next, and
    the two chains might never meet.
    """
    if fire > limit:  # as of most sparse schedules
        return []
    shift = shift_of(owner)
    ends = ((-(-(near + shift) // window) * window - shift, window) for window in WINDOWS)
    return [end for end, window in ends if fire <= end <= limit and end - window < first]


def shift_of(owner: str) -> int:
    """How much earlier (ms, whole seconds) an owner's windows end than those of the clock: the same in every process."""
    return crc32(owner.encode()) * SECOND % WINDOWS[0]


def end_of(options: Options) -> ScheduleState:
    """The state of a schedule that has no further fire."""
    return ScheduleState.DELETED if options.delete_after_completion else ScheduleState.COMPLETED


def first_entry(revision: Revision) -> AgendaEntry | None:
    """The first entry of a revision's chain, or None if it never fires."""
    return _following(revision, timetable_of(revision).next(revision.active_from), revision.active_from)


def success_check(revision: Revision, now: int) -> AgendaEntry | None:
    """The entry that checks a revision which begins now for a success in time. None if none is expected."""
    within = revision.success_within
    if within is None:
        return None
    return AgendaEntry(shard=revision.shard, due=now + within, kind=EntryKind.EXPECT, id=revision.owner, created_at=now)


def overdue_check(revision: Revision, run: RunRef, due: int, now: int) -> AgendaEntry | None:
    """The entry that checks whether a run that is due then (UTC ms) ends in time. None if its schedule does not ask for that."""
    if not revision.definition.options.has_end:
        return None
    at = first_check(due, revision)
    return AgendaEntry(shard=revision.shard, due=at, kind=EntryKind.OVERDUE, id=str(run), created_at=now)


def _following(revision: Revision, fire: int | None, after: int) -> AgendaEntry | None:
    if fire is None or (revision.active_until is not None and fire > revision.active_until):
        return None
    return chain_entry(revision, fire, after)


def chain_entry(revision: Revision, fire: int, after: int) -> AgendaEntry:
    """The entry of a revision's chain at a fire (UTC ms), with all fires up to ``after`` claimed."""
    definition = revision.definition
    return AgendaEntry(
        shard=revision.shard,
        due=fire,
        kind=EntryKind.CHAIN,
        id=revision.id,
        after=after,
        queue=definition.options.queue,
        job=definition.job,
        priority=definition.overrides.priority or Priority.NORMAL,
    )


@value()
class MissedResult:
    """The result of recording."""

    skipped: int = 0  # fires for which a row stands now and did not before
    waiting: tuple[int, ...] = ()  # fires (UTC ms) to skip that were claimed already, and perhaps never sent


def record_missed(revision: Revision, passed: Sequence[int], after: int, context: FireContext) -> MissedResult:
    """Correct a revision's rows of skipped fires later than ``after`` (UTC ms), given the fires ``passed``. Raises Unavailable."""
    table, services = timetable_of(revision), context.services
    skipped = 0
    for _ in range(_ROUNDS):
        now = context.clock()
        rows = list(services.ledger.window(revision.owner, after=max(after, revision.active_from), upto=now))
        write = on_gap(revision, passed, rows, lambda low, high: list(fires(table, low, high)), now)
        if write is None:
            known = set(passed)
            runs = [run for run in rows if run.ref.is_fire and run.due in known]
            skipped += _skip_refused(revision, runs, services, now)
            return MissedResult(skipped, tuple(run.due for run in runs if run.state is RunState.QUEUED))
        skipped += _write(write, services)
    raise Unavailable(f"the gap of {revision.owner!r} could not be recorded: others keep changing it")


def gaps_before(owner: str, upto: int, services: Services) -> list[RunRow]:
    """The last rows of skipped fires that begin at or before an instant (UTC ms), newest first; they may reach beyond."""
    rows = islice(services.ledger.latest(owner, upto=upto), LOOK_BACK)
    return [run for run in rows if run.skipped_until is not None]


def _write(write: PutMissed | CorrectMissed, services: Services) -> int:
    """Write; returns by how many fires the rows stand for more. 0 if another write was first: read again."""
    if isinstance(write, CorrectMissed):
        return write.more if services.ledger.move(write.gap.ref, write.transition).applied else 0
    claimed = services.ledger.claim([write.gap])
    if write.gap.ref in claimed.created:
        return write.gap.skipped or 0
    if write.gap.ref in claimed.existing:
        return 0
    raise Unavailable(f"run {write.gap.ref}: the row of a gap was not accepted")


def _skip_refused(revision: Revision, runs: Sequence[RunRow], services: Services, now: int) -> int:
    """Mark as SKIPPED the runs of missed fires that an older revision claimed and never started; how many."""
    number, reason = revision.number, reason_of(revision)
    moves = []
    for run in runs:
        if run.unstarted and run.revision < number:
            ended = run.end_time(now)
            expires = max(ended, run.due) + services.retention
            move = skip(queued=False, revision=number, now=ended, expires=expires, reason=reason, act=WORD)
            moves.append((run.ref, move))
    answers = services.ledger.move_all(moves) if moves else {}
    if len(answers) < len(moves):
        raise Unavailable(
            f"{len(moves) - len(answers)} missed fires of {revision.owner!r} could not be marked as skipped"
        )
    return sum(applied is True for applied in answers.values())
