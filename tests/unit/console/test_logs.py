"""The log lines of a run as a page, and as a part of the run's page."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from quarterjack import Registry, Retry
from quarterjack.errors import Unavailable
from quarterjack.sdk.session import over
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser

EVIL = '<img src=x onerror="alert(1)">'


def talking(*, actor: Actor | None = None, lines: int = 1) -> tuple[Browser, str]:
    """A browser, and the address of a run that logs."""
    jobs = Registry()

    @jobs.job("talk", retry=Retry(max_attempts=1))
    def talk(ctx: Any, payload: Any) -> None:
        for number in range(lines):
            ctx.logger.warning("line %d %s", number, EVIL, extra={"amount": 7, "password": "hunter22"})
        try:
            raise ValueError(EVIL)
        except ValueError:
            ctx.logger.exception("it failed")

    browser = Browser(actor=actor, jobs=jobs)
    run = browser.scheduler.submit("talk")
    browser.harness.advance(minutes=1)
    return browser, f"run/{run_in_url(run.id)}"


def test_the_lines_of_a_run_are_text_in_order() -> None:
    browser, run = talking()
    page = browser.get(f"{run}/logs")
    assert re.findall(r"<strong>(.*?)</strong>", page.partition("<main")[2]) == [
        "run.started",
        "line 0 &lt;img src=x onerror=&#34;alert(1)&#34;&gt;",
        "it failed",
        "run.ended",
    ]
    assert "<img src=x" not in page
    assert "hunter22" not in page
    assert "[redacted]" in page
    assert "Traceback" in page
    assert "2026-05-04 12:00:00.000" in page
    assert '<span class="badge waiting">' in page


def test_many_lines_have_a_way_on() -> None:
    browser, run = talking(lines=450)
    page, seen = browser.get(f"{run}/logs"), 0
    for _ in range(3):
        seen += len(re.findall("<strong>(?:<bdi>)?line ", page))
        more = re.search(r'href="([^"]+)">Later lines', page)
        if more is None:
            break
        page = browser.client.get(more[1]).text
        assert "From the beginning" in page
    assert seen == 450
    assert more is None


def test_the_page_of_the_run_leads_to_them_and_loads_them() -> None:
    browser, run = talking()
    page = browser.get(run)
    assert f'href="/console/t/default/{run}/logs"' in page
    assert f'hx-get="/console/t/default/{run}/logs"' in page


def test_a_run_that_goes_on_is_looked_at_again_and_an_old_one_is_not() -> None:
    browser, run = talking()
    assert 'hx-trigger="every 5s"' in browser.get(f"{run}/logs")
    browser.harness.advance(minutes=5)
    assert "hx-trigger" not in browser.get(f"{run}/logs")


def test_a_run_without_lines_says_why() -> None:
    browser = Browser()
    run = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600)
    page = browser.get(f"run/{run_in_url(run.id)}/logs")
    assert 'class="empty"' in page
    assert "No worker has started it, so nothing was logged about it." in page


def test_who_may_not_read_logs_sees_the_rest() -> None:
    browser, run = talking(actor=Actor(name="viewer"))
    browser.harness.tenants.grant("default", "iam:*", "admin")
    browser.harness.tenants.grant("default", "app:viewer", "viewer")
    assert "You have no grant to see this." in browser.get(f"{run}/logs")
    assert "talk" in browser.get(run)


def test_logs_that_do_not_answer_leave_the_page() -> None:
    browser, run = talking()
    logs = browser.scheduler.session.services.logs

    class Silent:
        place, remedy, has_lines_of = logs.place, logs.remedy, logs.has_lines_of

        def read(self, asked: Any) -> Any:
            raise Unavailable("filter_log_events: ThrottlingException: slow down")

    session = browser.scheduler.session
    services = replace(session.services, logs=Silent())
    silent = Browser(scheduler=over(browser.scheduler, replace(session, services=services)))
    assert "slow down" in silent.get(f"{run}/logs")
    assert silent.get(run)


@pytest.mark.parametrize("address", ["run/eA/logs", "run/ZGVmYXVsdC9-YSNvbmNl/logs"])
def test_a_run_that_there_is_not_is_an_error(address: str) -> None:
    answer = Browser().client.get(f"/console/t/default/{address}")
    assert answer.status_code in (404, 422)
