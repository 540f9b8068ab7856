"""Record the missed fires that a catch-up policy skips: one row for consecutive fires.

Read, write, and read again until the rows are correct (``state.catch_up`` decides). A ticker that claims a fire late reads them too, after
its claim. So if two tickers disagree about a fire, because their clocks differ or one stalled, the later writer sees both writes and
corrects the count. A crash leaves the chain's entry; when it is handled again, the row is found and extended.
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

LOOK_BACK = 200  # the last row of skipped fires is searched among so many: manual and late runs may lie between
_ROUNDS = 10  # writes before the rows are left to the next tick, because other processes keep changing them


@dataclass(frozen=True)
class MissedResult:
    """The result of recording."""

    skipped: int = 0  # fires for which a row stands now and did not before
    waiting: tuple[int, ...] = ()  # fires (UTC ms) to skip that were claimed already, and perhaps never sent


def record_missed(
    revision: Revision, passed: Sequence[int], after: int, services: Services, clock: Clock
) -> MissedResult:
    """Correct a revision's rows of skipped fires later than ``after`` (UTC ms), given the fires ``passed``. Raises Unavailable."""
    table = timetable_of(revision)
    skipped = 0
    for _ in range(_ROUNDS):
        now = clock()
        rows = list(services.ledger.window(revision.owner, after=max(after, revision.active_from), upto=now))
        write = on_gap(revision, passed, rows, lambda low, high: list(fires(table, low, high)), now)
        if write is None:
            skipped += _skip_refused(revision, passed, rows, services, now)
            return MissedResult(skipped, _waiting(passed, rows))
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


def _skip_refused(
    revision: Revision, passed: Sequence[int], rows: Sequence[RunRow], services: Services, now: int
) -> int:
    """Mark as SKIPPED the runs of missed fires that an older revision claimed and never started; how many."""
    refused = [run for run in rows if run.ref.is_fire and run.unstarted and run.revision < revision.number]
    known = set(passed) if refused else set()
    number, reason = revision.number, reason_of(revision)
    moves = []
    for run in refused:
        if run.due in known:
            expires = max(now, run.due) + services.retention
            move = skip(queued=False, revision=number, now=now, expires=expires, reason=reason, act=WORD)
            moves.append((run.ref, move))
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
