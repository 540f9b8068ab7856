"""Concurrency caps amid crashes, stalls, throttling and lost answers: live leases never exceed them, and whoever waits comes in turn."""

from __future__ import annotations

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(4))
MANY, PARTS = 1_000, 8
KINDS = ("capped", "flow")


def full(seed: int, kind: str) -> int:
    """How often a lease was granted or renewed while as many were live as the cap lets."""
    history = simulate.history_of(seed, kind)
    assert history.judged() == [], f"python -m tests.support.simulate --kind {kind} --only {seed}"
    return history.stage.counts["full"]


@in_rotation(of=6)
@pytest.mark.parametrize("kind", KINDS)
def test_live_leases_never_exceed_the_caps(kind: str) -> None:
    assert sum(full(seed, kind) for seed in SEEDS) > len(SEEDS)


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_live_leases_never_exceed_the_caps_in_many_histories(part: int, kind: str) -> None:
    assert sum(full(seed, kind) for seed in range(part, MANY, PARTS)) > MANY // PARTS
