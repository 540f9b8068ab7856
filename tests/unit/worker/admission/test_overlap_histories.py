"""Random histories of exclusive schedules: at no time do more of their runs hold a lease than may, and everybody comes to an end.

Owners change policies, pause and resume, cancel runs; processes crash, stall, are throttled and never learn what their calls did.
``history(seed, …)`` repeats a failing seed.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.histories.exclusive import Exclusive
from tests.support.histories.history import FAR
from tests.support.histories.simulator import CALM, ROUGH, WILD, Faults
from tests.support.parts import in_turn


def history(seed: int, faults: Faults) -> tuple[list[str], Exclusive]:
    made = Exclusive(seed, faults)
    return made.run(), made


def many(seeds: range, faults: Faults) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        found, made = history(seed, faults)
        assert found == [], f"seed={seed} faults={faults}"
        totals.update(made.stage.counts)
        totals.update(str(run.state) for run in made.stage.memory.runs())
    return totals


@in_turn("faults", [CALM, ROUGH, WILD], ["calm", "rough", "wild"])
def test_no_history_lets_more_go_than_may(faults: Faults) -> None:
    totals = many(range(5), faults)
    print(dict(totals))  # noqa: T201 (what was tried)
    assert min(totals[what] for what in ("SUCCEEDED", "SKIPPED", "wait_for_turn", "pass_over")) > 1
    assert totals["terminate"] + totals["request_cancel"] > 3


@in_turn(
    ("faults", "seed"),
    [(CALM, 104), (WILD, 104), (CALM, 101), (WILD, 107)],
    ["calm-104", "wild-104", "calm-101", "wild-107"],
)
def test_clocks_have_no_say_in_it(faults: Faults, seed: int) -> None:
    assert many(range(seed, seed + 1), replace(faults, skew=FAR))["SUCCEEDED"] > 10


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_thousands_lets_more_go_than_may(name: str, faults: Faults) -> None:
    first = int(os.environ.get("SEED", "1000"))
    totals = many(range(first, first + int(os.environ.get("HISTORIES", "500"))), faults)
    print(name, dict(totals))  # noqa: T201 (the figures of the proof)
