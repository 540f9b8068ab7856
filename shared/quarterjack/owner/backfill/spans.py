"""The fires of a backfill, by the definitions that its schedule had in the interval. Pure.

A span is a part of the interval with one definition:

    revisions    1 ───────────────►  2 ─────► (paused)          3 ────────────────────►
    spans        └──────── 1 ──────┘└────────── 2 ─────────────┘└──────── 3 ──────────

A pause has no revision of its own: the paused revision defines the fires of the pause. At most a block of fires is held in memory,
so that a year of minutely fires can be walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise

from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import MINUTE
from quarterjack.state.backfill import BackfillOrder, DefinitionSpan, StoredBackfill
from quarterjack.timing import Rule, Timetable, fires
from quarterjack.values import replace

TableOf = Callable[[DefinitionSpan], Timetable]  # the fires of a span's definition
_BLOCK = 1_000  # fires held at once, walking backwards


def own_definitions(history: Sequence[Revision], after: int, upto: int) -> list[DefinitionSpan]:
    """Each revision of ``history`` (oldest first) for its own part of ``(after, upto]``, pauses included."""
    ends = [*(later.active_from for later in history[1:]), upto]
    parts = (
        DefinitionSpan(r.number, max(after, r.active_from), min(upto, end), r.counts_from)
        for r, end in zip(history, ends, strict=True)
    )
    return [part for part in parts if part.after < part.upto]


def one_definition(revision: Revision, after: int, upto: int) -> list[DefinitionSpan]:
    """One revision for all of ``(after, upto]``. Before the instant that its rates count from, they count from ``after``.

    A span ends where the rule took over from an earlier one: see ``spread_of``.
    """
    begun, decided = revision.counts_from, revision.definition.rule.decided
    edges = sorted({after, upto} | {at for at in (begun, decided) if at is not None and after < at < upto})
    return [
        DefinitionSpan(revision.number, start, end, after if end <= begun else begun) for start, end in pairwise(edges)
    ]


def spread_of(rule: Rule, span: DefinitionSpan) -> Rule:
    """The rule for a span: before it took over from an earlier rule, too, it moves all instants but those that are pending."""
    is_earlier = rule.decided is not None and span.upto <= rule.decided
    return replace(rule, decided=None) if is_earlier else rule


def survey(
    spans: Sequence[DefinitionSpan], table_of: TableOf, most: int
) -> tuple[list[DefinitionSpan], int, int | None, int | None]:
    """The spans that have fires, the number of fires, and the first and last fire. It ends with the fire after ``most``."""
    kept: list[DefinitionSpan] = []
    total, first, last = 0, None, None
    for span in spans:
        before = total
        for fire in fires(table_of(span), span.after, span.upto):
            first, last, total = fire if first is None else first, fire, total + 1
            if total > most:
                return kept, total, first, last
        if total > before:
            kept.append(span)
    return kept, total, first, last


def walk(backfill: StoredBackfill, table_of: TableOf) -> Iterator[int]:
    """The fires of a backfill beyond its cursor, in its order."""
    newest = backfill.order is BackfillOrder.NEWEST
    for span in reversed(backfill.spans) if newest else backfill.spans:
        after, upto = span.after, span.upto
        if backfill.cursor is not None:
            after, upto = (after, min(upto, backfill.cursor - 1)) if newest else (max(after, backfill.cursor), upto)
        if after < upto:
            yield from (descending if newest else fires)(table_of(span), after, upto)


def span_of(backfill: StoredBackfill, fire: int) -> DefinitionSpan:
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
