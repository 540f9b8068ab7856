"""Pictures of the console for the docs: `make screenshots` writes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.api import NOON
from tests.support.browser.console_pages import addressed
from tests.support.browser.console_scene import HOME, busy, ids, sign_in
from tests.support.browser.installed import ROOT
from tests.support.browser.pages import IMAGES, NARROW, THEMES, USUAL, Pages, Pictures, Theme
from tests.support.browser.served import served
from tests.support.console import Browser

pytestmark = pytest.mark.check

PICTURES = {
    "overview": "",
    "schedules": "schedules",
    "schedule": "schedule/sync~warehouse",
    "timeline": "timeline",
    "calendar": "calendar?zone=Europe/Berlin",
    "run": "run/DEAD",
    "dead": "dead",
}
TALLEST = {USUAL: 960, NARROW: 1_280}  # CSS pixels of a picture
# Tracebacks of a machine of the docs.
ELSEWHERE = """root => document.querySelectorAll('pre').forEach(one => { one.textContent = one.textContent.replaceAll(root, '/app'); })"""


@pytest.fixture(scope="module")
def scene() -> Browser:
    return busy()


@pytest.fixture(scope="module")
def known(scene: Browser) -> dict[str, str]:
    return ids(scene)


@pytest.fixture(scope="module")
def site(scene: Browser) -> Iterator[str]:
    with served(scene.app) as url:
        yield url


@pytest.mark.parametrize("width", [USUAL, NARROW])
@pytest.mark.parametrize("theme", THEMES)
def test_pictures_for_the_docs(
    site: str, new_page: Pages, known: dict[str, str], screenshot: Pictures, theme: Theme, width: int
) -> None:
    page = new_page(base_url=site, theme=theme, width=width, now=NOON)
    sign_in(page, site)
    for name, address in PICTURES.items():
        page.goto(HOME + addressed(address, known))
        page.evaluate(ELSEWHERE, str(ROOT))
        assert screenshot(page, f"console-{name}-{theme}-{width}", TALLEST[width])


def test_every_picture_of_the_docs_is_one_of_these() -> None:
    made = {
        f"console-{name}-{theme}-{width}.webp" for name in PICTURES for theme in THEMES for width in (USUAL, NARROW)
    }
    assert {path.name for path in IMAGES.glob("console-*")} == made
    assert all(path.stat().st_size <= 60 * 1024 for path in IMAGES.glob("console-*"))
