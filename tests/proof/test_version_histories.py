"""Two application versions side by side amid crashes, stalls and throttling: a pinned run starts on workers of its version alone."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(4))
MANY, PARTS = 400, 4


def counts(seed: int) -> Counter[str]:
    """What happened in a history, after it was judged."""
    return simulate.counts_of(seed, "versions")


def check_receives(seen: Counter[str]) -> None:
    """Two versions side by side cost at most two receives more for each start."""
    starts = sum(number for name, number in seen.items() if name.startswith("leases of "))
    assert starts / 2 < seen["given back"] <= 2 * starts


@in_rotation(of=4)
def test_a_pinned_run_starts_on_its_version_alone() -> None:
    seen = sum(map(counts, SEEDS), Counter[str]())
    assert min(seen["leases of v1"], seen["leases of v2"]) > 20
    assert min(seen["rolled out"], seen["reassigned"]) > 0
    check_receives(seen)


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_a_pinned_run_starts_on_its_version_alone_in_many_histories(part: int) -> None:
    seen = sum((counts(seed) for seed in range(part, MANY, PARTS)), Counter[str]())
    assert min(seen["leases of v1"], seen["leases of v2"]) > 1_000
    check_receives(seen)
