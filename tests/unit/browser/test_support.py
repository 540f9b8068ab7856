"""The support of the browser tests, by pages of which is known what is right and wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser.audits import Scores, axe
from tests.support.browser.pages import NARROW, THEMES, WIDTHS, Pages, Pictures, Theme
from tests.support.browser.served import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.check

CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'"
NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)

STYLE = """
:root { color-scheme: light dark; font-family: sans-serif; color: #111; background: #fff; }
@media (prefers-color-scheme: dark) { :root { color: #eee; background: #111; } }
@keyframes turn { to { transform: rotate(1turn); } }
.turns { animation: turn 0.3s linear infinite; width: 2rem; height: 2rem; background: #27c; }
.pale { color: #bbb; background: #fff; }
.bare { color: #226; text-decoration: none; }
"""
SCRIPT = """
document.getElementById("says").textContent = "script";
document.getElementById("time").textContent = new Date().toISOString();
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="description" content="A page that is right"><title>A page</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="style.css"></head>
<body><main><h1>A page</h1><p id="says">markup</p><p id="time"></p><div class="turns"></div>{more}</main>
<script src="script.js"></script></body></html>
"""
PAGES = {
    "/right": PAGE.format(more=""),
    "/wrong": PAGE.format(
        more='<img src="style.css"><p class="pale">hard to read</p>'
        '<p>A link in a text that <a class="bare" href="right">nobody sees</a> as one.</p>'
    ),
    "/inline": PAGE.format(more="<script>document.title = 'broken into'</script>"),
    "/throws": PAGE.format(more='<script src="throws.js"></script>'),
    "/noscript": PAGE.format(more='<noscript><img src="style.css"></noscript>'),
}
FILES = {
    "/style.css": ("text/css", STYLE),
    "/script.js": ("text/javascript", SCRIPT),
    "/throws.js": ("text/javascript", "throw new Error('no such luck')"),
} | {path: ("text/html; charset=utf-8", text) for path, text in PAGES.items()}


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """A page of each kind, under the policy that the console has."""
    kind, text = FILES.get(scope["path"], ("text/plain", "nothing here"))
    headers = {"content-type": kind, "content-security-policy": CSP.replace("img-src", "img-src data:")}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    status = 200 if scope["path"] in FILES else 404
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": text.encode()})


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with served(application) as url:
        yield url


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("javascript", [True, False])
def test_axe_has_nothing_against_a_page_that_is_right(
    new_page: Pages, site: str, theme: Theme, javascript: bool
) -> None:
    page = new_page(theme=theme, javascript=javascript)
    page.goto(f"{site}/right")
    assert axe(page) == []


@pytest.mark.parametrize("javascript", [True, False])
def test_axe_finds_what_is_wrong(new_page: Pages, site: str, javascript: bool) -> None:
    page = new_page(javascript=javascript)
    page.goto(f"{site}/wrong")
    found = {violation.rule: violation for violation in axe(page)}
    assert set(found) == {"color-contrast", "image-alt", "link-in-text-block"}
    assert found["link-in-text-block"].elements == ('<a class="bare" href="right">nobody sees</a>',)
    assert found["image-alt"].elements == ('<img src="style.css">',)
    assert "hard to read" in str(found["color-contrast"])


def test_axe_sees_what_is_for_visitors_without_javascript_as_they_do(new_page: Pages, site: str) -> None:
    found = {}
    for javascript in (True, False):
        page = new_page(javascript=javascript)
        page.goto(f"{site}/noscript")
        found[javascript] = [violation.rule for violation in axe(page)]
    assert found == {True: [], False: ["image-alt"]}


def test_javascript_stays_off_after_axe(new_page: Pages, site: str) -> None:
    page = new_page(javascript=False)
    page.goto(f"{site}/right")
    axe(page)
    page.reload()
    assert page.locator("#says").inner_text() == "markup"


def test_without_javascript_no_script_runs(new_page: Pages, site: str) -> None:
    said = {}
    for javascript in (True, False):
        page = new_page(javascript=javascript, base_url=site)
        page.goto("/right")
        said[javascript] = page.locator("#says").inner_text()
    assert said == {True: "script", False: "markup"}


def test_a_page_has_the_theme_and_the_width_asked_for(new_page: Pages, site: str) -> None:
    colours = {}
    for theme in THEMES:
        page = new_page(theme=theme, base_url=site)
        page.goto("/right")
        colours[theme] = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}
    for width in WIDTHS:
        page = new_page(width=width, base_url=site)
        page.goto("/right")
        assert page.evaluate("[innerWidth, document.documentElement.scrollWidth]") == [width, width]


def test_scripts_are_told_the_time_of_the_test(new_page: Pages, site: str) -> None:
    page = new_page(now=NOW)
    page.goto(f"{site}/right")
    assert page.locator("#time").inner_text() == "2026-03-29T01:30:00.000Z"


def test_each_page_is_a_visitor_of_its_own(new_page: Pages, site: str) -> None:
    first, second = new_page(base_url=site), new_page(base_url=site)
    first.goto("/right")
    second.goto("/right")
    first.evaluate("localStorage.setItem('seen', 'yes')")
    assert second.evaluate("localStorage.getItem('seen')") is None


@pytest.mark.parametrize(("path", "says"), [("/throws", "no such luck"), ("/inline", "Content Security Policy")])
def test_an_error_in_a_page_is_noted(browser: Browser, site: str, path: str, says: str) -> None:
    pages = Pages(browser)
    page = pages()
    page.goto(site + path)
    page.wait_for_load_state("networkidle")
    pages.close()
    assert [says in error for error in pages.errors] == [True]


def test_an_answer_of_404_is_not_an_error_of_the_page(new_page: Pages, site: str) -> None:
    answer = new_page().goto(f"{site}/nowhere")
    assert answer is not None
    assert answer.status == 404


def test_nothing_but_this_machine_is_reached(new_page: Pages) -> None:
    with pytest.raises(Exception, match="ERR_NAME_NOT_RESOLVED"):
        new_page().goto("http://example.com/")


@pytest.mark.parametrize("theme", THEMES)
def test_pictures_of_a_page_are_equal(new_page: Pages, site: str, tmp_path: Path, theme: Theme) -> None:
    folder = tmp_path / "images"
    pictures, unwritten = Pictures(folder), Pictures(None)
    taken = []
    for number in range(3):
        page = new_page(theme=theme, width=NARROW, now=NOW)
        page.goto(f"{site}/right")
        taken.append(pictures(page, f"picture-{number}"))
        assert unwritten(page, f"picture-{number}") == taken[0]
    assert taken == [taken[0]] * 3
    assert taken[0][:4] + taken[0][8:12] == b"RIFFWEBP"
    assert [path.read_bytes() for path in sorted(folder.iterdir())] == taken
    with pytest.raises(AssertionError, match="picture-0"):
        pictures(page, "picture-0")


def test_text_is_drawn_in_the_font_of_the_package(new_page: Pages, site: str) -> None:
    page = new_page()
    page.goto(f"{site}/right")
    devtools = page.context.new_cdp_session(page)
    devtools.send("DOM.enable")
    devtools.send("CSS.enable")
    root = devtools.send("DOM.getDocument")["root"]["nodeId"]
    heading = devtools.send("DOM.querySelector", {"nodeId": root, "selector": "h1"})["nodeId"]
    fonts = devtools.send("CSS.getPlatformFontsForNode", {"nodeId": heading})["fonts"]
    assert [font["familyName"] for font in fonts] == ["Open Sans"]


@pytest.mark.proof
def test_lighthouse_tells_a_right_page_from_a_wrong_one(lighthouse: Callable[..., Scores], site: str) -> None:
    right, wrong = lighthouse(f"{site}/right"), lighthouse(f"{site}/wrong")
    assert right.accessibility == 100, right.remarks
    assert right.performance >= 95, right.remarks
    assert wrong.accessibility < 95
    assert any(re.match("image-alt:", remark) for remark in wrong.remarks)
