"""Fixtures of the browser tests, a plugin of tests/conftest.py.

A test that asks for one of them has the marker ``browser``. Where there is no browser it is skipped, and the summary says so
in one line; with ``QUARTERJACK_TEST_BROWSER=required``, as in ``make check``, it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import audits
from tests.support.browser.installed import missing, required
from tests.support.browser.pages import IMAGES, Pages, Pictures, running_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = frozenset({"browser", "new_page", "screenshot", "lighthouse"})
WRITE = "--write-screenshots"
WITHOUT = "without a browser"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(WRITE, action="store_true", help="write the pictures of pages into docs/images")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if NAMES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("browser")


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Such tests are counted apart from other skips, so that one line tells of all."""
    if report.skipped and (why := missing()) is not None and why in str(report.longrepr):
        return WITHOUT, "s", "NO BROWSER"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if skipped := len(terminalreporter.stats.get(WITHOUT, ())):
        terminalreporter.write_line(f"NOT RUN: {skipped} browser tests: {missing()}", yellow=True, bold=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Chromium for the tests of a module."""
    needed()
    with running_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Pages]:
    """Opens pages: ``new_page(theme="dark", width=360, javascript=False)``. No error of a script or policy may be left in ``.errors``."""
    pages = Pages(browser)
    yield pages
    pages.close()
    assert not pages.errors, pages.errors


@pytest.fixture
def screenshot(browser: Browser, request: pytest.FixtureRequest) -> Pictures:
    """``screenshot(page, "overview-dark-360")``: a picture, written into docs/images with ``--write-screenshots``."""
    return Pictures(IMAGES if request.config.getoption(WRITE) else None)


@pytest.fixture
def lighthouse(tmp_path: Path) -> Callable[..., audits.Scores]:
    """``lighthouse(url, desktop=False, headers={…})``: the scores of a page."""
    needed()
    return lambda url, **how: audits.lighthouse(url, tmp_path, **how)


def needed() -> None:
    """Skip the test where there is no browser, or fail it where there has to be one."""
    if (why := missing()) is None:
        return
    if required():
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
