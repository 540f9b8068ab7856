"""The options ``catch_up``, ``catch_up_window`` and ``automatic_backfill``: which missed fires are skipped, and the one row that stands
for them.

A fire is missed if it is claimed more than MISSED after its time. Consecutive skipped fires share one row, SKIPPED, which has their
number and the first and last of them. A fire with a run of its own is not counted there: it was claimed before the outage, or by
another ticker whose clock differs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from quarterjack.domain.names import aside_ref
from quarterjack.domain.options import CatchUp, Options
from quarterjack.domain.run import MISSED, RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import SECOND
from quarterjack.state.before_start import recount
from quarterjack.state.lease import SKEW
from quarterjack.state.transition import Transition
from quarterjack.timing import Timetable
from quarterjack.values import value

WORD = "gap"  # in the key of such a row
LATE = MISSED - 2 * SKEW  # a fire claimed so long after its time may be missed by another ticker's clock
LARGEST_GAP = 100_000  # missed fires that one plan skips at most: counting them takes 0.2 s
MOST_BACKFILLED = (
    10_000  # missed fires that automatic_backfill runs after one outage or pause, the last ones: a week of minutes
)

Between = Callable[[int, int], Sequence[int]]  # the fires in ``(after, upto]``


def skipped_fires(
    table: Timetable, fire: int | None, upto: int, now: int, options: Options
) -> tuple[list[int], int | None]:
    """The missed fires that the policy skips, from ``fire`` on and not after ``upto``; and the fire that follows them, if any.

    Within the window all missed fires are run, or the last, or none. ``automatic_backfill`` runs the last MOST_BACKFILLED of them, however
    long ago they were due.
    """
    missed_before = now - MISSED  # these bounds are exclusive: a fire at the bound itself is run
    if options.backfills_missed:
        return _all_but_the_last(table, fire, min(upto, missed_before - 1), MOST_BACKFILLED)
    too_old_before = min(missed_before, now - int(options.catch_up_window * SECOND))
    before = too_old_before if options.catch_up is CatchUp.ALL else missed_before
    skipped, fire = take_fires(table, fire, min(upto, before - 1), LARGEST_GAP)
    all_seen = fire is None or fire > upto or fire >= before
    if options.catch_up is CatchUp.LATEST and all_seen and skipped and skipped[-1] >= too_old_before:
        fire = skipped.pop()
    return skipped, fire


def oldest_to_run(options: Options, now: int) -> int:
    """The instant (UTC ms) from which on the policy runs a single fire that was never claimed; the auditor skips earlier ones."""
    if options.backfills_missed:
        return 0
    return now - int(options.catch_up_window * SECOND) if options.catch_up is CatchUp.ALL else now


def _all_but_the_last(table: Timetable, fire: int | None, upto: int, most: int) -> tuple[list[int], int | None]:
    """The fires from ``fire`` up to ``upto`` without the last ``most`` of them, at most LARGEST_GAP; and the fire that follows."""
    due, beyond = take_fires(table, fire, upto, LARGEST_GAP + most)
    skipped = due[: max(len(due) - most, 0)]
    return skipped, due[len(skipped)] if len(due) > len(skipped) else beyond


def take_fires(table: Timetable, fire: int | None, upto: int, most: int) -> tuple[list[int], int | None]:
    """``fire`` and the following fires up to ``upto``, at most ``most``; and the fire after them, if any."""
    fires: list[int] = []
    while fire is not None and fire <= upto and len(fires) < most:
        fires.append(fire)
        fire = table.next(fire)
    return fires, fire


def judged_at(fire: int | None, now: int, excused: Sequence[tuple[int, int | None]]) -> tuple[int, int | None]:
    """The instant (UTC ms) as of which a plan from ``fire`` on decides what was missed, and the end of such a plan (None: no end).

    ``excused`` are periods (UTC ms, in order) in which backpressure held fires back.
    """
    for since, until in excused:
        if fire is not None and (until is None or fire <= until):
            return min(now, since), until
    return now, None


@value()
class PutMissed:
    gap: RunRow  # to put, for fires that no row stands for yet


@value()
class CorrectMissed:
    """A row stands for other fires than it should."""

    gap: RunRow
    transition: Transition
    more: int  # fires that it stands for then and did not before; negative: fewer


def on_gap(
    revision: Revision, passed: Sequence[int], rows: Sequence[RunRow], between: Between, now: int
) -> PutMissed | CorrectMissed | None:
    """The next write that corrects the rows of skipped fires; None: they are correct.

    ``passed`` are the fires to skip, ascending; ``rows`` are all rows of the schedule from before these fires until now.
    """
    claimed = {run.due for run in rows if run.ref.is_fire}
    gaps = [run for run in rows if run.skipped_until is not None and run.revision == revision.number]
    bare = [fire for fire in passed if fire not in claimed and not any(covers(gap, fire) for gap in gaps)]
    if bare:  # extend the row before the first of them, as far as the next row; or put a new row
        place = bisect_right([gap.due for gap in gaps], bare[0])
        until = bare[-1] if place == len(gaps) else bare[bisect_left(bare, gaps[place].due) - 1]
        if place:
            return _correct(gaps[place - 1], until, claimed, between)
        return PutMissed(_gap(revision, bare[: bisect_right(bare, until)], now))
    for gap in gaps:
        correction = _correct(gap, gap.skipped_until or gap.due, claimed, between)
        if correction.more:
            return correction
    return None


def covers(gap: RunRow, fire: int) -> bool:
    return gap.skipped_until is not None and gap.due <= fire <= gap.skipped_until


def _correct(gap: RunRow, until: int, claimed: set[int], between: Between) -> CorrectMissed:
    skipped = sum(fire not in claimed for fire in between(gap.due - 1, until))
    seen = gap.skipped or 0
    move = recount(skipped=skipped, until=until, seen_skipped=seen, seen_until=gap.skipped_until or gap.due)
    return CorrectMissed(gap, move, skipped - seen)


def reason_of(revision: Revision) -> str:
    """The reason in the rows of skipped fires."""
    options = revision.definition.options
    bound = (
        f"automatic_backfill of the last {MOST_BACKFILLED:,}"
        if options.backfills_missed
        else f"catch_up_window={options.catch_up_window:g}"
    )
    return f"missed: catch_up={options.catch_up}, {bound}"


def _gap(revision: Revision, fires: Sequence[int], now: int) -> RunRow:
    return RunRow(
        ref=aside_ref(revision.owner, fires[0], WORD),
        state=RunState.SKIPPED,
        revision=revision.number,
        job=revision.definition.job,
        due=fires[0],
        not_before=fires[0],
        created_at=now,
        ended_at=now,
        reason=reason_of(revision),
        skipped=len(fires),
        skipped_until=fires[-1],
    )
