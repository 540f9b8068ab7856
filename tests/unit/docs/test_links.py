"""Links within the repository lead somewhere, files that are named exist, and every page can be found."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.doc_pages import ROOT, Page, all_pages, page, page_at

pages = pytest.mark.parametrize("one", all_pages(), ids=lambda one: one.name)
_ABROAD = re.compile(r"[a-z]+:")
# Where a path in backticks may begin.
_STARTS = (ROOT, ROOT / "shared" / "quarterjack", ROOT / "docs", ROOT / "tests")


def target(one: Page, link: str) -> tuple[Path, str]:
    """The file and the anchor that a link leads to."""
    path, _, anchor = unquote(link).partition("#")
    return (one.path.parent / path).resolve() if path else one.path, anchor


@pages
def test_links_lead_somewhere(one: Page) -> None:
    for link in one.links:
        if _ABROAD.match(link):
            continue
        path, anchor = target(one, link)
        assert path.exists(), f"{link}: there is no such file"
        assert not anchor or anchor in page_at(path).anchors, f"{link}: there is no such heading"


@pages
def test_source_files_that_are_named_exist(one: Page) -> None:
    for code in one.prose_code:
        if re.fullmatch(r"[a-z_]+(/[a-z_]+)+\.py|[a-z_]+(/[a-z_]+)+/", code):
            assert any((start / code).exists() for start in _STARTS), f"`{code}`: there is no such file"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    left = [page("README.md")]
    while left:
        one = left.pop()
        seen.add(one.path)
        linked = {target(one, link)[0] for link in one.links if not _ABROAD.match(link)}
        left += [page_at(path) for path in linked - seen if path.suffix == ".md" and path.exists()]
    assert {one.path for one in all_pages()} <= seen


def test_nothing_of_this_machine_is_named() -> None:
    for one in all_pages():
        assert not re.search(r"/(root|home/\w+|work)/", one.text), one.name
