"""Pipelines amid crashes, stalls, throttling and changed definitions: each run of one does what its graph demands, and ends."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support import simulate
from tests.support.parts import in_rotation

SEEDS = tuple(range(4))
MANY, PARTS = 640, 8


def counts(seed: int) -> Counter[str]:
    """What happened in a history, after it was judged."""
    return simulate.counts_of(seed, "pipelines")


@in_rotation(of=6)
def test_what_ran_is_what_its_graph_demands() -> None:
    seen = sum(map(counts, SEEDS), Counter[str]())
    assert seen["task runs"] > 100 * len(SEEDS)
    assert min(seen["cancelled CANCELLED"], seen["skipped"], seen["retried"], seen["pipelines DEAD"]) > 5
    assert seen["pipelines SUCCEEDED"] > 10


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_what_ran_is_what_its_graph_demands_in_many_histories(part: int) -> None:
    runs = sum(counts(seed)["task runs"] for seed in range(part, MANY, PARTS))
    print(f"{runs:,} runs of tasks")  # noqa: T201 (a figure to report)
    assert runs >= 200_000 // PARTS
