"""Every answer of ``why`` agrees with what the simulator knows, whenever it is asked, under all faults."""

from __future__ import annotations

import pytest
from minutehand import Verdict

from tests.support import simulate

SEEDS = (
    1,
    4,
    13,
    18,
    22,
    45,
)  # found: a drain that became a deletion, a fire in the asked second, a later run that cancels
MANY, PARTS = 1_000, 8
SEEN = 180  # answers of a history at least, on average


def answers_of(seed: int) -> int:
    found = simulate.play(seed, "why")
    assert found.violations == [], f"python -m tests.support.simulate --kind why --only {seed}"
    return sum(len(each) for each in found.durations.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_agrees_with_the_history(seed: int) -> None:
    assert answers_of(seed) > 50


def test_histories_have_every_verdict() -> None:
    """What a few seeds do not come to is rare, and named here."""
    seen = set().union(*(simulate.play(seed, "why").durations for seed in (1, 4, 8)))
    rare = {
        Verdict.SHADOWED,
        Verdict.EXPIRED,
        Verdict.VANISHED,
        Verdict.LOST,
        Verdict.UNKNOWN,
        Verdict.OVERLAPPED,
        Verdict.MISSED,
    }
    assert {f"answered {verdict}" for verdict in set(Verdict) - rare} <= seen


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_every_answer_agrees_in_many_histories(part: int) -> None:
    assert sum(map(answers_of, range(part, MANY, PARTS))) > SEEN * MANY // PARTS
