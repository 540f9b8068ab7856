"""Decision records are short, have one form, and are all listed on their index page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import generate
from tests.support.doc_pages import ROOT, Page, page, page_at

MOST_WORDS = 300  # everything counted, as ``wc -w`` does

records = [page_at(path) for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))]
each = pytest.mark.parametrize("one", records, ids=lambda one: one.path.name)


@each
def test_a_record_has_at_most_300_words(one: Page) -> None:
    assert len(one.text.split()) <= MOST_WORDS, "move the mechanism to its page under docs/explanation and link it"


@each
def test_a_record_has_context_decision_and_consequences(one: Page) -> None:
    assert re.findall(r"^## (.+)$", one.text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


@each
def test_a_title_begins_with_the_number_of_its_file(one: Page) -> None:
    assert one.text.startswith(f"# {one.path.name[:4]}. ")


def test_numbers_are_given_once_and_without_a_gap() -> None:
    assert [int(one.path.name[:4]) for one in records] == list(range(1, len(records) + 1))


def test_the_index_has_a_line_for_every_record() -> None:
    index = page("docs/adr/index.md")
    listed = re.findall(r"^- \[(.+)\]\((\d{4}-[a-z0-9-]+\.md)\)$", index.text, re.MULTILINE)
    assert [name for _, name in listed] == [one.path.name for one in records]
    assert [title for title, _ in listed] == [one.text.splitlines()[0].removeprefix("# ") for one in records]


def test_the_first_page_links_the_index_in_place_of_the_records() -> None:
    links = [link for link in page("docs/index.md").links if link.startswith("adr/")]
    assert links == ["adr/index.md"]


def test_a_record_without_a_decision_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "adr").mkdir()
    (tmp_path / "adr" / "0001-a.md").write_text("# 0001. A title\n\n## Context\n\nNothing.\n")
    monkeypatch.setattr(generate, "DOCS", tmp_path)
    with pytest.raises(ValueError, match=r"^docs/adr/0001-a\.md: it needs a heading"):
        list(generate.decisions())
