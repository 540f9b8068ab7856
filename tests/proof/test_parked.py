"""Jobs that wait amid crashes, stalls, throttling and lost answers: each wait is answered once, none is missed, every run ends."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(4))
MANY, PARTS = 1_600, 8


def counts(seed: int) -> Counter[str]:
    """What happened in a history, after it was judged."""
    history = simulate.history_of(seed, "parked")
    assert history.judged() == [], f"python -m tests.support.simulate --kind parked --only {seed}"
    return history.stage.counts


@in_rotation(of=4)
def test_every_wait_is_answered_once() -> None:
    seen = sum(map(counts, SEEDS), Counter[str]())
    assert seen["parks"] > 100 * len(SEEDS)
    assert seen["wakes"] > 20 * len(SEEDS)
    assert min(seen["signals accepted"], seen["signals answered"], seen["cancelled parked"]) > 0


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_every_wait_is_answered_once_in_many_histories(part: int) -> None:
    assert sum(counts(seed)["parks"] for seed in range(part, MANY, PARTS)) >= 200_000 // PARTS
