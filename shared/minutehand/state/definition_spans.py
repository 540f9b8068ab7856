"""Stretches: the fires of an interval under the definitions that a schedule had, walked in either order. Pure.

    revisions    1 ───────────────►  2 ─────► (paused)          3 ────────────────────►
    stretches    └──────── 1 ──────┘└────────── 2 ─────────────┘└──────── 3 ──────────

A pause has no revision of its own: what its schedule would have done in it, the paused revision says. Nothing is held in memory
but a block of fires, so that a year of minutely ones can be walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from minutehand.domain.schedule import Revision
from minutehand.domain.times import MINUTE
from minutehand.state.backfill import Backfill, BackfillOrder, Stretch
from minutehand.timing import Timetable, fires

TableOf = Callable[[Stretch], Timetable]  # the fires of a stretch's definition

_BLOCK = 1_000  # fires held at once, walking backwards


def own_definitions(history: Sequence[Revision], after: int, upto: int) -> list[Stretch]:
    """Each revision of ``history`` (oldest first) for its own part of ``(after, upto]``, pauses included."""
    ends = [later.active_from for _, later in pairwise(history)]
    parts = (
        Stretch(r.number, max(after, r.active_from), min(upto, end), r.counts_from)
        for r, end in zip(history, [*ends, upto], strict=True)
    )
    return [part for part in parts if part.after < part.upto]


def one_definition(revision: Revision, after: int, upto: int) -> list[Stretch]:
    """One revision for all of ``(after, upto]``. Rates count from where they always did; before that, from ``after``."""
    begun = revision.counts_from
    earlier = Stretch(revision.number, after, min(upto, begun), after)
    later = Stretch(revision.number, max(after, begun), upto, begun)
    return [part for part in (earlier, later) if part.after < part.upto]


def survey(stretches: Sequence[Stretch], table_of: TableOf) -> tuple[list[Stretch], int, int | None, int | None]:
    """The stretches that have fires, how many these are in all, and the first and last of them."""
    kept: list[Stretch] = []
    total, first, last = 0, None, None
    for stretch in stretches:
        count = 0
        for fire in fires(table_of(stretch), stretch.after, stretch.upto):
            count += 1
            first, last = fire if first is None else first, fire
        if count:
            kept.append(stretch)
            total += count
    return kept, total, first, last


def walk(backfill: Backfill, table_of: TableOf, *, index: int, fire: int) -> Iterator[tuple[int, int]]:
    """The fires of a backfill in its order, each with its index, from beyond that ``fire`` on; index -1: from the beginning."""
    newest = backfill.order is BackfillOrder.NEWEST
    for stretch in reversed(backfill.stretches) if newest else backfill.stretches:
        left = stretch if index < 0 else _beyond(stretch, fire, newest=newest)
        if left.after >= left.upto:
            continue
        table = table_of(left)
        found = descending(table, left.after, left.upto) if newest else fires(table, left.after, left.upto)
        for due in found:
            index += 1
            yield index, due
        fire = (
            stretch.after + 1 if newest else stretch.upto
        )  # an older stretch ends with the instant that this one begins after


def _beyond(stretch: Stretch, fire: int, *, newest: bool) -> Stretch:
    """What of a stretch is still to come after a fire."""
    if newest:
        return replace(stretch, upto=min(stretch.upto, fire - 1))
    return replace(stretch, after=max(stretch.after, fire))


def stretch_of(backfill: Backfill, fire: int) -> Stretch:
    """The stretch that a fire of a backfill lies in."""
    return next(stretch for stretch in backfill.stretches if stretch.after < fire <= stretch.upto)


def descending(table: Timetable, after: int, upto: int) -> Iterator[int]:
    """The fires in ``(after, upto]``, last first: by blocks whose length follows how dense they are."""
    span, high = MINUTE, upto
    while high > after:
        low = max(after, high - span)
        block = list(islice(fires(table, low, high), _BLOCK + 1))
        if len(block) > _BLOCK and span > 1:
            span //= 2
            continue
        yield from reversed(block)
        high = low
        if len(block) < _BLOCK // 4:
            span *= 4
