"""Which lane a run takes, what each lane keeps, and which one gets the next slot."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import lane_for, next_lane, percentages, shared_out
from quarterjack.domain.times import DAY, HOUR

HIGH, NORMAL, LOW = Priority
SHARES = percentages()


@pytest.mark.parametrize(
    ("priority", "waited", "lane"),
    [
        (LOW, DAY, NORMAL),
        (LOW, DAY - 1, LOW),
        (LOW, -HOUR, LOW),  # not due yet
        (NORMAL, 2 * DAY, NORMAL),
        (HIGH, 2 * DAY, HIGH),
    ],
)
def test_a_low_run_that_has_waited_a_day_takes_the_normal_lane(priority: Priority, waited: int, lane: Priority) -> None:
    assert lane_for(priority, 10 * DAY, 10 * DAY + waited, DAY) is lane


def test_the_shares_are_all() -> None:
    assert SHARES == {HIGH: 50, NORMAL: 40, LOW: 10}
    for low in range(1, 51):
        shares = percentages(low)
        assert sum(shares.values()) == 100
        assert shares[LOW] == low
        assert shares[HIGH] >= shares[NORMAL] > 0


@given(total=st.integers(6, 1_000), low=st.integers(1, 50))
def test_functions_are_shared_out_exactly(total: int, low: int) -> None:
    found = shared_out(total, 2, low)
    assert sum(found.values()) == total
    assert min(found.values()) >= 2
    assert found[LOW] >= min(total * low // 100, total - 4)


def test_functions_of_a_few_totals() -> None:
    assert shared_out(6, 2) == {HIGH: 2, NORMAL: 2, LOW: 2}
    assert shared_out(500, 2) == {HIGH: 250, NORMAL: 200, LOW: 50}
    assert shared_out(10, 2) == {HIGH: 4, NORMAL: 4, LOW: 2}


def started(waiting: dict[Priority, int], slots: int, runs: int) -> list[Priority]:
    """The lanes of the next runs to start: each takes as long as every other, one ends at a time."""
    left, running = Counter(waiting), deque[Priority]()
    starts = list[Priority]()
    while len(starts) < runs:
        if len(running) == slots:
            running.popleft()
        lane = next_lane([lane for lane in left if left[lane]], Counter(running), slots, len(starts), SHARES)
        if lane is None:
            break
        left[lane] -= 1
        running.append(lane)
        starts.append(lane)
    return starts


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 7, 10, 20, 64, 100])
def test_where_all_lanes_are_crowded_each_has_its_share_of_the_starts(slots: int) -> None:
    starts = Counter(started({HIGH: 9_999, NORMAL: 9_999, LOW: 9_999}, slots, 2_000))
    assert 0.1 <= starts[LOW] / 2_000 <= 0.2
    assert starts[NORMAL] / 2_000 >= 0.25
    assert starts[HIGH] / 2_000 >= 0.4


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 7, 10, 20, 64])
@pytest.mark.parametrize("other", [HIGH, NORMAL])
def test_low_keeps_a_tenth_beside_one_other_lane(slots: int, other: Priority) -> None:
    starts = Counter(started({other: 9_999, LOW: 9_999}, slots, 2_000))
    assert 0.1 <= starts[LOW] / 2_000 <= 0.2


@pytest.mark.parametrize("lane", list(Priority))
def test_an_empty_lane_keeps_no_slot(lane: Priority) -> None:
    assert started({lane: 100}, 10, 100) == [lane] * 100


@pytest.mark.parametrize("slots", [1, 2, 10, 20])
def test_high_is_next_although_low_has_every_slot(slots: int) -> None:
    used = Counter({LOW: slots - 1})  # one has just ended
    first = [next_lane([HIGH, LOW], used, slots, turn, SHARES) for turn in range(10)]
    assert first.count(HIGH) >= 9 if slots == 1 else set(first) == {HIGH}


def test_no_lane_gets_a_slot_that_nobody_wants() -> None:
    assert next_lane([], {}, 10, 0, SHARES) is None
