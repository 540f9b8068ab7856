"""Pages of a Chromium: light and dark, narrow and wide, with and without JavaScript; and pictures of them that do not vary."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.support.browser.installed import ARGUMENTS, CHROMIUM, ROOT, environment, sandboxed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

Theme = Literal["light", "dark"]

THEMES: tuple[Theme, ...] = ("light", "dark")
NARROW, USUAL, WIDE = 360, 1280, 3840
WIDTHS = (NARROW, USUAL, WIDE)  # CSS pixels
HEIGHTS = {NARROW: 740, USUAL: 800, WIDE: 2160}
IMAGES = ROOT / "docs" / "images"
QUALITY = 55  # of 100
STILL = "document.activeElement?.blur(); document.getAnimations().forEach(one => { one.cancel(); })"
NOT_AN_ERROR_OF_THE_PAGE = "Failed to load resource"  # an answer of 4xx or 5xx, which a test may want to see


@contextmanager
def running_browser(home: Path) -> Iterator[Browser]:
    """A Chromium that keeps its files in ``home``.

    While it runs, an event loop counts as running in this thread: nothing here can call ``asyncio.run``. So it is one of a
    module of tests, not of a session.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=list(ARGUMENTS),
            chromium_sandbox=sandboxed(),
            env=dict(environment(home)),
        )
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Opens pages, each of a visitor of its own (cookies, storage), and notes what goes wrong in them."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.errors: list[str] = []  # exceptions that no script caught, refusals of the content security policy

    def __call__(
        self,
        *,
        theme: Theme = "light",
        width: int = USUAL,
        javascript: bool = True,
        now: datetime | None = None,
        base_url: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Page:
        """An empty page. ``now``, with a zone, is what its scripts take for the time, always; ``headers`` go with every request."""
        context = self._browser.new_context(
            viewport={"width": width, "height": HEIGHTS.get(width, 800)},
            device_scale_factor=1,
            color_scheme=theme,
            reduced_motion="reduce",
            java_script_enabled=javascript,
            locale="en-GB",
            timezone_id="UTC",
            base_url=base_url,
            extra_http_headers=headers,
        )
        if now is not None:
            context.clock.set_fixed_time(now)
        page = context.new_page()
        page.on("pageerror", lambda error: self.errors.append(f"{page.url}: {error}"))
        page.on("console", lambda message: self._note(page, message))
        return page

    def close(self) -> None:
        """Close all of them."""
        for context in self._browser.contexts:
            context.close()

    def _note(self, page: Page, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(NOT_AN_ERROR_OF_THE_PAGE):
            self.errors.append(f"{page.url}: {message.text}")


def picture(page: Page, tallest: int | None = None) -> bytes:
    """The page as WebP, whole or its upper part, without motion and caret, once its fonts are there. The same page gives the same bytes."""
    page.wait_for_load_state("load")
    page.evaluate(STILL)
    devtools = page.context.new_cdp_session(page)
    size = devtools.send("Page.getLayoutMetrics")["cssContentSize"]
    height = min(size["height"], tallest or size["height"])
    clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
    how = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    return b64decode(devtools.send("Page.captureScreenshot", how)["data"])


class Pictures:
    """Takes pictures of pages, and keeps them if they are asked for (``--write-screenshots``)."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._taken = set[str]()

    def __call__(self, page: Page, name: str, tallest: int | None = None) -> bytes:
        """WebP, in ``docs/images/NAME.webp`` if asked for; a name is used once in a test. ``tallest``: CSS pixels that are kept."""
        assert name not in self._taken, f"two pictures are named {name}; give each a name of its own"
        self._taken.add(name)
        taken = picture(page, tallest)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.webp").write_bytes(taken)
        return taken
