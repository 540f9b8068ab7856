"""Long tests take turns: each is in `make test` one day in three."""

from __future__ import annotations

import re

import pytest

from tests.support.parts import DAYS, LongTests, long_tests
from tests.support.tree import ROOT


def days_of(names: list[str], cases: list[str]) -> list[list[int]]:
    """Of each day, the places of the cases that are run."""
    days = [LongTests(names, turn=turn) for turn in range(DAYS)]
    return [[place for place, name in enumerate(cases) if day.is_due(name)] for day in days]


def test_each_case_is_run_on_one_day_of_three() -> None:
    cases = ["a", *["b"] * 7, "c", "d"]
    days = days_of(["b", "d", "a", "c"], cases)
    assert sorted(place for day in days for place in day) == list(range(len(cases)))
    assert {len([place for place in day if cases[place] == "b"]) for day in days} == {2, 3}


def test_the_longest_are_run_on_different_days() -> None:
    names = ["longest", "second", "third"]
    assert sorted(days_of(names, names)) == [[0], [1], [2]]


def test_a_test_that_has_its_turn_otherwise_keeps_it(pytester_item: pytest.Item) -> None:
    every = LongTests([pytester_item.name], turn=1)
    pytester_item.add_marker("turn")
    every.marks(pytester_item)
    assert pytester_item.get_closest_marker("check") is None


@pytest.fixture
def pytester_item(request: pytest.FixtureRequest) -> pytest.Item:
    item = request.node
    assert isinstance(item, pytest.Function)
    return pytest.Function.from_parent(item.parent, name="test_x", callobj=lambda: None)


def test_every_name_in_the_list_is_one_of_a_test() -> None:
    named = long_tests()
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert set(named) - there == set(), "take renamed tests out of tests/long_tests.txt, or give them their new names"
    assert len(named) == len(set(named)) > 50
