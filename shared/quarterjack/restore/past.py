"""Fires of the past without a run, neither in the ledger nor in the archive.

Each is held for its owner; of very many the oldest share a row, SKIPPED.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from quarterjack.domain.names import RunRef, aside_ref, fire_ref
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.schedule import Revision
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.fires.plan import timetable_of
from quarterjack.ports.services import Services
from quarterjack.restore.fates import UnknownEnd, held_fire
from quarterjack.restore.steps import Restore, RestoreStep, StepKind
from quarterjack.timing import fires

MOST_HELD = 1_000  # fires of one schedule that its owner decides on one by one: the last ones
WORD = "restored"  # in the key of the row that stands for the fires before them


def unknown_fires(
    parts: Sequence[tuple[Revision, int, int]],
    there: Mapping[RunRef, int | None],
    restore: Restore,
    context: FireContext,
) -> Iterator[RestoreStep]:
    """Hold the fires that have no run, neither a row nor in the archive; one row stands for those that are too many."""
    services, last = context.services, deque[tuple[Revision, int]](maxlen=MOST_HELD)
    before: list[tuple[Revision, int, int, int]] = []  # revision, first, last, number
    for revision, low, high in reversed(parts):
        rows = list(services.ledger.window(revision.owner, after=low, upto=high))
        gaps = [(run.due, run.skipped_until) for run in rows if run.skipped_until is not None]
        refs = {run.ref for run in rows} | there.keys()
        for fire in fires(timetable_of(revision), low, high):
            if fire_ref(revision.owner, fire) in refs or any(first <= fire <= until for first, until in gaps):
                continue
            if len(last) == MOST_HELD:
                _count(before, *last[0])
            last.append((revision, fire))
    for revision, first, until, number in before:
        run = _skipped(revision, first, until, number, restore)
        why = f"{number} fires from then on, which are too many to decide one by one"
        put = partial(_claim, [run], services)
        yield RestoreStep(kind=StepKind.SKIP_FIRES, target=str(run.ref), why=why, apply=put)
    for revision, fire in last:
        run = held_fire(
            fire_ref(revision.owner, fire),
            revision=revision.number,
            job=revision.definition.job,
            due=fire,
            epoch=restore.epoch,
            now=restore.until,
        )
        yield RestoreStep(
            kind=StepKind.HOLD_FIRE,
            target=str(run.ref),
            why=UnknownEnd.NO_TRACE,
            apply=partial(_claim, [run], services),
        )


def _count(before: list[tuple[Revision, int, int, int]], revision: Revision, fire: int) -> None:
    if before and before[-1][0] is revision:
        _, first, _, number = before.pop()
        before.append((revision, first, fire, number + 1))
    else:
        before.append((revision, fire, fire, 1))


def _skipped(revision: Revision, first: int, last: int, number: int, restore: Restore) -> RunRow:
    return RunRow(
        ref=aside_ref(revision.owner, first, WORD),
        state=RunState.SKIPPED,
        revision=revision.number,
        job=revision.definition.job,
        due=first,
        not_before=first,
        created_at=restore.until,
        ended_at=restore.until,
        reason=UnknownEnd.NO_TRACE,
        skipped=number,
        skipped_until=last,
    )


def _claim(runs: Sequence[RunRow], services: Services) -> None:
    answer = services.ledger.claim(runs)
    for run in runs:
        if run.ref not in answer.created and run.ref not in answer.existing:
            raise Unavailable(f"run {run.ref} was not accepted; run it again")
