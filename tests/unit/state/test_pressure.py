"""When a queue is held back, when it is let go, and what is remembered of it."""

from __future__ import annotations

import json

import pytest
from quarterjack.domain.policies import Priority
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.backpressure import (
    FLOOR,
    GRACE,
    HoldLog,
    HoldPeriod,
    Limits,
    QueueDepth,
    QueueHolds,
    asks_for_age,
    excused,
    full,
    parse_hold_log,
    patience,
    reason_to_hold,
)

NOON = 1_777_896_000_000
LIMITS = Limits(depth=1_000, age=600 * SECOND)


@pytest.mark.parametrize(
    ("waiting", "at_hand", "age", "held", "why"),
    [
        (999, 0, None, False, None),
        (1_000, 0, None, False, "depth"),
        (0, 1_000, None, False, "depth"),  # what is at hand counts: SQS gives out so many and no more
        (500, 500, None, False, "depth"),
        (600, 0, None, True, "depth"),  # on the way down it is let go at the half
        (500, 0, None, True, "depth"),
        (499, 0, None, True, None),
        (10, 0, 599_999, False, None),
        (10, 0, 600_000, False, "age"),
        (10, 0, 300_000, True, "age"),
        (10, 0, 299_999, True, None),
        (0, 0, None, True, None),
    ],
)
def test_held_at_the_limit_and_let_go_at_half_of_it(
    *, waiting: int, at_hand: int, age: int | None, held: bool, why: str | None
) -> None:
    load = QueueDepth(waiting=waiting, at_hand=at_hand, delayed=10**6)
    assert reason_to_hold(load, age, LIMITS, held=held) == why


def test_a_depth_of_nought_never_holds() -> None:
    assert reason_to_hold(QueueDepth(waiting=10**6, at_hand=10**6), 10**9, Limits(depth=0), held=False) is None


def test_a_depth_of_one_lets_go_when_nothing_is_left() -> None:
    assert reason_to_hold(QueueDepth(waiting=0, at_hand=0), None, Limits(depth=1), held=True) is None


def test_the_fullest_stripe_decides() -> None:
    loads = [
        QueueDepth(waiting=1, at_hand=5),
        QueueDepth(waiting=9, at_hand=0),
        QueueDepth(waiting=0, at_hand=0, delayed=99),
    ]
    assert full(loads) == loads[1]
    assert full([]) is None
    for lane in Priority:
        assert asks_for_age(loads, lane) is (lane is Priority.LOW), "of which few are taken"
        assert asks_for_age([*loads, QueueDepth(waiting=FLOOR, at_hand=0)], lane)
    assert not asks_for_age([QueueDepth(waiting=0, at_hand=9)], Priority.LOW)
    assert (patience(LIMITS, held=False), patience(LIMITS, held=True)) == (600_000, 300_000)


def test_spells_begin_end_and_go_on() -> None:
    first = QueueHolds().begun(NOON, "depth", 50_000, None)
    assert first.now == HoldPeriod(since=NOON)
    over = first.ended(NOON + MINUTE)
    assert (over.now, over.periods) == (None, (HoldPeriod(since=NOON, until=NOON + MINUTE),))
    soon = over.begun(NOON + 2 * MINUTE, "age", 2_000, 700_000)
    assert soon.periods == (HoldPeriod(since=NOON),), "flapping makes one spell"
    assert (soon.why, soon.depth, soon.age) == ("age", 2_000, 700_000)
    later = over.begun(NOON + 60 * MINUTE, "depth", 1, None)
    assert len(later.periods) == 2
    assert excused(later) == [(NOON, NOON + MINUTE + GRACE), (NOON + 60 * MINUTE, None)]


def test_of_many_spells_none_is_forgotten() -> None:
    held = QueueHolds()
    for hour in range(40):
        held = held.begun(NOON + hour * 60 * MINUTE, "depth", 1, None).ended(NOON + hour * 60 * MINUTE + MINUTE)
    assert len(held.periods) == 16
    spells = excused(held)
    for hour in range(40):
        fire = NOON + hour * 60 * MINUTE + SECOND
        assert any(since <= fire and until is not None and fire <= until for since, until in spells)


def test_a_book_comes_back_from_json_as_it_was() -> None:
    book = HoldLog(
        queues={
            None: QueueHolds().begun(NOON, "depth", 7, None),
            "reports": QueueHolds().begun(NOON, "age", 7, 600_000).ended(NOON + 1),
        }
    )
    assert parse_hold_log(json.loads(json.dumps(book.body()))) == book
    assert parse_hold_log({}) == HoldLog()
    assert book.of("mail") == QueueHolds()
