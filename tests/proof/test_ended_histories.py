"""Schedules whose fires end at an instant ahead amid crashes, stalls and throttling: each fire up to then starts, none beyond."""

from __future__ import annotations

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(6))
MANY, PARTS = 400, 4


def ended(seed: int) -> int:
    history = simulate.history_of(seed, "ended")
    assert history.judged() == [], f"python -m tests.support.simulate --kind ended --only {seed}"
    return history.stage.counts["ended ahead"]


@in_rotation(of=4)
def test_every_fire_up_to_an_end_ahead_starts_and_none_beyond() -> None:
    assert sum(map(ended, SEEDS)) >= 2 * len(SEEDS)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_every_fire_up_to_an_end_ahead_starts_in_many_histories(part: int) -> None:
    assert sum(map(ended, range(part, MANY, PARTS))) > 2 * MANY // PARTS
