"""Backfills in the console: counted before they begin, begun once, listed with those of all schedules, paused, resumed, cancelled."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest

from tests.support.console import Browser

ROOT = "/console/t/default/"
NEW = "schedule/team~a/backfill"


def console() -> Browser:
    browser = Browser()
    browser.scheduler.create_schedule("team/a", "greet", "0 * * * *", timezone="Europe/Berlin", payload={"to": "Ada"})
    return browser


def form_of(page: str) -> dict[str, str]:
    inside = re.findall(r'<form class="editor".*?</form>', page, re.DOTALL)[0]
    found = dict(re.findall(r'<input(?![^>]*checkbox)[^>]* name="([^"]+)"[^>]*? value="([^"]*)"', inside))
    found |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n?(.*?)</textarea>', inside, re.DOTALL))
    return {name: html.unescape(value) for name, value in found.items()} | {"order": "oldest", "current": "yes"}


def begin(browser: Browser, **more: str) -> str:
    """The address of a new backfill's page, below the tenant's."""
    answer = browser.send(ROOT + NEW, {**form_of(browser.get(NEW)), **more, "do": "begin"})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].removeprefix(ROOT)


def test_without_a_backfill_the_page_tells_where_to_begin_one() -> None:
    browser = console()
    assert "No backfill yet" in browser.get("backfills")
    assert "No backfill is done" in browser.get("backfills?state=DONE")
    browser.get("backfills?state=LATE", status=422)
    assert f'href="{ROOT}{NEW}"' in browser.get("schedule/team~a")


def test_a_preview_counts_fires_in_the_schedules_zone_and_begins_nothing() -> None:
    browser = console()
    form = form_of(browser.get(NEW)) | {"start": "2026-05-04T10:00", "end": "2026-05-04T13:30"}
    page = browser.send(ROOT + NEW, form).text
    assert "<dt>Fires</dt><dd>4</dd>" in page
    assert "Run 4 fires" in page
    assert "2026-05-04 10:00:00" in page
    assert not browser.scheduler.list_backfills("team/a")


def test_without_the_current_definition_it_says_why_nothing_would_run() -> None:
    browser = console()
    page = browser.send(ROOT + NEW, {**form_of(browser.get(NEW)), "current": ""}).text
    assert "notice waiting" in page
    assert 'value="begin"' not in page


def test_it_is_begun_once_with_its_reason_and_listed() -> None:
    browser = console()
    form = form_of(browser.get(NEW)) | {"do": "begin", "reason": "the night is missing", "concurrency": "2"}
    places = {browser.send(ROOT + NEW, form).headers["location"] for _ in range(2)}
    assert len(places) == 1
    (found,) = browser.scheduler.list_backfills("team/a")
    assert (found.total, found.concurrency) == (24, 2)
    line: Any = browser.scheduler.audit(act="backfill").items[0]
    assert (line.reason, line.via) == ("the night is missing", "console")
    for page in ("backfills", "backfills?state=RUNNING", "schedule/team~a"):
        assert places.copy().pop() in browser.get(page)
    browser.harness.advance(timedelta(hours=1))
    page = browser.get(places.pop().removeprefix(ROOT))
    assert "100 % handled" in page
    assert "succeeded" in page


def test_it_is_paused_resumed_and_cancelled_with_numbers() -> None:
    browser = console()
    place = begin(browser, concurrency="1")
    identity = place.rpartition("/")[2]
    assert "<dt>Under way</dt><dd>1 run</dd>" in browser.get(f"{place}/act?do=pause")
    for word, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("cancel", "CANCELLED")):
        assert f'value="{word}"' in browser.get(place)
        assert browser.confirm(f"{place}/act?do={word}", reason=f"to {word}").headers["location"] == ROOT + place
        assert browser.scheduler.get_backfill("team/a", identity).state == state
        line: Any = browser.scheduler.audit(act=f"{word}-backfill").items[0]  # type: ignore[arg-type]
        assert line.reason == f"to {word}"
    assert 'name="do"' not in browser.get(place)


@pytest.mark.parametrize(
    ("field", "text"),
    [("start", "soon"), ("end", "2030-01-01T00:00"), ("concurrency", "many"), ("concurrency", "500"), ("payload", "{")],
)
def test_a_fault_is_shown_beside_what_was_typed(field: str, text: str) -> None:
    browser = console()
    form = form_of(browser.get(NEW)) | {field: text}
    for word in ("preview", "begin"):
        answer = browser.send(ROOT + NEW, {**form, "do": word})
        assert answer.status_code == 422
        assert f"<strong>{field}</strong>" in answer.text
        assert html.escape(text, quote=True).replace("&#x27;", "&#39;") in answer.text
    assert not browser.scheduler.list_backfills("team/a")


def test_a_backfill_that_is_not_there_is_a_page_that_says_so() -> None:
    browser = console()
    browser.get("schedule/team~a/backfills/nothing", status=404)
    browser.get("schedule/team~a/backfills/nothing/act?do=pause", status=404)
    browser.get("schedule/team~a/backfills/nothing/act?do=x", status=422)
