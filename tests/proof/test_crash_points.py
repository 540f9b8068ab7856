"""Whatever a process is doing when it dies, the others bring it to its end."""

from __future__ import annotations

import os

import pytest

from tests.support.histories.crash_points import Scenario, at_writes, pairs, singles
from tests.support.histories.keyed_scenarios import KEYED_SCENARIOS
from tests.support.histories.pipeline_scenarios import PIPELINE_SCENARIOS
from tests.support.histories.scenarios import SCENARIOS
from tests.support.histories.waiting_scenarios import WAITING_SCENARIOS
from tests.support.parts import in_parts

PARTS = 12  # `make test` plays one, `make check` all
PAIRS = 12  # of each scenario in `make check`
ALL_PAIRS = int(os.environ.get("PAIRS", "400"))  # of each scenario in `make proof`
ALL = (*SCENARIOS, *WAITING_SCENARIOS, *KEYED_SCENARIOS, *PIPELINE_SCENARIOS)


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_every_single_crash_point_at_a_write(scenario: Scenario, part: int) -> None:
    points = list(at_writes(scenario))
    assert len(points) >= 8
    assert [text for point in points[part::PARTS] for text in scenario.verdict(point)] == []


@pytest.mark.proof
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_every_single_crash_point_at_a_read(scenario: Scenario) -> None:
    points = set(singles(scenario)) - set(at_writes(scenario))
    assert [text for point in sorted(points) for text in scenario.verdict(point)] == []


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_without_a_crash_everything_holds(scenario: Scenario) -> None:
    assert scenario.verdict(()) == []


@in_parts(PARTS)
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_some_pairs_of_crash_points(scenario: Scenario, part: int) -> None:
    assert [text for pair in pairs(scenario, PAIRS)[part::PARTS] for text in scenario.verdict(pair)] == []


@pytest.mark.proof
@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_many_pairs_of_crash_points(scenario: Scenario) -> None:
    chosen = pairs(scenario, ALL_PAIRS)
    print(f"{scenario.name}: {len(chosen)} pairs")  # noqa: T201 (a figure to report)
    assert [text for pair in chosen for text in scenario.verdict(pair)] == []
