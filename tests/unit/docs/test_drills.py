"""The page of drills has a row for each, with the runbook that the drill follows."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.chaos.evidence import Repeat
from tests.support.chaos.journal import Blow
from tests.support.chaos.verdict import Verdict
from tests.support.doc_pages import page
from tests.support.drills.page import BEGIN, END, row, rows, written
from tests.support.drills.registry import DRILLS
from tests.support.drills.siege import Result

PAGE = page("docs/explanation/drills.md")


def test_each_drill_has_its_row() -> None:
    found = rows(PAGE.text)
    assert list(found) == list(DRILLS), 'python -m tests.support.drills "NAME" --page docs/explanation/drills.md'
    for name, drill in DRILLS.items():
        assert f"(../{drill.page}.md)" in found[name]
        assert drill.done in found[name]


def test_a_row_says_what_a_run_showed_and_replaces_the_one_before() -> None:
    killed = Blow(kind="killed", process="worker-1", at=5.0, until=5.0)
    repeat = Repeat(run="r", first={"at": 1.0}, again={"at": 9.0}, process="worker-1", blow=killed)
    verdict = Verdict(
        runs=Counter(),
        starts=1_234,
        calls=0,
        strikes={},
        faults={},
        lost=["x"],
        repeats=[repeat, repeat],
        violations=[],
        recovery={},
    )
    drill = next(iter(DRILLS.values()))
    result = Result(drill=drill, verdict=verdict, violations=[], under_way=56, seconds=7.8, commands=["quarterjack a"])
    assert row(result).endswith("| 1,234; 56 | 1 | 2: killed 2 | 8 s | `quarterjack a` |")
    text = f"before\n{BEGIN}\n{END}\nafter\n"
    once = written(text, [result])
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert rows(once) == {drill.name: row(result)}
    assert written(once, [result]) == once
    assert written(once, []) == once
    with pytest.raises(ValueError, match="no table"):
        written("nothing", [result])
