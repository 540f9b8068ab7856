"""Windows and jitter: fires moved later by an amount that everybody computes alike."""

from __future__ import annotations

from itertools import islice
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack.timing import Rule, fires, timetable
from quarterjack.timing.timetables import LATEST

from tests.support.timing.expressions import at, ms

BEGIN, END = ms("2026-03-01"), ms("2026-03-03")
EXPRESSIONS = ["* * * * *", "*/10 * * * * *", "0 * * * *", "7,8 */6 * * *", "rate(45 minutes)", "0 9 * * 1"]


def between(expression: str, key: str | None = "k", **policies: Any) -> list[int]:
    return list(fires(timetable(Rule(expression=expression, **policies), anchor=BEGIN, key=key), BEGIN, END))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(EXPRESSIONS), st.integers(1, 86_400), st.text(max_size=5), st.integers(0, 3_600_000))
def test_a_window_keeps_order_and_count_and_each_fire_within_it(
    expression: str, window: int, key: str, into: int
) -> None:
    plain = timetable(Rule(expression=expression), anchor=BEGIN)
    moved = timetable(Rule(expression=expression, window=window), anchor=BEGIN, key=key)
    base = list(islice(fires(plain, BEGIN, LATEST), 40))
    later = list(islice(fires(moved, base[0] - 1, LATEST), 40))
    assert all(fire <= to < fire + window * 1000 for fire, to in zip(base, later, strict=True))
    assert all(to < following for to, following in zip(later, base[1:], strict=False))
    asked = base[0] + into
    found = moved.next(asked)
    assert found is not None
    assert asked < found
    assert asked >= later[-1] or found in later
    assert not [to for to in later if asked < to < found]


def test_a_herd_spreads_over_its_window() -> None:
    moved = [between("0 * * * *", key=f"acme/{n}", window=900)[0] for n in range(600)]
    minutes = [(fire - BEGIN) // 60_000 % 60 for fire in moved]
    assert set(minutes) == set(range(15))
    assert max(minutes.count(minute) for minute in range(15)) < 65  # 40 on average


def test_jitter_depends_on_its_seed_and_not_on_the_identity() -> None:
    a, b = (between("0 * * * *", key=key, jitter=900, seed="s") for key in ("a", "b"))
    assert a == b != between("0 * * * *", key="a", jitter=900, seed="t")
    assert between("0 * * * *", key=None, jitter=900, seed="s") == a


def test_no_fire_moves_past_the_end() -> None:
    for n in range(50):
        moved = between("0 12 * * *", key=str(n), window=3600, end=at("2026-03-01T12:00:05"))
        assert len(moved) == 1
        assert moved[0] <= ms("2026-03-01T12:00:05")


def test_the_last_fire_moves_within_its_window_too() -> None:
    moved = {between("at(2026-03-01T12:00:00)", key=str(n), window=60)[0] for n in range(50)}
    assert min(moved) >= ms("2026-03-01T12:00")
    assert max(moved) < ms("2026-03-01T12:01")
    assert len(moved) > 20


def test_the_instants_are_frozen() -> None:
    """Another hash would move every such schedule that runs."""
    assert between("0 12 * * *", key="acme/nightly", window=3600) == [1_772_366_417_000, 1_772_455_192_000]
