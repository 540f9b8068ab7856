"""The tests that the threat model names are there."""

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
