"""Gaps: the missed fires that a schedule's policy passes over have one row together. What that row should say, and what to do. Pure.

A fire that has a row of its own is not in the gap: somebody claimed it, before the outage or at the same time with another clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minutehand.domain.names import aside_ref
from minutehand.domain.run import MISSED, RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.state.transitions import SKEW, Transition, recount

WORD = "gap"  # in the key of such a row
LATE = MISSED - 2 * SKEW  # after so long the clock of a ticker may say that a fire was missed

Between = Callable[[int, int], Sequence[int]]  # the fires in ``(after, upto]``


@dataclass(frozen=True)
class PutMissed:
    """There is no row for these fires yet: put this one."""

    gap: RunRow


@dataclass(frozen=True)
class CorrectMissed:
    """A row stands for other fires than it should."""

    gap: RunRow
    transition: Transition
    more: int  # fires that it stands for then and did not before; negative: fewer


def on_gap(
    revision: Revision, passed: Sequence[int], rows: Sequence[RunRow], between: Between, now: int
) -> PutMissed | CorrectMissed | None:
    """The next write that brings the rows of gaps nearer to what they should say, or None: they say it.

    ``passed`` are fires to pass over, ascending, ``rows`` all that the ledger has from before them until now.
    """
    there = {run.due for run in rows if run.ref.is_fire}
    gaps = [run for run in rows if run.skipped_until is not None and run.revision == revision.number]
    bare = [fire for fire in passed if fire not in there and not any(covers(gap, fire) for gap in gaps)]
    if bare:
        return _take_in(revision, bare, gaps, there, between, now)
    for gap in gaps:
        correction = _correct(gap, gap.skipped_until or gap.due, there, between)
        if correction.more:
            return correction
    return None


def covers(gap: RunRow, fire: int) -> bool:
    """Whether a gap's row spans an instant."""
    return gap.skipped_until is not None and gap.due <= fire <= gap.skipped_until


def _take_in(
    revision: Revision, bare: Sequence[int], gaps: Sequence[RunRow], there: set[int], between: Between, now: int
) -> PutMissed | CorrectMissed:
    """The first of the fires that no row stands for join the gap before them, as far as the next gap; or found one."""
    place = bisect_right([gap.due for gap in gaps], bare[0])
    until = bare[-1] if place == len(gaps) else bare[bisect_left(bare, gaps[place].due) - 1]
    if place:
        return _correct(gaps[place - 1], until, there, between)
    return PutMissed(_gap(revision, bare[: bisect_right(bare, until)], now))


def _correct(gap: RunRow, until: int, there: set[int], between: Between) -> CorrectMissed:
    skipped = sum(fire not in there for fire in between(gap.due - 1, until))
    seen = gap.skipped or 0
    move = recount(skipped=skipped, until=until, seen_skipped=seen, seen_until=gap.skipped_until or gap.due)
    return CorrectMissed(gap, move, skipped - seen)


def reason_of(revision: Revision) -> str:
    """Why a missed fire is passed over."""
    options = revision.definition.options
    return f"missed: catch_up={options.catch_up}, catch_up_window={options.catch_up_window:g}"


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
