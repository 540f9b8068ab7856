"""The tests that pages name are there."""

from __future__ import annotations

import re

from tests.support.doc_pages import ROOT, page


def test_each_defence_of_the_threat_model_has_its_tests() -> None:
    sections = page("docs/explanation/security.md").text.split("\n## ")[1:]
    with_defences = [text for text in sections if "| defence |" in text]
    assert len(with_defences) > 6
    for text in with_defences:
        files = re.findall(r"`([\w/]+\.py)`", text.partition("\nTests: ")[2])
        assert files, text.partition("\n")[0]
        assert not [file for file in files if not (ROOT / "tests" / file).is_file()]


def test_each_point_of_pipelines_has_its_test() -> None:
    one = page("docs/explanation/pipelines.md")
    named = re.findall(r"\[(test_\w+)\]\(([\w/.]+)\)", one.text)
    assert len(named) == len(re.findall(r"^\| .*test_", one.text, re.MULTILINE)) > 30
    missing = [
        name for name, link in named if f"def {name}(" not in (one.path.parent / link).read_text(encoding="utf-8")
    ]
    assert missing == []
