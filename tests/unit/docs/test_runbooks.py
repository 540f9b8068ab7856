"""Every alarm and every incident has a page, in the form that somebody who is woken knows; tests/nights follows the pages."""

from __future__ import annotations

import re

import pytest

from infra.alarms.specs import SPECS
from tests.support.doc_pages import ROOT, Page, page, page_at
from tests.support.nights.operator import SECTIONS

INDEX = page("docs/runbooks/README.md")
PAGES = [page_at(path) for path in sorted((ROOT / "docs/runbooks").glob("*.md")) if path != INDEX.path]
_HEADINGS = re.compile(r"^(#+) (.*)$", re.MULTILINE)


@pytest.mark.parametrize("one", [pytest.param(one, id=one.path.stem) for one in PAGES])
def test_a_page_says_what_to_look_at_first_what_to_do_and_when_it_is_over(one: Page) -> None:
    (title, *sections) = _HEADINGS.findall(one.text)
    assert title[0] == "#"
    assert title[1].startswith(f"{one.path.stem}: ")
    assert sections == [("##", section) for section in SECTIONS]
    for section in SECTIONS[1:3]:
        text = one.text.partition(f"## {section}")[2].partition("\n## ")[0]
        assert "\n    " in text, f"{section} has no command"


def test_the_index_has_each_page_once() -> None:
    linked = [link for link in INDEX.links if "/" not in link and not link.startswith("#")]
    assert sorted(set(linked)) == sorted(one.path.name for one in PAGES)
    table = re.findall(r"^\| (P[123]) \| (.*) \|$", INDEX.text, re.MULTILINE)
    listed = [alarm for _, row in table for alarm in re.findall(r"\((\S+)\.md\)", row)]
    incidents = re.findall(r"^\| .* \| \[(\S+)\]\(\1\.md\) \| .* \|$", INDEX.text, re.MULTILINE)
    assert sorted([*listed, *incidents]) == sorted(one.path.stem for one in PAGES)
    assert sorted(listed) == sorted(spec.id for spec in SPECS)
