"""Whatever characters people have written, the console's own words stay where they are, and no name makes a table wider than the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from html.parser import HTMLParser
from importlib.resources import files

from quarterjack import Registry
from quarterjack.errors import Permanent

from tests.support.console import Browser
from tests.support.crawl import crawl

TURN = "\u202e"  # RIGHT-TO-LEFT OVERRIDE, which nothing closes
_ALONE = {"bdi", "pre", "textarea"}  # whose text turns nothing beside it


class _Texts(HTMLParser):
    """Texts with such a character that are not isolated, with the elements around them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bare: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in ("input", "br", "img", "link", "meta", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if TURN not in data or _ALONE & set(self.open):
            return
        if "title" in self.open and re.search("\u2068[^\u2069]*\u202e[^\u2069]*\u2069", data):
            return
        self.bare.append(f"{'/'.join(self.open)}: {data.strip()[:80]}")


def hostile() -> Browser:
    """Everything that may hold any character has this one."""
    jobs = Registry()

    @jobs.job("greet")
    def greet(ctx: object, payload: object) -> str:
        return f"Hello {TURN}"

    @jobs.job("fail")
    def fail(ctx: object, payload: object) -> None:
        raise Permanent(f"never {TURN}works")

    browser = Browser(jobs=jobs)
    scheduler = browser.scheduler.acting_as("eve", reason=f"because {TURN}so")
    for name, job in (("good", "greet"), ("bad", "fail")):
        scheduler.create_schedule(
            name, job, "*/5 * * * *", payload={TURN: TURN}, description=f"about {TURN}it", tags={"team": f"a{TURN}b"}
        )
    browser.harness.advance(timedelta(minutes=11))
    scheduler.pause_schedule("good", reason=f"moves {TURN}away")
    scheduler.freeze(browser.harness.clock.now() + timedelta(hours=1), reason=f"the base {TURN}moves")
    browser.harness.tenants.create("default", description=f"Acme {TURN}Ltd")
    return browser


def test_no_text_of_people_turns_the_words_beside_it() -> None:
    browser = hostile()
    bare, seen = dict[str, list[str]](), 0
    for address in crawl(browser).pages:
        answer = browser.client.get(address)
        if answer.status_code != 200 or not answer.headers["content-type"].startswith("text/html"):
            continue
        texts = _Texts()
        texts.feed(answer.text)
        seen += TURN in answer.text
        if texts.bare:
            bare[address] = texts.bare[:3]
    assert seen > 10
    assert bare == {}


def test_names_in_tables_are_bounded() -> None:
    """By the style sheet; what it comes to is measured in a browser."""
    style = (files("quarterjack.console") / "static" / "console.css").read_text(encoding="utf-8")
    bounded = next(line for line in style.splitlines() if line.startswith("td bdi, th bdi"))
    assert "max-width: 18rem" in bounded
    assert "white-space: normal" in bounded
