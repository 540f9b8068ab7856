"""Definition spans: the fires of an interval under the definitions that a schedule had, walked in either order. Pure.

    revisions    1 ───────────────►  2 ─────► (paused)          3 ────────────────────►
    spans        └──────── 1 ──────┘└────────── 2 ─────────────┘└──────── 3 ──────────

A pause has no revision of its own: the paused revision defines the fires of the pause. At most a block of fires is held in memory,
so that a year of minutely fires can be walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from minutehand.domain.schedule import Revision
from minutehand.domain.times import MINUTE
from minutehand.state.backfill import BackfillOrder, DefinitionSpan, StoredBackfill
from minutehand.timing import Timetable, fires

TableOf = Callable[[DefinitionSpan], Timetable]  # the fires of a span's definition

_BLOCK = 1_000  # fires held at once, walking backwards


def own_definitions(history: Sequence[Revision], after: int, upto: int) -> list[DefinitionSpan]:
    """Each revision of ``history`` (oldest first) for its own part of ``(after, upto]``, pauses included."""
    ends = [later.active_from for _, later in pairwise(history)]
    parts = (
        DefinitionSpan(r.number, max(after, r.active_from), min(upto, end), r.counts_from)
        for r, end in zip(history, [*ends, upto], strict=True)
    )
    return [part for part in parts if part.after < part.upto]


def one_definition(revision: Revision, after: int, upto: int) -> list[DefinitionSpan]:
    """One revision for all of ``(after, upto]``. Rates count from where they always did; before that, from ``after``."""
    begun = revision.counts_from
    earlier = DefinitionSpan(revision.number, after, min(upto, begun), after)
    later = DefinitionSpan(revision.number, max(after, begun), upto, begun)
    return [part for part in (earlier, later) if part.after < part.upto]


def survey(
    spans: Sequence[DefinitionSpan], table_of: TableOf
) -> tuple[list[DefinitionSpan], int, int | None, int | None]:
    """The spans that have fires, the number of fires, and the first and last fire."""
    kept: list[DefinitionSpan] = []
    total, first, last = 0, None, None
    for span in spans:
        count = 0
        for fire in fires(table_of(span), span.after, span.upto):
            count += 1
            first, last = fire if first is None else first, fire
        if count:
            kept.append(span)
            total += count
    return kept, total, first, last


def walk(backfill: StoredBackfill, table_of: TableOf) -> Iterator[int]:
    """The fires of a backfill beyond its cursor, in its order."""
    newest = backfill.order is BackfillOrder.NEWEST
    for span in reversed(backfill.spans) if newest else backfill.spans:
        left = span if backfill.cursor is None else _beyond(span, backfill.cursor, newest=newest)
        if left.after < left.upto:
            table = table_of(left)
            yield from descending(table, left.after, left.upto) if newest else fires(table, left.after, left.upto)


def _beyond(span: DefinitionSpan, cursor: int, *, newest: bool) -> DefinitionSpan:
    """The part of a span that lies beyond the cursor; empty where its bounds meet or cross."""
    if newest:
        return replace(span, upto=min(span.upto, cursor - 1))
    return replace(span, after=max(span.after, cursor))


def span_of(backfill: StoredBackfill, fire: int) -> DefinitionSpan:
    """The span that a fire of a backfill lies in."""
    return next(span for span in backfill.spans if span.after < fire <= span.upto)


def descending(table: Timetable, after: int, upto: int) -> Iterator[int]:
    """The fires in ``(after, upto]``, last first, read in blocks that adapt to the density of the fires."""
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
