"""With reads of 150 ms each no page says a figure that it has not counted, and "none" is only said of what was searched."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.testing import Harness

from tests.support.api import NOON, greeting_jobs
from tests.support.console import Browser
from tests.support.crawl import get_routes
from tests.support.slow_reads import slow_scheduler

HOURS = 5


@pytest.fixture(scope="module")
def harness() -> Harness:
    """Two schedules that succeed every minute, one that fails every ten minutes, and three runs that wait."""
    made = Harness(greeting_jobs(), at=NOON)
    for name in ("good", "well"):
        made.scheduler.create_schedule(name, "greet", "* * * * *", payload={"to": "Ada"})
    made.scheduler.create_schedule("bad", "fail", "*/10 * * * *")
    made.advance(timedelta(hours=HOURS, minutes=31))
    for _ in range(3):
        made.scheduler.submit("greet", {"to": "Eve"}, delay=36_000)
    made.advance(timedelta(seconds=5))
    return made


@pytest.fixture(scope="module")
def slow(harness: Harness) -> Scheduler:
    return slow_scheduler(harness)


def page_of(slow: Scheduler, path: str) -> str:
    return Browser(scheduler=slow).get(path)


def test_runs_that_failed_for_good_are_counted_exactly(harness: Harness, slow: Scheduler) -> None:
    quick, found = harness.scheduler.hourly_outcomes(), slow.hourly_outcomes()
    assert not all(one.is_whole for one in found.hours), "the reads are not slow"
    assert found.last_hour["DEAD"] == quick.last_hour["DEAD"] == 6
    assert [one.outcomes.get("DEAD") for one in found.hours] == [one.outcomes.get("DEAD") for one in quick.hours]
    assert found.last_hour_failed_is_whole
    assert all(one.failed_is_whole for one in found.hours)


def test_the_overview_says_of_each_end_whether_it_is_whole(slow: Scheduler) -> None:
    text = re.sub(r"<[^>]+>", " ", page_of(slow, ""))
    said = " ".join(unescape(text).split())
    found = re.search(r"Last hour (\S+) failed for good, (at least \d+ succeeded)", said)
    assert found is not None, said
    assert found[1] == "6"
    day = re.search(r"Last 24 hours (\S+) failed for good, (at least \d+ succeeded)", said)
    assert day is not None, said
    assert int(day[1]) == 33
    assert "not counted yet" in said, "hours of which nothing was read"


SEARCHES: dict[str, dict[str, Any]] = {
    "all": {},
    "succeeded": {"state": "SUCCEEDED"},
    "failed": {"failed": True},
    "waiting": {"state": ["QUEUED", "RETRYING"]},
    "of a job": {"job": "fail"},
    "of a schedule": {"name": "bad", "failed": True},
    "recent": {"state": "DEAD", "since": NOON + timedelta(hours=HOURS)},
}


@pytest.mark.parametrize("search", SEARCHES)
def test_each_page_of_a_listing_makes_progress(harness: Harness, slow: Scheduler, search: str) -> None:
    """No page is empty while it has found nothing at all; a cursor means that more may come; all are found in the end."""
    given = SEARCHES[search]
    expected = {run.id for run in harness.scheduler.list_runs(**given, limit=1_000).items}
    found, cursor, pages = set[str](), None, 0
    while pages < 50:
        page = slow.list_runs(**given, limit=1_000, cursor=cursor)
        pages += 1
        assert page.items, "a page with nothing"
        found |= {run.id for run in page.items}
        cursor = page.cursor
        if cursor is None:
            break
    assert cursor is None
    assert found >= expected > set()


def test_three_accepted_submissions_are_on_the_first_page(slow: Scheduler) -> None:
    assert len(slow.list_runs(job="greet", kind="one-off").items) == 3
    assert page_of(slow, "runs?kind=one-off").count("one-off</span>") == 3


def test_a_search_that_finds_nothing_says_how_far_it_has_looked(slow: Scheduler) -> None:
    cursor, before = None, NOON + timedelta(days=1)
    while True:
        page = slow.list_runs(job="nothing", cursor=cursor)
        assert not page.items
        cursor = page.cursor
        if cursor is None:
            break
        assert page.searched_to is not None
        assert page.searched_to < before, "the same again"
        before = page.searched_to
    text = page_of(slow, "runs?job=nothing")
    assert "None so far" in text
    assert "Searched back to" in text


NONE = ("No run found", "No dead run", "No schedule yet", "Nothing matches", "No entry found", "No backfill yet")


def test_no_page_says_none_of_what_is_there(slow: Scheduler) -> None:
    for path in get_routes():
        if "{" in path or path in ("/tenants/switch", "/schedules/act", "/doctor"):
            continue
        text = page_of(slow, path.removeprefix("/"))
        said = [word for word in NONE if word in text]
        assert said == (["No backfill yet"] if path == "/backfills" else []), path


def test_the_api_says_what_is_whole(slow: Scheduler) -> None:
    answer = Browser(scheduler=slow).client.get("/v1/tenants/default/outcomes").json()
    assert answer["last_hour"]["DEAD"] == 6
    assert (answer["last_hour_is_whole"], answer["last_hour_failed_is_whole"]) == (False, True)
