"""One-offs that are moved to and fro start once, at the time that they have last, and the history has them there."""

from __future__ import annotations

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(10))
RECORDED = (0, 1, 3)
MANY, PARTS = 1_000, 8


def moves(seed: int, kind: str = "moved") -> int:
    history = simulate.history_of(seed, kind)
    assert history.judged() == [], f"python -m tests.support.simulate --kind '{kind}' --only {seed}"
    return history.stage.counts["moved"]


@in_rotation(of=6)
def test_a_moved_run_starts_once_at_its_last_time() -> None:
    assert sum(map(moves, SEEDS)) > 10 * len(SEEDS)


@pytest.mark.parametrize("seed", RECORDED)
@in_rotation(of=6)
def test_the_history_has_a_moved_run_at_its_last_place(seed: int) -> None:
    assert moves(seed, "recorded moves") > 2


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_a_moved_run_starts_once_at_its_last_time_in_many_histories(part: int) -> None:
    assert sum(map(moves, range(part, MANY, PARTS))) > 10 * MANY // PARTS
