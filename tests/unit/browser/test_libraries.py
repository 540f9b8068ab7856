"""Chromium on a machine without the libraries that it is linked to. A module of its own: it starts a browser of its own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.support.browser import installed
from tests.support.browser.fixtures import needed
from tests.support.browser.pages import running_browser

pytestmark = [pytest.mark.browser, pytest.mark.check]


def test_it_runs_with_the_libraries_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed()
    monkeypatch.setattr(installed, "_has_libraries", lambda: False)
    with running_browser(tmp_path) as browser:
        page = browser.new_page()
        page.set_content("<p>it runs</p>")
        assert page.locator("p").inner_text() == "it runs"
        assert str(installed.LIBRARIES / "libnss3.so") in _mapped_by_chromium()


def _mapped_by_chromium() -> str:
    """What the processes of this checkout's Chromium have loaded."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if str(installed.CHROMIUM) in (process / "cmdline").read_text(encoding="utf-8", errors="replace"):
                found.append((process / "maps").read_text(encoding="utf-8", errors="replace"))
    return "\n".join(found)
