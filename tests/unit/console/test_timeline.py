"""The timeline: what ran, what runs and what is due in a window, for each schedule that a search finds."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.console.pages.fires.timeline import FIRES, ROWS, RUNS, WIDE, Lane, drawn
from quarterjack.console.pages.fires.window import SPANS, Window, fitting, window_of
from quarterjack.errors import Conflict, InvalidInput

from tests.support.api import NOON
from tests.support.console import Browser

HOUR = timedelta(hours=1)


def console() -> Browser:
    """A schedule that works every five minutes, one that fails every ten, and one that is due at night; after an hour."""
    browser = Browser()
    browser.scheduler.create_schedule("team/good", "greet", "*/5 * * * *", payload={"to": "Ada"}, tags={"team": "a"})
    browser.scheduler.create_schedule("team/bad", "fail", "*/10 * * * *")
    browser.scheduler.create_schedule("nightly", "greet", "30 2 * * *", timezone="Europe/Berlin", payload={"to": "Ada"})
    for _ in range(12):
        browser.harness.advance(timedelta(minutes=5))
    return browser


def lane(page: str, name: str) -> str:
    """The picture of a schedule's row."""
    found = re.search(rf'schedule/{re.escape(name)}">.*?(<svg class="bars lane".*?</svg>)', page, re.DOTALL)
    assert found, page
    return found[1]


def label(page: str, name: str) -> str:
    said = re.search(r'aria-label="([^"]*)"', lane(page, name))
    assert said
    return said[1]


def links(page: str) -> dict[str, str]:
    """Addresses of the links that move the window, below the tenant's."""
    found = re.findall(r'<a class="button quiet" href="/console/t/default/([^"]*)">([^<]+)</a>', page)
    return {word: html.unescape(address) for address, word in found}


def test_a_row_has_what_ran_and_what_is_due_and_says_so_in_words() -> None:
    page = console().get("timeline?span=3h")
    assert label(page, "team~good") == "12 runs: 12 succeeded; 11 to come"
    assert label(page, "team~bad") == "6 runs: 6 dead; 5 to come"
    assert label(page, "nightly") == "nothing"
    assert [kind for kind in ("good", "bad", "due", "now") if f'class="{kind}"' in lane(page, "team~good")] == [
        "good",
        "due",
        "now",
    ]
    assert 'class="bad"' in lane(page, "team~bad")


def test_without_a_span_the_window_fits_the_density() -> None:
    browser = console()
    assert "2026-05-04 11:00" in browser.get("timeline?q=good")
    for words, span in (("good", "3h"), ("nightly", "30d")):
        assert browser.get(f"timeline?q={words}").count("href") > 5
        fires = [one.next_fires for one in browser.scheduler.list_schedules(contains=words, next_fires=10).items]
        assert fitting(fires) == span


def test_the_window_is_moved_and_zoomed_by_links() -> None:
    browser = console()
    page = browser.get("timeline?q=good&from=2026-05-04T12:00&span=1h")
    ways = links(page)
    assert "2026-05-04 11:30" in browser.get(ways["Earlier"])
    assert "2026-05-04 12:30" in browser.get(ways["Later"])
    near, far = browser.get(ways["Zoom in"]), browser.get(ways["Zoom out"])
    assert ("2026-05-04 12:22" in near, "2026-05-04 12:37" in near) == (True, True)
    assert ("2026-05-04 11:00" in far, "2026-05-04 14:00" in far) == (True, True)
    assert "q=good" in ways["Now"]
    assert "hx-trigger" in browser.get(ways["Now"])
    assert "hx-trigger" not in page  # the window that was asked for stays


def test_a_part_of_the_window_is_a_link_to_a_closer_look() -> None:
    browser = console()
    page = browser.get("timeline?q=good&from=2026-05-04T12:00&span=6h")
    address = re.search(r'<a href="/console/t/default/(timeline[^"]*)">13:00</a>', page)
    assert address
    closer = browser.get(html.unescape(address[1]))
    assert ("2026-05-04 13:00" in closer, "2026-05-04 14:00" in closer) == (True, True)


def test_a_window_in_the_future_has_the_fires_of_that_time_and_reads_no_runs() -> None:
    browser = console()
    page = browser.get("timeline?zone=Europe/Berlin&from=2026-12-24T00:00&span=1d")
    assert label(page, "nightly") == "1 to come"
    assert label(page, "team~good") == f"over {FIRES} to come"
    assert 'class="unread"' in lane(page, "team~good")


def test_a_window_in_the_past_has_no_fire_to_come() -> None:
    page = console().get("timeline?from=2026-05-04T12:00&span=1h")
    assert label(page, "team~good") == "11 runs: 11 succeeded"
    assert 'class="now"' in lane(page, "team~good")
    assert 'class="due"' not in lane(page, "team~good")


def test_of_many_runs_the_newest_are_drawn_and_it_is_said() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("poll", "greet", "* * * * *", payload={"to": "Ada"})
    browser.harness.advance(HOUR)
    page = browser.get("timeline?span=3h")
    assert label(page, "poll").startswith(f"last {RUNS} runs")
    assert 'class="unread"' in lane(page, "poll")


def test_pages_of_schedules_keep_the_window() -> None:
    browser = Browser()
    for number in range(ROWS + 1):
        browser.scheduler.create_schedule(f"s{number:02}", "greet", "0 * * * *", payload={"to": "Ada"})
    page = browser.get("timeline?from=2026-05-04T12:00&span=6h")
    more = re.search(r'href="/console/t/default/(timeline[^"]*)">Next schedules', page)
    assert more
    second = browser.get(html.unescape(more[1]))
    assert "schedule/s25" in second
    assert "2026-05-04 18:00" in second


def test_a_row_that_is_not_answered_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = console()
    real = type(browser.scheduler).list_runs

    def list_runs(self: Any, name: str | None = None, **how: Any) -> Any:
        if name == "team/bad":
            raise Conflict("others change it all the time")
        return real(self, name, **how)

    monkeypatch.setattr(type(browser.scheduler), "list_runs", list_runs)
    page = browser.get("timeline?span=3h")
    assert label(page, "team~bad") == "others change it all the time"
    assert label(page, "team~good").startswith("12 runs")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("span=2h", "span of a timeline"),
        ("from=yesterday", "is not a time"),
        ("from=0001-01-01T00:00", "not a time of a timeline"),
        ("from=9999-12-31T23:59", "not a time of a timeline"),
        ("zone=Mars/Olympus", "is not a zone"),
        ("q=failing:maybe", "neither yes nor no"),
    ],
)
def test_what_cannot_be_read_is_shown_with_its_remedy(query: str, field: str) -> None:
    page = console().get(f"timeline?{query}", status=422)
    assert 'role="alert"' in page
    assert field in page


def test_the_runs_of_a_row_are_linked() -> None:
    browser = console()
    page = browser.get("timeline?from=2026-05-04T12:10&span=15m")
    link = re.search(r'<a href="/console/t/default/(runs\?schedule=team%2Fgood[^"]*)">3 runs', page)
    assert link
    runs = browser.get(html.unescape(link[1])).partition("<tbody>")[2]
    assert [at for at in ("12:05:00", "12:10:00", "12:15:00", "12:20:00", "12:25:00") if at in runs] == [
        "12:10:00",
        "12:15:00",
        "12:20:00",
    ]


def test_labels_are_times_of_the_zone_also_across_a_clock_change() -> None:
    at = datetime(2026, 3, 29, 12, tzinfo=UTC)  # clocks of Berlin went from 2:00 to 3:00 this morning
    window = window_of(at, start="2026-03-29T00:00", span="1d", zone_name="Europe/Berlin", fires=())
    assert [window.label(part) for part in window.parts[:3]] == ["Sun 29 Mar", "04:00", "07:00"]
    assert window.end - window.start.astimezone(UTC) == timedelta(days=1)
    assert f"{window.end:%d %H:%M}" == "30 01:00"


@pytest.mark.parametrize("word", SPANS)
def test_a_window_that_moves_begins_at_a_part_and_shows_now(word: str) -> None:
    at = datetime(2026, 10, 25, 0, 59, 59, tzinfo=UTC)
    for name in ("UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"):
        window = window_of(at, start=None, span=word, zone_name=name, fires=())
        assert window.start < at < window.end
        assert 0.5 < window.share(at) <= 0.8
        assert window.start.second == 0


def test_the_widest_window_has_none_around_it_and_the_smallest_none_within() -> None:
    words = list(SPANS)
    assert Window(word=words[-1], start=NOON, moves=True).zoomed(1) is None
    assert Window(word=words[0], start=NOON, moves=True).zoomed(-1) is None
    assert Window(word=words[0], start=NOON, moves=True).inside(NOON)["span"] == words[0]


def test_a_run_that_is_not_over_is_a_frame_up_to_now_and_outlines_stay_inside() -> None:
    window = Window(word="1h", start=NOON, moves=False)
    run = SimpleNamespace(state="RUNNING", due=NOON - HOUR, started_at=NOON - HOUR, ended_at=None, skipped_until=None)
    picture = drawn(Lane(runs=[run], due=[NOON + HOUR]), window, NOON + HOUR / 2)
    assert f'class="busy" d="M0 20V4H{WIDE // 2}V20z"' in picture
    assert f'class="due" d="M{WIDE} 20v-8"' in picture


def test_preview_begins_after_a_time() -> None:
    scheduler = console().scheduler
    asked = datetime(2026, 12, 24, tzinfo=UTC)
    assert [f"{fire:%d %H:%M}" for fire in scheduler.preview("nightly", 2, after=asked)] == ["24 02:30", "25 02:30"]
    assert scheduler.preview("nightly", 2, after=NOON - HOUR) == scheduler.preview("nightly", 2)
    with pytest.raises(InvalidInput, match="after"):
        scheduler.preview("nightly", after=datetime(2026, 12, 24))  # noqa: DTZ001 (that is the fault)
