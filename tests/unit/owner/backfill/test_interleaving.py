"""Random histories of backfills beside live fires: owners, tickers and workers that crash, stall and race, judged from outside.

Everything that ``tests.unit.flow`` promises of a history holds here as well. A failing seed is printed.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.support.histories.filling import Filling
from tests.support.histories.simulator import CALM, ROUGH, WILD, Faults
from tests.support.parts import in_turn


def history(seed: int, faults: Faults) -> tuple[list[str], Filling]:
    made = Filling(seed, faults)
    return made.run() + made.violations(), made


def many(seeds: range, faults: Faults) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        try:
            found, made = history(seed, faults)
        except BaseException:
            print(f"seed={seed} faults={faults}")  # noqa: T201 (what a failing history is repeated with)
            raise
        assert found == [], f"seed={seed} faults={faults}"
        totals.update(made.stage.counts)
        totals.update(filled=sum(len(begun) for begun in made.begun.values()))
    return totals


@in_turn("faults", [CALM, ROUGH, WILD], ["calm", "rough", "wild"])
def test_no_history_with_backfills_breaks_a_promise(faults: Faults) -> None:
    totals = many(range(4, 10), faults)
    print(dict(totals))  # noqa: T201 (what a failing history is repeated with)
    assert totals["filled"] >= 10
    assert totals["backfills DONE"] > 0


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_many_with_backfills_breaks_a_promise(name: str, faults: Faults) -> None:
    first = int(os.environ.get("SEED", "1000"))
    totals = many(range(first, first + int(os.environ.get("HISTORIES", "200"))), faults)
    print(name, dict(totals))  # noqa: T201 (what a failing history is repeated with)
