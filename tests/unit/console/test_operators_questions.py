"""What an operator asks in the morning, answered from the overview by its own links and forms."""

from __future__ import annotations

import html
import re
from datetime import timedelta

from quarterjack.web import Actor

from tests.support.console import Browser, post_form

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def addresses(page: str, words: str) -> list[str]:
    """Where the links with these words, or this label, lead to, below the tenant."""
    found = re.findall(r'<a [^>]*?href="/console/t/default/([^"]*)"([^>]*)>([^<]*)</a>', page)
    return [html.unescape(address) for address, label, text in found if words in text or words in label]


def section(page: str, title: str) -> str:
    """The part of a page below a heading."""
    return page.partition(f"<h2>{title}</h2>")[2].partition("</section>")[0]


def test_which_schedule_failed_last_night_and_why() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly/export", "fail", "0 2 * * *")
    browser.scheduler.create_schedule("good", "greet", "0 * * * *", payload={"to": "Ada"})
    browser.harness.advance(DAY)
    page = browser.get("")
    assert "nightly/export" in section(page, "Failing schedules")
    why = addresses(section(page, "Failed for good, last 24 h"), "why did nightly/export fail")
    assert len(why) == 1
    assert "it never works" in browser.get(why[0])


def test_a_failed_one_off_and_a_failed_backfill_are_among_what_failed() -> None:
    browser = Browser()
    browser.scheduler.submit("fail", delay=timedelta(minutes=1))
    browser.scheduler.create_schedule("weekly", "fail", "0 3 * * mon")
    since = browser.scheduler.get_schedule("weekly").next_fires[0] - timedelta(days=7)
    browser.scheduler.backfill("weekly", since - HOUR, since + HOUR, current=True, dry_run=False)
    browser.harness.advance(HOUR)
    failed = section(browser.get(""), "Failed for good, last 24 h")
    assert "one-off of" in failed
    for of in ("weekly", "fail"):
        assert len(addresses(failed, f"why did {of} fail")) == 1
    assert "None." in section(browser.get(""), "Failing schedules")  # neither is about a schedule's present fires


def test_equal_failures_are_one_line_and_the_most_frequent_come_first() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("often", "fail", "*/10 * * * *")
    browser.scheduler.create_schedule("seldom", "fail", "30 * * * *")
    browser.harness.advance(HOUR)
    failed = section(browser.get(""), "Failed for good, last 24 h")
    assert addresses(failed, "6 runs of often that failed for good") == ["dead?job=fail&schedule=often"]
    assert failed.index("often") < failed.index("seldom")
    assert "6 runs" in failed
    assert "1 run<" in failed


def test_what_would_run_in_tomorrows_maintenance_window() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("inside", "greet", "30 2 * * *", payload={"to": "Ada"})
    browser.scheduler.create_schedule("outside", "greet", "30 5 * * *", payload={"to": "Ada"})
    browser.scheduler.create_schedule("asleep", "greet", "30 2 * * *", payload={"to": "Ada"})
    browser.scheduler.pause_schedule("asleep")
    page = browser.get("")
    form = page.partition('aria-label="What would run in a maintenance window">')[2].partition("</form>")[0]
    times = dict(re.findall(r'name="(from|to)" type="datetime-local" value="([^"]+)"', form))
    assert set(times) == {"from", "to"}
    shown = browser.get(f"calendar/fires?from={times['from']}&to={times['to']}")
    assert "1 fire of 1 schedule" in shown
    assert ">inside<" in shown
    assert ">outside<" not in shown
    assert "1 schedule is paused beyond this time and not counted" in shown
    assert addresses(shown, "see the paused schedules") == ["schedules?q=state%3Apaused"]


def test_fires_of_a_window_are_shown_in_the_zone_that_was_asked_for() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("tokyo", "greet", "30 9 * * *", timezone="Asia/Tokyo", payload={"to": "Ada"})
    day = (browser.harness.clock.now() + DAY).date()
    shown = browser.get(f"calendar/fires?from={day}T00:00&to={day}T12:00&zone=Europe/Berlin")
    row = shown.partition("<tbody>")[2].partition("</tr>")[0]
    assert "Europe/Berlin" in row
    assert "Asia/Tokyo" not in row


def test_who_paused_the_nightly_export() -> None:
    browser = Browser(actor=Actor(name="ann"))
    browser.scheduler.create_schedule("nightly/export", "greet", "0 2 * * *", payload={"to": "Ada"})
    assert "None." in section(browser.get(""), "Paused schedules")
    browser.confirm("schedule/nightly~export/act?do=pause", reason="the warehouse <moves>")
    browser.harness.advance(2 * HOUR)
    browser.scheduler.acting_as("bob").bulk("retag", prefix="nightly", tags={"team": "a"})
    paused = section(browser.get(""), "Paused schedules")
    assert addresses(paused, "nightly/export") == ["schedule/nightly~export"]
    assert re.search(r"by [^<]*app:ann, 2 h[^<]* ago: the warehouse &lt;moves&gt;", paused)
    browser.scheduler.resume_schedule("nightly/export")
    assert "None." in section(browser.get(""), "Paused schedules")


def test_yesterdays_dead_runs_of_one_job_are_repeated() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("bad", "fail", "30 */6 * * *")
    browser.harness.advance(2 * DAY)
    now = browser.harness.clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    wanted = {one.id for one in browser.scheduler.list_dead(since=today - DAY, until=today).items}
    assert len(wanted) == 4
    where = addresses(section(browser.get(""), "Failed for good, last 24 h"), "those of yesterday")
    assert where == ["dead?days=yesterday"]
    listed = browser.get(f"{where[0]}&job=fail")
    assert len(re.findall(r'<td><a href="/console/t/default/run/', listed)) == 4
    hidden = dict(
        re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', listed.partition('class="acts"')[2])
    )
    query = "&".join(f"{name}={html.unescape(value)}" for name, value in hidden.items()).replace("+", "%2B")
    action, fields = post_form(browser.get(f"dead/redrive?{query}"))
    browser.send(action, {name: html.unescape(value) for name, value in fields.items()})
    left = {one.id for one in browser.scheduler.list_dead(since=now - 7 * DAY).items}
    assert not left & wanted
    assert len(left) > 0


def test_a_schedule_is_found_from_the_overview() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly/export", "greet", "0 2 * * *", payload={"to": "Ada"})
    form = re.search(r'<form id="find" [^>]*action="([^"]+)" role="search">.*?name="(\w+)"', browser.get(""), re.DOTALL)
    assert form is not None
    address, field = form.groups()
    assert "schedule/nightly~export" in browser.get(f"{address.removeprefix('/console/t/default/')}?{field}=export")
