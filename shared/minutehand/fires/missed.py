"""Gaps: record what a catch-up policy passes over, one row for all missed fires in a row.

Look, write, look again, until the rows say what they should (``runs.gaps`` decides). Who claims a fire late looks as well, after its
claim. So where two tickers disagree about a fire, because their clocks differ or one stalled, the one whose write came later sees
both and corrects the count. A crash leaves the chain's entry: handled again, the row is found and, if the gap has grown, grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.errors import Unavailable
from minutehand.fires.plan import timetable_of
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.catch_up import WORD, CorrectMissed, PutMissed, on_gap, reason_of
from minutehand.state.transitions.before_start import skip
from minutehand.timing import fires

LOOK_BACK = (
    200  # rows among which a gap is looked for: runs by hand and fires that were claimed all the same may lie between
)
_ROUNDS = 10  # writes until the rows are left to the next tick: others keep moving them


@dataclass(frozen=True)
class MissedResult:
    """What recording found and did."""

    skipped: int = 0  # fires that rows stand for now and did not before
    waiting: tuple[int, ...] = ()  # of those to pass over: claimed already, and perhaps never sent (UTC ms)


def record_missed(
    revision: Revision, passed: Sequence[int], after: int, services: Services, clock: Clock
) -> MissedResult:
    """Bring the rows of a revision's gaps later than ``after`` (UTC ms) in line with ``passed``. Raises Unavailable."""
    table = timetable_of(revision)
    skipped = 0
    for _ in range(_ROUNDS):
        now = clock()
        rows = list(services.ledger.window(revision.owner, after=max(after, revision.active_from), upto=now))
        write = on_gap(revision, passed, rows, lambda low, high: list(fires(table, low, high)), now)
        if write is None:
            skipped += _pass_over(revision, passed, rows, services, now)
            return MissedResult(skipped, _waiting(passed, rows))
        skipped += _write(write, services)
    raise Unavailable(f"the gap of {revision.owner!r} could not be recorded: others keep changing it")


def gaps_before(owner: str, upto: int, services: Services) -> list[RunRow]:
    """The last gaps of a schedule that begin at or before an instant (UTC ms), newest first; they may reach beyond."""
    rows = islice(services.ledger.latest(owner, upto=upto), LOOK_BACK)
    return [run for run in rows if run.skipped_until is not None]


def _write(write: PutMissed | CorrectMissed, services: Services) -> int:
    """Carry it out; fires that a row stands for by this. Nought if somebody else was faster: look again."""
    if isinstance(write, CorrectMissed):
        return write.more if services.ledger.move(write.gap.ref, write.transition).applied else 0
    claimed = services.ledger.claim([write.gap])
    if write.gap.ref in claimed.created:
        return write.gap.skipped or 0
    if write.gap.ref in claimed.existing:
        return 0
    raise Unavailable(f"run {write.gap.ref}: the row of a gap was not accepted")


def _pass_over(revision: Revision, passed: Sequence[int], rows: Sequence[RunRow], services: Services, now: int) -> int:
    """Fires to pass over that an older revision had claimed, and never started: their rows say why nothing follows. How many."""
    refused = [run for run in rows if run.ref.is_fire and run.unstarted and run.revision < revision.number]
    known = set(passed) if refused else set()
    number, reason = revision.number, reason_of(revision)
    moves = [
        (
            run.ref,
            skip(
                queued=False,
                revision=number,
                now=now,
                expires=max(now, run.due) + services.retention,
                reason=reason,
                act=WORD,
            ),
        )
        for run in refused
        if run.due in known
    ]
    answers = services.ledger.move_all(moves) if moves else {}
    if len(answers) < len(moves):
        raise Unavailable(
            f"{len(moves) - len(answers)} missed fires of {revision.owner!r} could not be marked as skipped"
        )
    return sum(applied is True for applied in answers.values())


def _waiting(passed: Sequence[int], rows: Sequence[RunRow]) -> tuple[int, ...]:
    claimed = [run.due for run in rows if run.ref.is_fire and run.state is RunState.QUEUED]
    known = set(passed) if claimed else set()
    return tuple(due for due in claimed if due in known)
