"""Counts of a tick: each step returns its own, and the caller adds them."""

from __future__ import annotations

from quarterjack.errors import Unavailable
from quarterjack.fires.context import (
    LATE_SEND,
    NOTHING,
    EntryCounts,
    FireCounts,
    MissedFires,
    TickCounts,
    failed_at,
    left,
    sends,
)

from tests.support.builders import a_run, a_run_entry

ENTRY = a_run_entry(a_run().ref)
MISS = MissedFires(tenant="acme", schedule="s", late=2, skipped=3)


def test_counts_are_added_by_name() -> None:
    one = TickCounts(agenda=EntryCounts(entries=2, left=1), fires=FireCounts(claimed=5, misses=(MISS,)))
    other = TickCounts(agenda=EntryCounts(left=3), fires=FireCounts(misses=(MISS,)))
    both = one + other
    assert both == TickCounts(agenda=EntryCounts(entries=2, left=4), fires=FireCounts(claimed=5, misses=(MISS, MISS)))
    assert (both.fires.missed, both.fires.skipped) == (4, 6)
    assert (one.agenda.left, other.agenda.left) == (1, 3), "neither is changed"


def test_nothing_adds_nothing() -> None:
    one = left(1)
    assert one + NOTHING is one
    assert NOTHING + one == one
    assert left(0) is NOTHING


def test_an_entry_that_fails_by_itself_is_told_and_one_without_an_answer_is_left() -> None:
    odd = ValueError("odd")
    assert failed_at(ENTRY, odd).agenda == EntryCounts(failures=((ENTRY, odd),))
    assert failed_at(ENTRY, Unavailable("no answer")) == left(1)


def test_a_message_that_was_accepted_ahead_has_no_lag() -> None:
    found = sends([1_000, 100_000, 0], [True, True, False], 2_000 + LATE_SEND)
    assert (found.sent, found.send_failed, found.sent_late) == (2, 1, 1)
    assert (found.lags, found.lag) == ((1_000 + LATE_SEND, 0), 1_000 + LATE_SEND)


def test_a_log_line_has_every_number_by_its_name() -> None:
    names = "entries done held left failed quarantined claimed taken_over resent missed skipped sent send_failed sent_late lag"
    assert NOTHING.numbers().keys() == {*names.split(), *["cut", "completed", "lost", "told", "incidents", "recovered"]}
