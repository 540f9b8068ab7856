"""Random histories of the real flow: tickers, workers, owners and an undertaker at once, with crashes, stalls and lost answers.

A failing seed is printed; ``history(seed, …)`` repeats it exactly.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.histories.history import FAR, NEAR, History
from tests.support.histories.simulator import CALM, ROUGH, WILD, Faults
from tests.support.parts import in_turn


def history(seed: int, faults: Faults) -> tuple[list[str], History]:
    made = History(seed, faults)
    return made.run(), made


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
        totals.update(histories=1, calls=made.stage.calls, starts=len(made.seen.leases))
        totals.update(doubles=sum(fence > 1 for _, fence in made.seen.leases), steals=len(made.seen.stolen()))
        totals.update(early=sum(ms > NEAR for _, ms in made.seen.ahead()))
    return totals


# `make test` plays one of these, `make check` all.
SAMPLES = (
    [(faults, range(first, first + 2)) for faults in (CALM, ROUGH, WILD) for first in (0, 2)],
    [f"{name}-{first}" for name in ("calm", "rough", "wild") for first in (0, 2)],
)


def _proof_seeds() -> range:
    first = int(os.environ.get("SEED", "1000"))
    return range(first, first + int(os.environ.get("HISTORIES", "500")))


@in_turn(("faults", "seeds"), *SAMPLES)
def test_no_history_breaks_a_promise(faults: Faults, seeds: range) -> None:
    totals = many(seeds, faults)
    print(dict(totals))  # noqa: T201 (what a failing history is repeated with)
    assert totals["starts"] > 40


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_thousands_breaks_a_promise(name: str, faults: Faults) -> None:
    totals = many(_proof_seeds(), faults)
    print(name, dict(totals))  # noqa: T201 (what a failing history is repeated with)


@in_turn(("faults", "seeds"), *SAMPLES)
def test_clocks_ten_seconds_off_break_no_promise(faults: Faults, seeds: range) -> None:
    """Without faults no start is a second one, but for the attempts of a job that failed: the oracle knows those."""
    totals = many(seeds, replace(faults, skew=NEAR))
    assert totals["starts"] > 40


@in_turn(("faults", "seeds"), *SAMPLES)
def test_clocks_ninety_seconds_off_start_runs_early_late_or_twice_and_lose_none(faults: Faults, seeds: range) -> None:
    """Nor does anything start after a stop, or an at-most-once run twice: no clock has a say in that."""
    totals = many(seeds, replace(faults, skew=FAR))
    assert totals["starts"] > 40
    assert totals["early"] > 0, "this is what such clocks do; where it does not happen, nothing was tried"


@pytest.mark.proof
@pytest.mark.parametrize("skew", [NEAR, FAR])
@pytest.mark.parametrize("faults", [CALM, ROUGH, WILD], ids=["calm", "rough", "wild"])
def test_no_history_of_thousands_under_clocks_apart_loses_anything(faults: Faults, skew: int) -> None:
    totals = many(_proof_seeds(), replace(faults, skew=skew))
    print(skew, dict(totals))  # noqa: T201 (the figures of the proof)


@pytest.mark.check
def test_a_seed_is_a_history() -> None:
    """That of tests/proof/test_simulator.py says so of a history with everything in it."""
    one, other = history(7, ROUGH)[1], history(7, ROUGH)[1]
    assert one.stage.calls == other.stage.calls
    assert one.stage.counts == other.stage.counts
    assert list(one.seen.leases) == list(other.seen.leases)
