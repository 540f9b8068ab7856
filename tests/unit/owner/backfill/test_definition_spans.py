"""Definition spans: the fires of an interval, walked in either order, from anywhere, under the definitions that a schedule had."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.owner.backfill.spans import descending, one_definition, own_definitions, span_of, survey, walk
from quarterjack.state.backfill import BackfillOrder, DefinitionSpan, StoredBackfill
from quarterjack.timing import Rule, Timetable, fires, timetable

from tests.support.builders import NOON, a_definition, a_revision

EXPRESSIONS = (
    "rate(1 second)",
    "rate(7 seconds)",
    "* * * * *",
    "*/15 9-17 * * MON-FRI",
    "0 0 1 1 *",
    "at(2026-06-01T00:00:00)",
)
expressions = st.sampled_from(EXPRESSIONS)


def table(expression: str) -> Timetable:
    return timetable(Rule.of(expression), anchor=NOON, key="acme/s")


@given(expressions, st.integers(-DAY, DAY), st.integers(0, 4 * 3_600 * SECOND))
@settings(deadline=None, max_examples=50)
def test_descending_is_ascending_read_backwards(expression: str, first: int, length: int) -> None:
    after = NOON + first
    found = list(descending(table(expression), after, after + length))
    assert found == list(fires(table(expression), after, after + length))[::-1]


def test_a_century_without_fires_is_walked_backwards_at_once() -> None:
    assert list(descending(table("0 0 1 1 *"), NOON - 1_000 * DAY, NOON)) != []
    assert list(descending(table("at(2090-01-01T00:00:00)"), NOON - 36_500 * DAY, NOON)) == []


parts = st.lists(st.tuples(expressions, st.integers(1, 40 * 60)), min_size=1, max_size=5)


def a_backfill(spans: tuple[DefinitionSpan, ...], order: BackfillOrder) -> StoredBackfill:
    return StoredBackfill(
        id="b",
        tenant="acme",
        name="s",
        born=NOON,
        start=NOON,
        end=NOON + DAY,
        order=order,
        concurrency=3,
        spans=spans,
        total=0,
        first=None,
        last=None,
        created_at=NOON,
    )


@given(parts, st.sampled_from(BackfillOrder), st.data())
@settings(deadline=None, max_examples=60)
def test_a_walk_goes_on_beyond_any_cursor(
    given_parts: list[tuple[str, int]], order: BackfillOrder, data: st.DataObject
) -> None:
    ends = [NOON]
    for _, length in given_parts:
        ends.append(ends[-1] + length * SECOND)
    spans = [DefinitionSpan(n, after, upto, NOON) for n, (after, upto) in enumerate(pairwise(ends))]
    kept, total, first, last = survey(spans, lambda part: table(given_parts[part.revision][0]), 10**6)
    backfill = a_backfill(tuple(kept), order)

    def walked(cursor: int | None = None) -> list[int]:
        return list(walk(replace(backfill, cursor=cursor), lambda part: table(given_parts[part.revision][0])))

    everything = walked()
    due = [f for n, part in enumerate(spans) for f in fires(table(given_parts[n][0]), part.after, part.upto)]
    assert everything == (due if order is BackfillOrder.OLDEST else due[::-1])
    assert (total, first, last) == (len(due), due[0] if due else None, due[-1] if due else None)
    if everything:
        place = data.draw(st.integers(0, len(everything) - 1))
        assert walked(everything[place]) == everything[place + 1 :]
        assert span_of(backfill, everything[place]) in kept


def test_each_revision_has_its_own_time_and_a_pause_belongs_to_what_was_paused() -> None:
    first = a_revision(1, active_from=NOON, active_until=NOON + MINUTE)
    paused = a_revision(2, active_from=NOON + MINUTE, active_until=NOON + 2 * MINUTE)
    resumed = a_revision(3, active_from=NOON + 9 * MINUTE)
    history = [first, paused, resumed]
    assert own_definitions(history, NOON - DAY, NOON + DAY) == [
        DefinitionSpan(1, NOON, NOON + MINUTE, NOON),
        DefinitionSpan(2, NOON + MINUTE, NOON + 9 * MINUTE, NOON + MINUTE),
        DefinitionSpan(3, NOON + 9 * MINUTE, NOON + DAY, NOON + 9 * MINUTE),
    ]
    assert own_definitions(history, NOON + 3 * MINUTE, NOON + 4 * MINUTE) == [
        DefinitionSpan(2, NOON + 3 * MINUTE, NOON + 4 * MINUTE, NOON + MINUTE)
    ]
    assert own_definitions(history, NOON - DAY, NOON - MINUTE) == []


def test_one_definition_keeps_the_phase_that_it_had_and_counts_from_the_start_before_that() -> None:
    revision = replace(a_revision(4, active_from=NOON), definition=a_definition("rate(1 minute)"))
    assert one_definition(revision, NOON - DAY, NOON + DAY) == [
        DefinitionSpan(4, NOON - DAY, NOON, NOON - DAY),
        DefinitionSpan(4, NOON, NOON + DAY, NOON),
    ]
    assert one_definition(revision, NOON + 1, NOON + 2) == [DefinitionSpan(4, NOON + 1, NOON + 2, NOON)]
