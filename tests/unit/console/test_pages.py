"""Every page, over the memory engine: what it shows, and that nothing of a job is markup."""

from __future__ import annotations

from datetime import timedelta

import pytest
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser

PAGES = ["", "schedules", "timeline", "runs", "dead"]
EVIL = '<img src=x onerror="alert(1)">'


def busy() -> Browser:
    """Two schedules with an hour of runs; one of them fails."""
    browser = Browser()
    zone = "Europe/Berlin"
    browser.scheduler.create_schedule(
        "team/good", "greet", "*/5 * * * *", timezone=zone, payload={"to": EVIL}, tags={"team": "a"}
    )
    browser.scheduler.create_schedule("team/bad", "fail", "*/10 * * * *", timezone=zone, description=EVIL)
    for _ in range(12):
        browser.harness.advance(timedelta(minutes=5))
    return browser


@pytest.mark.parametrize("path", PAGES)
def test_an_empty_page_tells_what_to_do_next(path: str) -> None:
    page = Browser().get(path)
    assert 'class="empty"' in page


@pytest.mark.parametrize("path", [*PAGES, "schedule/team~good", "schedule/team~bad", "schedules?q=team:x", "nowhere"])
def test_every_page_may_load_only_its_own_style_and_script_and_holds_no_markup_of_users(path: str) -> None:
    answer = busy().client.get(f"/console/t/default/{path}")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "<img src=x" not in answer.text
    assert "style=" not in answer.text
    assert " onclick" not in answer.text
    assert "&lt;img" in answer.text or "team~" not in path


def test_the_overview_names_what_fails_and_leads_to_it() -> None:
    page = busy().get("")
    assert 'href="/console/t/default/schedule/team~bad"' in page
    assert "failures in a row" in page
    assert "Permanent" in page


def test_a_list_shows_the_last_runs_as_bars_with_words_for_who_does_not_see_them() -> None:
    page = busy().get("schedules")
    assert "last 12 runs: 12 succeeded" in page
    assert "last 6 runs: 6 dead" in page
    assert page.count('<path class="good"') == 2  # of the legend, and one for all twelve runs
    assert "Europe/Berlin" in page


def test_the_words_of_a_search_narrow_the_list() -> None:
    browser = busy()
    for words, found in (("tag:team=a", "good"), ("failing:yes", "bad"), ("job:fail", "bad"), ("good", "good")):
        page = browser.get(f"schedules?q={words}")
        assert f"schedule/team~{found}" in page, words
        assert f"schedule/team~{'bad' if found == 'good' else 'good'}" not in page, words
    assert "Nothing matches" in browser.get("schedules?q=state:paused")


@pytest.mark.parametrize("words", ["failing:maybe", "job:", "a b", '"open', "state:asleep"])
def test_a_search_that_cannot_be_read_is_shown_with_its_remedy(words: str) -> None:
    page = Browser().get(f"schedules?q={words}", status=422)
    assert 'role="alert"' in page


def test_a_schedule_shows_its_definition_fires_runs_and_revisions() -> None:
    browser = busy()
    browser.scheduler.update_schedule("team/good", expression="*/15 * * * *")
    page = browser.get("schedule/team~good")
    for words in ("*/15 * * * *", "Europe/Berlin", "Revisions", "expression", "succeeded", "&lt;img"):
        assert words in page


def test_a_run_shows_why_it_failed_with_its_traceback() -> None:
    browser = busy()
    run = browser.scheduler.list_dead(limit=1).items[0]
    page = browser.get(f"run/{run_in_url(run.id)}")
    for words in ("it never works", "Traceback", "failed for good", "Replay…"):
        assert words in page


def test_runs_are_found_by_state_and_by_schedule() -> None:
    browser = busy()
    assert "team~good" not in browser.get("runs?state=DEAD")
    assert "team~bad" not in browser.get("runs?schedule=team/good").replace("option", "")
    assert "team~bad" in browser.get("dead")


def test_what_does_not_exist_is_a_page_that_says_so() -> None:
    browser = Browser()
    assert "nobody" in browser.get("schedule/nobody", status=404)
    assert "No such page" in browser.get("nowhere", status=404)
    for path in ("schedule/nobody", "nowhere", "run/AAAA"):
        page = browser.client.get(f"/console/t/default/{path}").text
        assert "Not done" in page, path
        assert '<nav aria-label="Pages">' in page, path
        assert 'href="/console/t/default/runs"' in page, path
    assert "<nav" not in browser.client.get("/console/nowhere").text, "no tenant is named"
