"""The bench of memory and of cold starts, and that of idle ticks: they still know the calls that ticker, worker and API make."""

from __future__ import annotations

import pytest

from bench import idle, memory

pytestmark = pytest.mark.check


@pytest.mark.parametrize(("what", "argument"), [("tick", 100), ("worker", 50)])
def test_a_process_says_how_much_memory_it_needed(what: str, argument: int) -> None:
    said = memory.measured(what, argument)
    assert 5 < said["before_mb"] <= said["peak_mb"]


@pytest.mark.parametrize("function", memory.COLD_STARTS)
def test_a_function_says_how_long_it_took_to_its_first_call(function: str) -> None:
    said = memory.measured("start", function)
    assert said["cpu_ms"] > 0
    assert said["peak_mb"] > 5


def test_a_tick_makes_no_more_calls_over_schedules_that_are_not_due() -> None:
    assert idle.measure(1_000)["api_calls_per_tick"] == idle.measure(0)["api_calls_per_tick"]
