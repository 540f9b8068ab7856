"""The tests that pages name are there."""

from __future__ import annotations

import re

import pytest

from tests.support.doc_pages import ROOT, page


def test_each_defence_of_the_threat_model_has_its_tests() -> None:
    sections = page("docs/explanation/security.md").text.split("\n## ")[1:]
    with_defences = [text for text in sections if "| defence |" in text]
    assert len(with_defences) > 6
    for text in with_defences:
        files = re.findall(r"`([\w/]+\.py)`", text.partition("\nTests: ")[2])
        assert files, text.partition("\n")[0]
        assert not [file for file in files if not (ROOT / "tests" / file).is_file()]


@pytest.mark.parametrize(("name", "points"), [("explanation/pipelines", 30), ("how-to/versions", 15)])
def test_each_point_of_a_table_has_its_test(name: str, points: int) -> None:
    one = page(f"docs/{name}.md")
    named = re.findall(r"\[(test_\w+)\]\(([\w/.]+)\)", one.text)
    assert len(named) == len(re.findall(r"^\| .*test_", one.text, re.MULTILINE)) >= points
    missing = [
        test for test, link in named if f"def {test}(" not in (one.path.parent / link).read_text(encoding="utf-8")
    ]
    assert missing == []
