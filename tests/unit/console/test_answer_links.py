"""Links by which a person without an account answers a run: opened they do nothing, used they answer once."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry, Run, RunState, SignalLink
from quarterjack.errors import Conflict, Forbidden, InvalidInput, NotFound
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser

BASE = "http://localhost/console"


def waiting(schema: Any = None, timeout: int = 3_600) -> tuple[Browser, Run]:
    """A console where nobody has signed in, and a run that waits for an approval."""
    jobs = Registry()

    @jobs.job("pay")
    def pay(ctx: Any, payload: Any) -> Any:
        return ctx.wait_for("approval", timeout=timeout, schema=schema)

    browser = Browser(jobs=jobs, signed_in=False)
    run = browser.scheduler.submit("pay")
    browser.harness.advance()
    return browser, run


def link_of(browser: Browser, run: Run, payload: Any = True, **more: Any) -> SignalLink:
    return browser.scheduler.signal_link(
        run.id, "approval", payload, **{"to": "ada@acme.example", "base": BASE, **more}
    )


def opened(browser: Browser, link: SignalLink) -> tuple[int, str]:
    answer = browser.client.get(link.url.removeprefix("http://localhost"))
    return answer.status_code, answer.text.replace("<bdi>", "").replace("</bdi>", "")


def confirmed(browser: Browser, link: SignalLink, **how: Any) -> tuple[int, str]:
    answer = browser.send(link.url.removeprefix("http://localhost"), {}, **how)
    return answer.status_code, answer.text.replace("<bdi>", "").replace("</bdi>", "")


def test_a_link_shows_what_is_asked_and_does_nothing_by_itself() -> None:
    browser, run = waiting()
    link = link_of(browser, run, {"ok": True})
    for _ in range(2):
        status, page = opened(browser, link)
        assert (status, "&#34;ok&#34;: true" in page, "ada@acme.example" in page) == (200, True, True)
        assert "Give this answer" in page
    browser.harness.advance(minutes=2)
    assert browser.scheduler.get_run(run.id).state is RunState.PARKED


def test_its_button_answers_in_the_name_for_which_it_was_made() -> None:
    browser, run = waiting()
    link = link_of(browser, run, {"ok": True})
    status, page = confirmed(browser, link)
    assert (status, "Your answer is recorded" in page) == (200, True)
    browser.harness.advance()
    assert browser.scheduler.get_run(run.id).result == {"ok": True}
    (entry,) = browser.scheduler.audit(act="signal").items
    assert (entry.target, entry.actor, entry.via) == (run.id, "link:ada@acme.example", "console")
    assert entry.detail["channel"] == "link"
    (made,) = browser.scheduler.audit(act="signal-link").items
    assert made.detail["to"] == "ada@acme.example"
    assert link.url.rpartition("/")[2] not in str(made)


def test_used_twice_it_says_what_was_answered() -> None:
    browser, run = waiting()
    link = link_of(browser, run, {"ok": True})
    confirmed(browser, link)
    for status, page in (confirmed(browser, link), opened(browser, link)):
        assert (status, "Your answer is recorded" in page, "Give this answer" in page) == (200, True, False)
    assert len(browser.scheduler.audit(act="signal").items) == 1


def test_a_second_link_is_told_the_answer_of_the_first_one() -> None:
    browser, run = waiting()
    yes, no = link_of(browser, run, "yes"), link_of(browser, run, "no", to="eve@acme.example")
    confirmed(browser, yes)
    _, page = confirmed(browser, no)
    assert "Another answer came first" in page
    assert "&#34;yes&#34;" in page
    assert "link:ada@acme.example" in page


def test_an_answer_by_a_call_is_not_shown_to_a_link() -> None:
    browser, run = waiting()
    link = link_of(browser, run)
    browser.scheduler.signal(run.id, "approval", "secretly")
    _, page = opened(browser, link)
    assert ("Another answer came first" in page, "secretly" in page) == (True, False)


def test_a_link_ends_at_its_time() -> None:
    browser, run = waiting()
    link = link_of(browser, run, expires_in=600)
    browser.harness.advance(minutes=11)
    for status, page in (opened(browser, link), confirmed(browser, link)):
        assert (status, "has expired" in page) == (410, True)
    assert browser.scheduler.get_run(run.id).state is RunState.PARKED


def test_a_link_of_a_wait_that_is_over_says_so() -> None:
    browser, run = waiting(timeout=600)
    link = link_of(browser, run)
    browser.harness.advance(minutes=30)
    status, page = confirmed(browser, link)
    assert (status, "over before an answer came" in page) == (200, True)
    browser, run = waiting()
    link = link_of(browser, run)
    browser.scheduler.cancel_run(run.id)
    status, page = confirmed(browser, link)
    assert (status, "ended without an answer" in page) == (410, True)


@pytest.mark.parametrize("change", ["last", "run", "short", "no run"])
def test_a_link_that_was_changed_is_none(change: str) -> None:
    browser, run = waiting()
    other = browser.scheduler.submit("pay")
    link = link_of(browser, run)
    path = link.url.removeprefix("http://localhost")
    head, _, token = path.rpartition("/")
    changed = {
        "last": f"{head}/{token[:-1]}{'A' if token[-1] != 'A' else 'B'}",
        "run": f"/console/answer/{run_in_url(other.id)}/{token}",
        "short": f"{head}/{token[:8]}",
        "no run": f"/console/answer/nothing/{token}",
    }[change]
    for answer in (browser.client.get(changed), browser.send(changed, {})):
        assert (answer.status_code, "There is no such link" in answer.text) == (404, True)
        assert "Traceback" not in answer.text
    assert browser.scheduler.audit(act="signal").items == []


def test_a_form_of_another_site_answers_nothing() -> None:
    browser, run = waiting()
    link = link_of(browser, run)
    assert confirmed(browser, link, site="cross-site")[0] == 403
    assert confirmed(browser, link, site=None, origin="https://elsewhere.example")[0] == 403, "of an older browser"
    assert browser.scheduler.get_run(run.id).state is RunState.PARKED


def test_an_answer_has_to_fit_when_the_link_is_made() -> None:
    browser, run = waiting({"type": "boolean"})
    with pytest.raises(InvalidInput, match="payload="):
        link_of(browser, run, "yes")
    confirmed(browser, link_of(browser, run, True))
    browser.harness.advance()
    assert browser.scheduler.get_run(run.id).result is True


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"to": ""}, "to"),
        ({"to": "iam:root"}, "to"),
        ({"to": None}, "to"),
        ({"base": "jobs.example.com"}, "base"),
        ({"base": "javascript://x/y"}, "base"),
        ({"base": "https://x/?a=1"}, "base"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"expires_in": 10**9}, "expires_in"),
        ({"expires_in": float("nan")}, "expires_in"),
        ({"payload": "x" * 70_000}, "payload"),
    ],
)
def test_a_link_that_cannot_be_made_names_the_field(given: dict[str, Any], field: str) -> None:
    browser, run = waiting()
    with pytest.raises(InvalidInput) as refused:
        link_of(browser, run, **given)
    assert refused.value.field == field


def test_no_link_is_made_for_a_run_that_is_over_or_not_there() -> None:
    browser, run = waiting()
    browser.scheduler.cancel_run(run.id)
    with pytest.raises(Conflict):
        link_of(browser, run)
    with pytest.raises(NotFound):
        browser.scheduler.signal_link("default/-none#once", "approval", to="ada", base=BASE)


def test_who_may_not_signal_makes_no_link() -> None:
    browser, run = waiting()
    browser.harness.tenants.grant("default", "iam:*", "admin")
    browser.harness.tenants.grant("default", "app:eve", "viewer")
    with pytest.raises(Forbidden):
        browser.scheduler.acting_as("eve").signal_link(run.id, "approval", to="ada", base=BASE)
