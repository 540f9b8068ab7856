"""The overview and the doctor: from the first page on it says what is wrong, and why nothing starts."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler, Settings
from quarterjack.console.checkups import Checkup, Checkups
from quarterjack.doctor.context import Finding, Severity, fail, ok, warn
from quarterjack.sdk.views import Page
from quarterjack.web import Actor

from tests.support.api import NOON
from tests.support.console import Browser, give_doctor

SETTINGS = Settings(tenant="default")


class Doctor:
    """Finds what it is told, once it may go on."""

    def __init__(self, *findings: Finding, waits: bool = False) -> None:
        self.findings, self.asked, self.may_go_on = findings, list[Settings](), threading.Event()
        if not waits:
            self.may_go_on.set()

    def __call__(self, settings: Settings) -> Iterable[Finding]:
        self.asked.append(settings)
        return self._look()

    def _look(self) -> Iterator[Finding]:
        yield ok("the tables are there")
        assert self.may_go_on.wait(20)
        yield from self.findings


def over() -> None:
    """Wait until the check-ups of this process are over."""
    for thread in threading.enumerate():
        if thread.name == "quarterjack-doctor":
            thread.join(20)


def with_doctor(doctor: Doctor, **given: Any) -> Browser:
    browser = Browser(settings=SETTINGS, **given)
    give_doctor(browser, doctor)
    return browser


# The doctor.


def test_the_doctor_looks_in_the_background_and_the_page_shows_how_far_it_is() -> None:
    doctor = Doctor(
        fail("the ticker is behind", "look at its log"), warn("an <alarm> is missing", "deploy"), waits=True
    )
    browser = with_doctor(doctor)
    assert "The checks are running" in browser.get("doctor")
    assert "The checks are running" in browser.get("doctor")
    doctor.may_go_on.set()
    over()
    page = browser.get("doctor")
    assert page.index("the ticker is behind") < page.index("an &lt;alarm&gt; is missing")
    assert "Look at its log" in page
    assert "1 check passed" in page
    assert [settings.tenant for settings in doctor.asked] == ["default"]
    assert "the ticker is behind" in browser.get("")
    assert len(doctor.asked) == 1


def test_the_doctor_is_asked_again_by_a_button_or_after_half_an_hour() -> None:
    doctor = Doctor()
    browser = with_doctor(doctor)
    for count in (1, 1):
        browser.get("doctor")
        over()
        assert len(doctor.asked) == count
    assert "No problem found" in browser.get("doctor")
    answer = browser.send("/console/t/default/doctor", {})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/t/default/doctor")
    over()
    assert len(doctor.asked) == 2
    browser.harness.advance(timedelta(minutes=31))
    browser.get("")
    over()
    assert len(doctor.asked) == 3


def test_a_check_up_that_is_under_way_is_not_begun_twice() -> None:
    doctor = Doctor(waits=True)
    checkups = Checkups(doctor)
    first = checkups.begin(SETTINGS, NOON)
    assert checkups.begin(SETTINGS, NOON) is first
    assert checkups.last(SETTINGS, NOON + timedelta(hours=1)) is first
    doctor.may_go_on.set()


def test_a_doctor_that_breaks_off_says_so() -> None:
    def broken(settings: Settings) -> Iterator[Finding]:
        yield ok("the tables are there")
        raise RuntimeError("no network")

    checkup = Checkups(broken).begin(SETTINGS, NOON)
    over()
    assert checkup.is_over
    assert checkup.broke_off
    assert len(checkup.findings) == 1


def test_many_tenants_are_not_all_remembered() -> None:
    doctor = Doctor()
    checkups = Checkups(doctor)
    for number in range(60):
        checkups.begin(Settings(tenant=f"t{number}"), NOON)
    assert len(checkups._last) == 50


def test_the_worst_comes_first() -> None:
    checkup = Checkup(began_at=NOON, findings=[ok("a"), warn("b", "c"), fail("d", "e")])
    assert [one.verdict for one in checkup.bad] == [Severity.FAIL, Severity.WARN]


def test_the_doctor_is_for_operators_who_are_granted_that() -> None:
    doctor = Doctor()
    nobody = with_doctor(doctor, actor=Actor(name="alice@acme"))
    nobody.get("doctor", status=403)
    assert nobody.send("/console/t/default/doctor", {}).status_code == 403
    assert "<h2>Doctor</h2>" not in nobody.get("")
    browser = with_doctor(doctor, actor=Actor(name="alice@acme", operator=True))
    browser.harness.tenants.grant("~installation", "iam:*", "admin")
    browser.harness.tenants.grant("~installation", "app:bob@acme", "admin")
    browser.get("doctor", status=403)
    assert "You have no grant to see this." in browser.get("")
    assert not doctor.asked


def test_a_server_without_settings_says_that_the_doctor_cannot_be_asked() -> None:
    browser = Browser()
    assert "cannot run here" in browser.get("doctor")
    assert browser.send("/console/t/default/doctor", {}).status_code == 404
    assert "<h2>Doctor</h2>" not in browser.get("")


# The ticker, what is held, and what happened.


@pytest.mark.parametrize(
    ("minutes", "said"), [(30, ">on time<"), (60, "No tick for"), (65, "The ticker is 5 min behind.")]
)
def test_a_ticker_that_stopped_is_seen(minutes: int, said: str) -> None:
    browser = Browser()
    browser.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    browser.harness.clock.advance(timedelta(minutes=minutes))
    assert said in browser.get("")


def test_a_freeze_says_why_and_by_whom() -> None:
    browser = Browser()
    browser.scheduler.acting_as("bob@acme").freeze(NOON + timedelta(hours=4), reason="the <database> moves")
    page = browser.get("")
    assert "the &lt;database&gt; moves" in page
    assert "By app:bob@acme" in page


def test_a_suspension_says_why() -> None:
    browser = Browser()
    browser.harness.tenants.suspend("default", reason="unpaid since March")
    assert "unpaid since March" in browser.get("")


def test_outcomes_of_the_last_hour_and_day_and_the_load_that_comes() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("good", "greet", "*/30 * * * *", payload={"to": "Ada"})
    browser.scheduler.create_schedule("bad", "fail", "0 * * * *")
    browser.harness.advance(timedelta(hours=3, minutes=5))
    page = browser.get("")
    assert "last 24 hours: 6 succeeded, 3 failed" in page
    assert "failed for good, 6 succeeded" in page
    assert "failed for good, 2 succeeded" in page  # within the last hour: at half past and at the full hour
    assert "72 fires of 2 schedules" in page
    assert "/console/t/default/calendar" in page


def test_a_part_that_a_table_does_not_answer_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from quarterjack.errors import Unavailable

    def refuse(*_: object, **__: object) -> None:
        raise Unavailable("the table does not answer")

    browser = Browser()
    browser.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    for word in ("ticker", "holds", "hourly_outcomes", "forecast", "queues", "list_running", "workers", "list_dead"):
        monkeypatch.setattr(type(browser.scheduler), word, refuse)
    page = browser.get("")
    assert page.count("the table does not answer") >= 4
    assert "Failing schedules" in page


def test_it_says_when_not_all_schedules_were_searched_for_failing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """That none fails among the first ones by name is no good news."""
    browser, listed = Browser(), Scheduler.list_schedules

    def bounded(self: Scheduler, **given: Any) -> Page:
        page = listed(self, **given)
        return replace(page, cursor="next", searched_name="m")

    browser.scheduler.create_schedule("nightly", "greet", "0 2 * * *", payload={"to": "Ada"})
    assert "no open incident" in browser.get("")
    monkeypatch.setattr(Scheduler, "list_schedules", bounded)
    page = browser.get("")
    assert "no open incident" not in page
    assert "not all were searched" in page
    for words in ("failing%3Ayes", "state%3Apaused"):
        assert re.search(rf'up to <strong class="wrap">m</strong>, by name. <a href="[^"]*q={words}">', page)
