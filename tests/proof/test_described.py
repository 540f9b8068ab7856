"""What owners are shown of a schedule is what it was at one instant, and an end that was shown or returned holds."""

from __future__ import annotations

import pytest

from tests.support import simulate

SEEDS = (4, 6, 9)  # before heads were read twice: revisions of another instant, no next fires, a chain called missing
MANY, PARTS = 2_000, 8


def holds(seed: int) -> int:
    found = simulate.play(seed, "described")
    assert found.violations == [], f"python -m tests.support.simulate --kind described --only {seed}"
    return sum(len(lasted) for lasted in found.durations.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_is_of_one_instant_and_an_end_holds(seed: int) -> None:
    assert holds(seed) > 20, "acts were done"


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_a_view_is_of_one_instant_and_an_end_holds_in_many_histories(part: int) -> None:
    assert sum(map(holds, range(part, MANY, PARTS))) > 20 * MANY // PARTS
