"""What `make test` asks of the pages: none of them without a browser test, safe headers, few bytes; and one look in a browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from httpx import Response

from tests.support.api import NOON, AsgiClient
from tests.support.browser.audits import axe
from tests.support.browser.console_pages import GO_ELSEWHERE, PAGES, addressed, routes
from tests.support.browser.console_scene import HOME, busy, ids, sign_in
from tests.support.browser.pages import NARROW, Pages
from tests.support.browser.served import served
from tests.support.console import Browser

ASSETS = 60 * 1024  # bytes of all that a first page loads, compressed
LIST = 20 * 1024  # bytes of 50 schedules with 30 runs each, compressed


@pytest.fixture(scope="module")
def scene() -> Browser:
    return busy()


def test_every_page_is_named_here() -> None:
    assert set(PAGES) == routes("GET") - GO_ELSEWHERE, "add the page to tests/support/browser/console_pages.py"


def test_every_answer_has_the_headers_that_keep_a_page_safe(scene: Browser) -> None:
    known, anybody = ids(scene), AsgiClient(scene.app, {})
    answers = [scene.client.get(HOME + addressed(pages[0], known)) for pages in PAGES.values()]
    answers += [anybody.get(HOME + addressed(pages[0], known)) for pages in PAGES.values()]
    answers += [scene.client.get(HOME + path) for path in ("none", "run/none", "schedule/none", "schedules?cursor=x")]
    answers += [scene.client.post(HOME + path) for path in ("", "none", "freeze", "schedules/act")]
    answers += [
        anybody.get(f"/console/{path}") for path in ("", "sign-in", "static/console.css", "static/none", "none")
    ]
    answers += [
        scene.send("/console/sign-in", {"key": "wrong"}),
        scene.send("/console/sign-in", {"key": "x"}, "cross-site"),
    ]
    assert {answer.status_code // 100 for answer in answers} == {2, 3, 4}
    for answer in answers:
        assert_safe(answer)


def assert_safe(answer: Response) -> None:
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy, answer.url
    assert "frame-ancestors 'none'" in policy, answer.url
    assert "unsafe" not in policy, answer.url
    assert answer.headers["x-content-type-options"] == "nosniff", answer.url
    assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer"), answer.url
    assert answer.headers["cache-control"] == "no-store" or "/static/" in str(answer.url), answer.url
    assert "access-control-allow-origin" not in answer.headers, answer.url
    if "<html" in answer.text:
        assert not re.search(r"<script(?![^>]* src=)|<style| style=| on[a-z]+=|javascript:", answer.text), answer.url


def test_an_error_of_the_server_is_a_safe_page(scene: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.console.pages.machinery.PageCall.render", None)
    answer = scene.client.get(f"{HOME}queues")
    assert answer.status_code == 500
    assert_safe(answer)
    assert "Traceback" not in answer.text


@pytest.mark.check
def test_fifty_schedules_with_thirty_runs_each_are_small() -> None:
    browser = Browser()
    for number in range(50):
        browser.scheduler.create_schedule(
            f"team-{number % 7}/export-{number:02}", "greet", f"{number} * * * *", payload={"to": "Ada"}
        )
    browser.harness.advance(hours=30)
    answer = browser.client.get(f"{HOME}schedules")
    assert answer.text.count('role="img"') == 50
    assert "last 30 runs" in answer.text
    assert int(answer.headers["content-length"]) <= LIST
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["vary"] == "Accept-Encoding"


def test_what_a_page_loads_is_small_and_kept_for_ever(scene: Browser) -> None:
    page, total = scene.get(""), 0
    loaded = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page)
    assert {path.partition("?")[0].rpartition("/")[2] for path in loaded} == {
        "console.css",
        "htmx-4.0.1.min.js",
        "mark.svg",
    }
    for path in set(loaded):
        answer = scene.client.get(path)
        total += len(gzip.compress(answer.content, 6))
        marked = "?" in path
        assert ("immutable" in answer.headers["cache-control"]) is marked
        assert scene.client.get(path.partition("?")[0] + "?other").headers["cache-control"] == "no-cache"
    assert total <= ASSETS
    assert not [name for name in loaded if name.startswith("http")]
    style = (files("quarterjack.console") / "static" / "console.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


@pytest.fixture(scope="module")
def site(scene: Browser) -> Iterator[str]:
    with served(scene.app) as url:
        yield url


def test_a_first_look(site: str, new_page: Pages) -> None:
    """The smoke test of `make test`: sign in, walk, search; on a desktop and on a telephone in the dark."""
    wide = new_page(base_url=site, now=NOON)
    sign_in(wide, site)
    assert wide.locator("h1").inner_text() == "Overview"
    wide.get_by_role("link", name="Schedules", exact=True).click()
    wide.get_by_role("searchbox").fill("failing:yes")
    wide.get_by_role("button", name="Search", exact=True).click()
    assert wide.locator("tbody th > a").all_inner_texts() == ["search/reindex"]
    assert axe(wide) == []
    narrow = new_page(base_url=site, theme="dark", width=NARROW, javascript=False)
    sign_in(narrow, site)
    narrow.get_by_role("navigation").get_by_role("link", name="Dead").click()
    assert narrow.locator("h1").inner_text() == "Dead runs"
    assert narrow.evaluate("document.documentElement.scrollWidth") == NARROW
