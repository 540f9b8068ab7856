"""Long tests take turns: each is in `make test` one day in six, or in three."""

from __future__ import annotations

import fnmatch
import re

import pytest

from tests.support import costs
from tests.support.parts import DAYS, IN_TURNS, WHOLE, LongTests, long_tests
from tests.support.tree import ROOT


def days_of(seconds: dict[str, float], cases: list[str]) -> list[list[int]]:
    """Of each day, the places of the cases that are run."""
    days = [LongTests(seconds, turn=turn) for turn in range(max(DAYS.values()))]
    return [[place for place, name in enumerate(cases) if day.is_due(name)] for day in days]


def test_each_case_is_run_on_one_day_of_six_or_of_three() -> None:
    cases = ["long", *["many"] * 13, "short", "short too"]
    days = days_of({"many": 4.0, "long": 0.5, "short": 0.4, "short too": 0.1}, cases)
    assert sorted(place for day in days for place in day) == sorted([*range(len(cases)), 14, 15])
    assert {len([place for place in day if cases[place] == "many"]) for day in days} == {2, 3}
    assert [set(day) & {14, 15} for day in days[:3]] == [set(day) & {14, 15} for day in days[3:]]


def test_the_longest_are_run_on_different_days() -> None:
    longest = days_of({"longest": 9.0, "second": 8.0, "third": 7.0}, ["longest", "second", "third"])
    assert sorted(longest) == [[], [], [], [0], [1], [2]]
    assert sorted(days_of({"longer": 0.3, "shorter": 0.2}, ["longer", "shorter"])) == [[], [], [0], [0], [1], [1]]


def test_a_run_of_todays_tests_renews_the_costs_of_those_that_take_no_turns() -> None:
    def line(name: str, own: float, *, turn: bool = False) -> dict[str, object]:
        return {"id": f"tests/unit/test_a.py::{name}", "turn": turn, "own": own, "children": 0.0, "living": 0.0}

    before = {"test_of_turns": 6.0, "test_elsewhere": 1.0, "test_that_was_long": 0.7}
    measured = [
        line("test_of_turns[1]", 0.2, turn=True),
        line("test_that_was_long", 0.01),
        *[line(f"TestIt::test_new[{case}]", 0.06) for case in range(4)],
        line("test_short", 0.09),
        line("test_with_marks_of_its_own", 3.0, turn=True),
    ]
    renewed = costs._long(measured, before)
    assert renewed == [("test_of_turns", 6.0), ("test_elsewhere", 1.0), ("test_new", pytest.approx(0.24))]


def test_a_test_that_has_its_turn_otherwise_keeps_it(pytester_item: pytest.Item) -> None:
    every = LongTests({pytester_item.name: 1.0}, turn=1)
    pytester_item.add_marker("turn")
    every.marks(pytester_item)
    assert pytester_item.get_closest_marker("check") is None


def test_of_a_kind_in_turns_make_check_runs_each_case_one_day_in_three(pytester_item: pytest.Item) -> None:
    """Those of `make test` are among them. A function that takes little is there every day, and so is what is of no such kind."""
    parent, here = pytester_item.parent, pytester_item.path

    def selected(path: str, seconds: float) -> list[tuple[list[int], list[int]]]:
        """Of each day, the cases in `make test` and in `make check`."""
        found = []
        for turn in range(6):
            every, items = LongTests({"test_x": seconds}, turn=turn), []
            for _ in range(7):
                item = pytest.Function.from_parent(parent, name="test_x", callobj=lambda: None)
                item.path = here.parents[2] / path
                every.marks(item)
                items.append([mark.name for mark in item.iter_markers()])
            each = list(enumerate(items))
            found.append(([n for n, m in each if "check" not in m], [n for n, m in each if "later" not in m]))
        return found

    days = selected("nights/test_x.py", 2.0)
    assert sorted(case for test, _ in days for case in test) == list(range(7))
    assert sorted(case for _, check in days for case in check) == sorted([*range(7)] * 2)
    assert all(set(test) <= set(check) for test, check in days)
    for path, seconds in (("nights/test_x.py", 0.4), ("contract/test_x.py", 2.0), ("proof/test_forms.py", 2.0)):
        assert [check for _, check in selected(path, seconds)] == [list(range(7))] * 6


def test_each_kind_in_turns_is_there() -> None:
    files = [str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("test_*.py")]
    for kind in (*IN_TURNS, *WHOLE):
        assert fnmatch.filter(files, kind) if kind.endswith(".py") else kind in long_tests(), kind


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
