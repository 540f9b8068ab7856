"""Jobs that are taken from a tenant and given back, amid crashes, stalls, throttling and lost answers: nothing starts without its job."""

from __future__ import annotations

import pytest

from tests.support import simulate

SEEDS = tuple(range(4, 8))
MANY, PARTS = 1_000, 8


def refused_runs(seed: int) -> int:
    history = simulate.history_of(seed, "granted")
    assert history.judged() == [], f"python -m tests.support.simulate --kind granted --only {seed}"
    return history.stage.counts["refused runs"]


def test_nothing_starts_later_than_five_seconds_after_its_job_was_taken_away() -> None:
    assert sum(map(refused_runs, SEEDS)) > 5 * len(SEEDS)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_starts_without_its_job_in_many_histories(part: int) -> None:
    assert sum(map(refused_runs, range(part, MANY, PARTS))) > 5 * MANY // PARTS
