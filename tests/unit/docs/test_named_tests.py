"""The tests that a page names are there."""

from __future__ import annotations

import re

from tests.support.doc_pages import ROOT, page


def test_what_is_said_to_be_tried_is_tried() -> None:
    table = page("docs/how-to/long-jobs.md").text.partition("Each line is tried by a test")[2]
    named = re.findall(r"`(…?)_?([a-z_]{12,})`", table)
    places = [*(ROOT / "tests").rglob("test_*.py")]
    there = {name for place in places for name in re.findall(r"def test_(\w+)", place.read_text(encoding="utf-8"))}
    assert len(named) > 25
    assert not [name for cut, name in named if not any(one == name or (cut and one.endswith(name)) for one in there)]


def test_what_may_be_shared_is_tried() -> None:
    table = page("docs/reference/threads.md").text.partition("## Tests")[2]
    named = re.findall(r"`([a-z_]{12,})`", table)
    places = [*(ROOT / "tests").rglob("test_*.py")]
    there = {name for place in places for name in re.findall(r"def test_(\w+)", place.read_text(encoding="utf-8"))}
    assert len(named) > 10
    assert not set(named) - there


def test_what_the_threat_model_says_to_hold_is_tried() -> None:
    text = page("docs/explanation/security.md").text
    named, files = set(re.findall(r"`(test_\w+)`", text)), set(re.findall(r"`(\w+/[\w/]+\.py)`", text))
    places = [*(ROOT / "tests").rglob("test_*.py")]
    there = {name for place in places for name in re.findall(r"def (test_\w+)", place.read_text(encoding="utf-8"))}
    assert len(named) > 30
    assert not named - there
    assert not [file for file in files if not (ROOT / "tests" / file).is_file()]
