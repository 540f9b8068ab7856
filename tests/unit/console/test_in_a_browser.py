"""Every page and every act in a Chromium: both themes, narrow and wide, with and without JavaScript. A crawl finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.support.browser.audits import Scores, axe
from tests.support.browser.pages import THEMES, WIDTHS, Pages, Theme
from tests.support.browser.served import served
from tests.support.console import KEY, Browser
from tests.support.crawl import TYPED, Crawl, SentForm, crawl, get_routes
from tests.support.visited import furnished

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.check

OVERVIEW = "/console/t/default/"
CONTENT = 95  # of 100, by Lighthouse


Made = TypeVar("Made")


def elsewhere(make: Callable[[], Made]) -> Made:
    """What is made in another thread: in this one the event loop of Playwright runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


class Site:
    """A console that is served, and begins anew with the same things in it."""

    def __init__(self) -> None:
        self.url = ""
        self.begin()

    def begin(self) -> Browser:
        """Everything as it was at first."""
        self.console = elsewhere(furnished)
        return self.console

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.console.app(scope, receive, send)

    def page(self, new_page: Pages, **how: Any) -> Page:
        """An empty page of somebody who has signed in."""
        page = new_page(base_url=self.url, now=self.console.harness.clock.now(), **how)
        name, _, value = self.console.client.headers["cookie"].partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": self.url}])
        return page


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    made = Site()
    with served(made) as made.url:
        yield made


@pytest.fixture(scope="module")
def found() -> Crawl:
    return elsewhere(lambda: crawl(furnished()))


@pytest.fixture(scope="module")
def one_of_each(found: Crawl) -> list[str]:
    """An address of each route and act."""
    return list(
        {
            (route, address.partition("do=")[2].partition("&")[0]): address for address, route in found.pages.items()
        }.values()
    )


def scrolls(page: Page) -> int:
    """CSS pixels by which a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def test_signing_in_leads_to_the_overview(new_page: Pages, site: Site) -> None:
    site.begin()
    page = new_page(base_url=site.url)
    page.goto("/console/")
    assert page.url.endswith("/console/sign-in")
    for key in ("wrong", KEY):
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Open the console").click()
        if key != KEY:
            page.get_by_role("alert").wait_for()
    page.get_by_role("heading", level=1, name="Overview").wait_for()
    assert axe(page) == []


@pytest.mark.parametrize("javascript", [True, False])
def test_a_schedule_is_found_paused_and_shown_paused(new_page: Pages, site: Site, javascript: bool) -> None:
    site.begin()
    page = site.page(new_page, javascript=javascript)
    page.goto(OVERVIEW)
    page.get_by_role("link", name="Schedules", exact=True).click()
    page.get_by_role("searchbox").fill("job:greet")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="team/good").first.click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("maintenance")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("status").get_by_text("Paused").wait_for()
    assert site.console.scheduler.get_schedule("team/good").state == "PAUSED"


@pytest.mark.parametrize("theme", THEMES)
def test_axe_has_nothing_against_any_page(new_page: Pages, site: Site, one_of_each: list[str], theme: Theme) -> None:
    site.begin()
    page = site.page(new_page, theme=theme)
    wrong = {}
    for address in one_of_each:
        page.goto(address)
        if violations := axe(page):
            wrong[address] = [str(one) for one in violations]
    assert wrong == {}


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(new_page: Pages, site: Site, one_of_each: list[str], width: int) -> None:
    site.begin()
    page = site.page(new_page, width=width)
    wider = {}
    for address in one_of_each:
        page.goto(address)
        if (by := scrolls(page)) > 0:
            wider[address] = by
    assert wider == {}


def test_a_page_says_the_same_without_javascript(new_page: Pages, site: Site, one_of_each: list[str]) -> None:
    """But for parts that come later: they are links then."""
    site.begin()
    said: dict[bool, dict[str, object]] = {}
    for javascript in (True, False):
        page = site.page(new_page, javascript=javascript)
        said[javascript] = {}
        for address in one_of_each:
            page.goto(address)
            heads = page.locator(":is(h1, h2, th, label, button):not([hx-trigger=load] *)").all_inner_texts()
            said[javascript][address] = [page.title(), *heads]
    assert said[True] == said[False]


@pytest.mark.parametrize("javascript", [True, False])
def test_every_act_is_carried_out(new_page: Pages, site: Site, found: Crawl, javascript: bool) -> None:
    refused = {}
    for act, form in found.forms.items():
        site.begin()
        page = site.page(new_page, javascript=javascript)
        page.goto(form.page)
        status = sent(page, form)
        if status >= 400:
            refused[act] = (status, page.locator("main").inner_text()[:300])
        page.context.close()
    assert refused.keys() == {"/tenant/{holder}/revoke"}, refused
    assert "nobody who may grant" in refused["/tenant/{holder}/revoke"][1], "the last admin's grant"


def sent(page: Page, form: SentForm) -> int:
    """Fill a form in as a person would, and send it; the status of the answer."""
    own = page.locator(
        f'form[action="{form.address}"]:has(button), form:has(button[formaction="{form.address}"])'
    ).first
    for field in own.locator("input:visible, textarea:visible").all():
        name = field.get_attribute("name") or ""
        if field.get_attribute("type") not in ("checkbox", "radio") and not field.input_value() and name in TYPED:
            field.fill(TYPED[name])
    for choice in own.locator("select:visible").all():
        name = choice.get_attribute("name") or ""
        if not choice.input_value() and name in TYPED:
            choice.select_option(TYPED[name])
    act = form.fields.get("do")
    named = own.locator(f'button[name="do"][value="{act}"]')
    with page.expect_navigation() as answered:
        (named if named.count() else own.locator("button")).first.click()
    answer = answered.value
    assert answer is not None
    return int(answer.status)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(new_page: Pages, site: Site) -> None:
    site.begin()
    page = site.page(new_page)
    page.goto(f"{OVERVIEW}schedules")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(() => { const one = document.activeElement, look = getComputedStyle(one);"
            " return [one.tagName, one.textContent.trim(), look.outlineStyle, look.outlineWidth]; })()"
        )
        if style[0] == "BODY":
            break
        seen.add(style[1])
        assert style[2] != "none", style
        assert style[3] != "0px", style
    assert {"team/good", "team/bad"} <= seen


@pytest.mark.parametrize(("path", "desktop"), [("", False), ("schedule/team~good", True)])
def test_lighthouse_is_content(lighthouse: Callable[..., Scores], site: Site, path: str, desktop: bool) -> None:
    site.begin()
    headers = {"Cookie": site.console.client.headers["cookie"]}
    scores = lighthouse(f"{site.url}{OVERVIEW}{path}", desktop=desktop, headers=headers)
    assert scores.accessibility >= CONTENT, scores.remarks
    assert scores.best_practices >= CONTENT, scores.remarks


@pytest.mark.proof
@pytest.mark.parametrize(
    ("path", "desktop"), [("", False), ("schedules", True), ("schedule/team~good", False), ("calendar", True)]
)
def test_lighthouse_finds_it_fast(lighthouse: Callable[..., Scores], site: Site, path: str, desktop: bool) -> None:
    """The best of three: this score is of time, and on a busy machine one in forty was 88."""
    site.begin()
    headers = {"Cookie": site.console.client.headers["cookie"]}
    scores = [lighthouse(f"{site.url}{OVERVIEW}{path}", desktop=desktop, headers=headers) for _ in range(3)]
    assert max(score.performance for score in scores) >= CONTENT, scores


def test_every_route_is_visited(one_of_each: list[str], found: Crawl) -> None:
    assert {found.pages[address] for address in one_of_each} == set(get_routes())
