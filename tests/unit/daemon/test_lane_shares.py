"""The slots of a worker process with lanes: who takes them, who waits, who is let go first."""

from __future__ import annotations

import threading

import pytest
from quarterjack.daemon.lane_shares import LaneShares
from quarterjack.domain.policies import Priority

HIGH, NORMAL, LOW = Priority
NOW = 0.0  # seconds to wait for a slot
PATIENCE = 20.0


def test_one_lane_takes_what_is_free_and_no_more() -> None:
    slots = LaneShares(5)
    assert (slots.take(NORMAL, 3, timeout=NOW), slots.take_free(NORMAL, 9), slots.free) == (3, 2, 0)
    assert (slots.take(NORMAL, 1, timeout=NOW), slots.take_free(NORMAL, 1)) == (0, 0)
    slots.release(NORMAL, 2)
    assert (slots.free, slots.take(NORMAL, 9, timeout=NOW)) == (2, 2)


def test_low_takes_every_slot_while_nobody_else_wants_one() -> None:
    assert LaneShares(10).take(LOW, 10, timeout=NOW) == 10


def test_a_crowded_lane_is_left_its_slots_while_its_poller_is_away() -> None:
    slots = LaneShares(10)
    assert slots.take(LOW, 8, timeout=NOW) == 8
    slots.polled(HIGH, 0, full=True)
    assert slots.are_wanted(besides=LOW)
    assert not slots.are_wanted(besides=HIGH)
    assert slots.take_free(LOW, 2) == 0, "low has more than its share"
    assert slots.take_free(HIGH, 1) == 1
    slots.polled(HIGH, 0, full=False)
    assert slots.take_free(LOW, 2) == 1


def test_a_lane_waits_no_longer_for_a_poller_that_is_away_than_it_has_time() -> None:
    slots = LaneShares(10)
    slots.take(LOW, 8, timeout=NOW)
    slots.polled(HIGH, 0, full=True)
    assert slots.take(LOW, 2, timeout=NOW) == 1, "one, and the others are left"


def test_low_has_its_share_first_and_high_the_rest() -> None:
    slots = LaneShares(10)
    slots.polled(LOW, 0, full=True)
    assert slots.take_free(HIGH, 10) == 0, "low has none of its slot yet"
    assert slots.take_free(LOW, 10) == 1 + 9, "nobody else wants the rest"
    slots.release(LOW, 10)
    slots.polled(HIGH, 0, full=True)
    assert slots.take_free(LOW, 10) == 1
    assert slots.take_free(HIGH, 10) == 9


def test_two_pollers_of_a_lane_are_crowded_each_for_itself() -> None:
    slots = LaneShares(2)
    slots.polled(HIGH, 0, full=True)
    slots.polled(HIGH, 1, full=True)
    slots.polled(HIGH, 0, full=False)
    assert slots.are_wanted(besides=LOW)
    slots.polled(HIGH, 1, full=False)
    assert not slots.are_wanted(besides=LOW)


def test_a_slot_that_becomes_free_goes_to_who_waits() -> None:
    slots, taken = LaneShares(1), list[int]()
    assert slots.take(NORMAL, 1, timeout=NOW) == 1
    waiting = threading.Thread(target=lambda: taken.append(slots.take(HIGH, 1, timeout=PATIENCE)))
    waiting.start()
    slots.release(NORMAL)
    waiting.join(PATIENCE)
    assert taken == [1]


@pytest.mark.parametrize("late", [LOW, NORMAL])
def test_slots_that_move_to_another_lane_leave_their_own_to_the_next(late: Priority) -> None:
    slots = LaneShares(10)
    assert slots.take(LOW, 1, timeout=NOW) == 1
    slots.move(LOW, NORMAL, 1)
    slots.polled(HIGH, 0, full=True)
    assert slots.take_free(LOW, 1) == 1, "low has its slot again"
    assert slots.take_free(late, 1) == (0 if late is LOW else 1)
    slots.release(NORMAL, 1)
    assert slots.free == (9 if late is LOW else 8)
