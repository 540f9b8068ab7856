"""Acts: shown with numbers, confirmed, with a reason in the audit, and done once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser, post_form


def console() -> Browser:
    browser = Browser()
    for name in ("a", "b", "c"):
        browser.scheduler.create_schedule(
            f"team/{name}", "greet", "0 * * * *", payload={"to": "Ada"}, tags={"team": "a"}
        )
    return browser


def state(browser: Browser, name: str = "team/a") -> str:
    return str(browser.scheduler.get_schedule(name).state)


def test_a_preview_changes_nothing() -> None:
    browser = console()
    for word in ("pause", "resume", "trigger", "skip"):
        browser.get(f"schedule/team~a/act?do={word}")
    for word in ("pause", "resume", "trigger", "delete"):
        browser.get(f"schedules/act?do={word}&q=tag:team=a")
    assert [state(browser, f"team/{name}") for name in "abc"] == ["ACTIVE"] * 3
    assert not browser.scheduler.list_runs("team/a", upcoming=False).items


def test_a_schedule_is_paused_and_resumed_with_a_reason_in_the_audit() -> None:
    browser = console()
    answer = browser.confirm("schedule/team~a/act?do=pause", reason="the warehouse moves")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/t/default/schedule/team~a?done=pause")
    assert state(browser) == "PAUSED"
    line: Any = browser.scheduler.audit(schedule="team/a", act="pause").items[0]
    assert (line.reason, line.via) == ("the warehouse moves", "console")
    shown = browser.scheduler.get_schedule("team/a")
    assert f"Paused by {shown.paused_by}, now: the warehouse moves" in browser.get("schedule/team~a")
    browser.confirm("schedule/team~a/act?do=resume")
    assert state(browser) == "ACTIVE"


def test_a_form_that_is_sent_twice_triggers_one_run() -> None:
    browser = console()
    action, hidden = post_form(browser.get("schedule/team~a/act?do=trigger"))
    for _ in range(2):
        assert browser.send(action, hidden).status_code == 303
    browser.harness.advance(timedelta(minutes=1))
    assert [str(run.kind) for run in browser.harness.runs()].count("trigger") == 1


def test_a_form_about_a_revision_that_is_not_current_any_more_is_refused() -> None:
    browser = console()
    action, hidden = post_form(browser.get("schedule/team~a/act?do=pause"))
    browser.scheduler.update_schedule("team/a", expression="5 * * * *")
    assert browser.send(action, hidden).status_code == 409
    assert state(browser) == "ACTIVE"


def test_a_skip_that_is_sent_several_times_skips_one_fire() -> None:
    browser = console()
    action, hidden = post_form(browser.get("schedule/team~a/act?do=skip"))
    for _ in range(3):
        assert browser.send(action, hidden).status_code == 303
    browser.harness.advance(timedelta(hours=3, minutes=1))
    states = [run.state for run in browser.scheduler.list_runs("team/a", upcoming=False).items]
    assert states.count("SKIPPED") == 1


@pytest.mark.parametrize("revision", ["²", "x", "-1", ""])
def test_what_is_no_revision_is_no_fault_of_the_server(revision: str) -> None:
    browser = console()
    action, hidden = post_form(browser.get("schedule/team~a/act?do=skip"))
    assert browser.send(action, {**hidden, "revision": revision}).status_code < 500


def test_the_next_fire_is_skipped() -> None:
    browser = console()
    assert browser.confirm("schedule/team~a/act?do=skip").status_code == 303
    browser.harness.advance(timedelta(hours=1, minutes=1))
    assert browser.scheduler.list_runs("team/a", upcoming=False).items[0].state == "SKIPPED"


def test_all_that_match_are_counted_and_then_changed() -> None:
    browser = console()
    assert "Pause 3 schedules?" in browser.get("schedules/act?do=pause&q=tag:team=a")
    answer = browser.confirm("schedules/act?do=pause&q=tag:team=a", reason="migration")
    assert "Pause: 3 schedules done" in answer.text
    assert [state(browser, f"team/{name}") for name in "abc"] == ["PAUSED"] * 3
    assert "Nothing to do" in browser.get("schedules/act?do=pause&q=tag:team=b")


def test_work_that_takes_longer_than_a_request_goes_on_by_a_button() -> None:
    """No JavaScript: each answer is a page whose form continues."""
    browser = console()
    short = Browser(scheduler=browser.scheduler, longest=0.0)
    answer = short.confirm("schedules/act?do=pause&q=tag:team=a", reason="migration")
    action, fields = post_form(answer.text)
    assert "Continue" in answer.text
    assert fields["reason"] == "migration"
    long = Browser(scheduler=browser.scheduler)
    assert "Pause: 3 schedules done" in long.send(action, fields).text
    assert [state(browser, f"team/{name}") for name in "abc"] == ["PAUSED"] * 3


@pytest.mark.parametrize("path", ["schedules/act?do=pause", "schedules/act?do=nothing&q=a", "schedule/team~a/act?do=x"])
def test_an_act_without_a_search_or_of_an_unknown_kind_is_refused(path: str) -> None:
    browser = console()
    browser.get(path, status=422)


def test_dead_runs_are_counted_and_repeated_and_one_is_replayed() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("bad", "fail", "*/10 * * * *")
    browser.harness.advance(timedelta(minutes=35))
    assert "Redrive 3 dead runs?" in browser.get("dead/redrive?job=fail")
    run = browser.scheduler.list_dead(limit=1).items[0]
    replayed = browser.confirm(f"run/{run_in_url(run.id)}/act?do=replay")
    assert replayed.status_code == 303
    assert "/run/" in replayed.headers["location"]
    answer = browser.confirm("dead/redrive?job=fail", reason="the cause is gone")
    assert "repeated" in answer.text
    assert browser.get("dead/redrive?job=fail").count("Nothing to do") == 1


def test_ticked_schedules_are_shown_and_changed_and_no_others() -> None:
    browser = console()
    page = browser.get("schedules")
    assert page.count('type="checkbox" name="name"') == 3
    preview = "schedules/act?name=team/a&name=team/c&do=pause"
    assert "Pause 2 schedules?" in browser.get(preview)
    answer = browser.confirm(preview, reason="migration")
    assert "Pause: 2 schedules done" in answer.text
    assert [state(browser, f"team/{name}") for name in "abc"] == ["PAUSED", "ACTIVE", "PAUSED"]
    assert "Nothing to do" in browser.get("schedules/act?name=nobody&do=pause")


def test_work_on_ticked_schedules_goes_on_by_a_button() -> None:
    browser = console()
    short = Browser(scheduler=browser.scheduler, longest=0.0)
    action, fields = post_form(short.confirm("schedules/act?name=team/a&name=team/c&do=pause").text)
    assert fields["names"] == "team/a team/c"
    assert "Pause: 2 schedules done" in Browser(scheduler=browser.scheduler).send(action, fields).text
