"""The product's capacity model: it agrees with the simulation, its remedy works there, and its figures are those of the code."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.times import SECOND
from quarterjack.fires.context import LOOKAHEAD
from quarterjack.settings import DEFAULT_SHARDS, DEFAULT_TICKER_WRITES
from quarterjack.state.capacity.figures import AHEAD, INPUTS, SHARDS, TICKER_WRITES
from quarterjack.state.capacity.model import GOAL, QUIET, Stack, is_late, late_words, lateness, window
from quarterjack.state.capacity.walls import walls

from bench.modelled.scenarios import INSTALLED, PROVISIONED, TICKERS, answer, burst, spread_burst
from bench.modelled.settings import Setting
from tests.support.parts import in_turn

DEFAULT = replace(INSTALLED, functions=500)  # with the limit that the construct sets
B = Stack(shards=64, writes=40_000, ticker_writes=16_000, functions=1_000)
C = Stack(shards=64, writes=40_000, ticker_writes=16_000, functions=3_000, stripes=2, pollers=100, warm=True)
PAIRS = {
    "default": (DEFAULT, Stack()),
    "two stripes": (replace(DEFAULT, queues=2), Stack(stripes=2)),
    "jobs of 1 s": (replace(DEFAULT, job_ms=1_000), Stack(job_ms=1_000)),
    "warm": (replace(DEFAULT, warm_functions=500), Stack(warm=True)),
    "B": (TICKERS, B),
    "C": (PROVISIONED, C),
}


@in_turn("fires", [1_000, 5_000, 20_000, 100_000, 600_000], ["1,000", "5,000", "20,000", "100,000", "600,000"])
@pytest.mark.parametrize(("setting", "stack"), PAIRS.values(), ids=PAIRS)
def test_the_model_agrees_with_the_simulation(fires: int, setting: Setting, stack: Stack) -> None:
    assert lateness(fires, stack) == pytest.approx(answer(burst(fires), setting)["p99_s"], rel=0.06, abs=1.0)


@pytest.mark.parametrize("fires", [1_000, 5_000, 20_000])
def test_a_window_of_the_model_is_enough_in_the_simulation(fires: int) -> None:
    seconds = window(fires, Stack())
    assert seconds is not None
    assert answer(spread_burst(fires, window=seconds), DEFAULT)["p99_s"] <= GOAL + 0.2
    assert answer(burst(fires), DEFAULT)["p99_s"] > GOAL + 1


def test_20_000_fires_of_an_instant_on_the_default_stack_are_said_to_be_late() -> None:
    said = late_words(20_000, "2026-05-04 12:00:00 UTC", "default", Stack())
    assert said is not None
    assert "20,000 fires of queue default are due at 2026-05-04 12:00:00 UTC" in said
    assert "the last of them start 12 s late; spread them by Rule(window=60)" in said
    assert late_words(20_000, "", "default", replaced(C, functions=6_000)) is None, "200 pollers start them in time"


def test_the_docs_name_the_fewest_fires_that_are_late() -> None:
    text = Path("docs/explanation/limits.md").read_text(encoding="utf-8")
    found = re.search(r"On the default stack ([\d,]+) fires .* (\d+),000 take (\d+) s\.", text)
    assert found is not None
    fewest, thousands, seconds = (int(part.replace(",", "")) for part in found.groups())
    assert is_late(fewest, Stack())
    assert not is_late(fewest - 1, Stack())
    assert round(lateness(thousands * 1_000, Stack())) == seconds


def test_worker_processes_start_runs_as_fast_as_their_slots() -> None:
    one, ten = Stack(processes=1, slots=10), Stack(processes=10, slots=100)
    assert one.first == pytest.approx(10 / 0.082)
    assert ten.first == pytest.approx(100 / 0.082)
    assert lateness(1_000, one) == pytest.approx(1_000 / one.first + 0.2)
    assert Stack(processes=1, slots=1_000).first == 974, "its processor"


GROWING = {"stripes": (1, 2, 4), "functions": (20, 100, 500), "writes": (500, 4_000, 40_000), "shards": (1, 16, 64)}


@given(fires=st.integers(1, 1_000_000), more=st.integers(0, 100_000), name=st.sampled_from(sorted(GROWING)))
def test_more_fires_are_never_earlier_and_more_capacity_is_never_later(fires: int, more: int, name: str) -> None:
    assert lateness(fires, Stack()) <= lateness(fires + more, Stack())
    late = [lateness(fires, replaced(Stack(), **{name: number})) for number in GROWING[name]]
    assert late == sorted(late, reverse=True)
    few, many = (lateness(fires, Stack(pollers=number, functions=None)) for number in (10, 50))
    assert few >= many


def test_few_fires_are_not_spoken_of_even_by_one_slow_process() -> None:
    slow = Stack(processes=1, slots=1)
    assert lateness(QUIET - 1, slow) > GOAL
    assert not is_late(QUIET - 1, slow)
    assert is_late(QUIET, slow)


def test_figures_are_those_of_the_code_and_have_their_unit_and_source() -> None:
    assert AHEAD.value == LOOKAHEAD / SECOND - 119
    assert (SHARDS.value, TICKER_WRITES.value) == (DEFAULT_SHARDS, DEFAULT_TICKER_WRITES)
    assert len({each.what for each in INPUTS}) == len(INPUTS)
    assert all(each.unit and each.source and each.value > 0 for each in INPUTS)


def test_walls_stand_in_order_and_each_says_what_moves_it() -> None:
    found = walls()
    assert [wall.most for wall in found] == sorted(wall.most for wall in found)
    assert found[0].most == 333, "one schedule: 1,000 units of its partition, three a run"
    assert all(wall.most < 10_000 and wall.why and wall.moved_by for wall in found)


def replaced(stack: Stack, **changes: int) -> Stack:
    return Stack(**{**vars(stack), **changes})
