"""Application versions: what their page shows, and the acts on a version, on its waiting runs and on one of them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from httpx import Response
from quarterjack import Registry
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser, post_form

MINUTE = timedelta(minutes=1)


def console(*versions: str) -> Browser:
    """The versions were registered in this order, a minute apart; a run of each waits."""
    browser = Browser()
    for name in versions:
        browser.harness.advance(MINUTE)
        browser.harness.deploy(name)
        browser.scheduler.submit("greet", {"to": "Ada"}, delay=86_400, idempotency_key=f"of-{name}")
    return browser


def of_run(run_id: str, more: str = "") -> str:
    return f"run/{run_in_url(run_id)}{more}"


def text_of(answer: Response) -> str:
    return answer.text.replace("<bdi>", "").replace("</bdi>", "")


def offered(page: str) -> list[str]:
    return re.findall(r'name="do" value="([\w-]+)"', page)


def assigned(browser: Browser) -> list[str]:
    return sorted(str(run.app_version) for run in browser.harness.runs())


def latest(browser: Browser) -> tuple[str, float]:
    found = browser.scheduler.get_latest_application_version()
    return found.version_name, found.share


def test_the_application_versions_are_shown_with_their_shares() -> None:
    browser = Browser()
    assert "/versions" in browser.get("workers")
    assert "quarterjack worker --jobs" in browser.get("versions")
    browser.harness.deploy("1.4")
    assert offered(browser.get("versions")) == ["latest"]  # no other version takes its runs
    browser.harness.deploy("1.5", share=0.25)
    page = browser.get("versions")
    assert "25.0 % of those that no later version gets" in page
    assert "Attempts in 7 days" not in page
    counted = browser.get("versions?attempts=yes")
    assert '<th scope="col" class="number">Attempts in 7 days</th>' in counted
    assert offered(page) == ["latest", "retire", "reassign"] * 2
    browser.scheduler.retire_application_version("1.5", to="1.4")
    page = browser.get("versions")
    assert "1.4 starts its runs" in page
    assert offered(page) == ["latest", "latest", "retire", "reassign"]


def test_a_version_is_made_the_latest_for_a_share_and_rolled_back() -> None:
    browser = console("1.4", "1.5")
    page = browser.get("version/1.4/act?do=latest")
    assert "1.5 is the latest version" in page
    assert latest(browser) == ("1.5", 1.0)
    answer = browser.confirm("version/1.4/act?do=latest", share="0.1", reason="a <canary>")
    assert answer.headers["location"].endswith("/versions?done=latest")
    assert latest(browser) == ("1.4", 0.1)
    assert "It is the latest version" in browser.get("versions?done=latest")
    assert 'name="share" value="0.1"' in browser.get("version/1.4/act?do=latest")
    line: Any = browser.scheduler.audit(act="set-version", installation=True).items[0]
    assert (line.reason, line.via) == ("a <canary>", "console")
    assert browser.confirm("version/1.5/act?do=latest", share="1").status_code == 303
    assert latest(browser) == ("1.5", 1.0)


@pytest.mark.parametrize("share", ["half", "1.5", "-0.1", "nan", ""])
def test_a_share_that_is_none_is_shown_with_its_fault_as_it_was_typed(share: str) -> None:
    browser = console("1.4", "1.5")
    answer = browser.confirm("version/1.4/act?do=latest", share=share, reason="so be it")
    assert answer.status_code == 422
    assert "is no share of runs" in text_of(answer)
    assert "Use a number from 0 to 1" in text_of(answer)
    assert f'name="share" value="{share}"' in text_of(answer)
    assert 'value="so be it"' in text_of(answer)
    assert latest(browser) == ("1.5", 1.0)


def test_a_version_is_retired_to_another_one() -> None:
    browser = console("1.4", "1.5", "1.6")
    page = browser.get("version/1.5/act?do=retire")
    assert re.findall(r'<option value="([\d.]+)"', page) == ["1.6", "1.4"]
    assert browser.confirm("version/1.5/act?do=retire", to="1.4", reason="it leaks").status_code == 303
    (retired,) = (one for one in browser.scheduler.list_application_versions() if one.moved_to)
    assert (retired.version_name, retired.moved_to) == ("1.5", "1.4")
    line: Any = browser.scheduler.audit(act="retire-version", installation=True).items[0]
    assert (line.reason, line.via, line.detail) == ("it leaks", "console", {"version": "1.5", "to": "1.4"})
    action, hidden = post_form(browser.get("version/1.4/act?do=retire"))
    answer = browser.send(action, {**hidden, "to": "1.5"})
    assert answer.status_code == 422
    assert "or was retired to it" in text_of(answer)
    assert "no name" in browser.send(action, {**hidden, "to": "no name"}).text
    assert browser.send(action, {**hidden, "to": "2.0"}).status_code == 404


def test_the_waiting_runs_of_a_version_are_shown_and_then_reassigned() -> None:
    browser = console("1.4", "1.5")
    browser.scheduler.submit("greet", {"to": "Bob"})
    browser.harness.advance(MINUTE)  # it ends, and stays as it is
    page = browser.get("version/1.4/act?do=reassign")
    assert "1 run of it" in page
    assert "of-1.4" not in page  # a run is named by its job
    answer = browser.confirm("version/1.4/act?do=reassign", to="1.5", reason="it leaks")
    assert "1 run of 1.4 assigned to 1.5" in text_of(answer)
    assert assigned(browser) == ["1.5", "1.5", "1.5"]
    line: Any = browser.scheduler.audit(act="reassign").items[0]
    assert (line.reason, line.via, line.detail) == ("it leaks", "console", {"version": "1.5", "was": "1.4"})
    assert "Nothing to do" in browser.get("version/1.4/act?do=reassign")


def test_fires_are_reassigned_by_their_schedule() -> None:
    jobs = Registry()
    jobs.job("pinned", version="assigned")(lambda ctx, payload: None)
    browser = Browser(jobs=jobs)
    browser.harness.deploy("1.4")
    browser.scheduler.create_schedule("hourly", "pinned", "0 * * * *")
    browser.harness.deploy("1.5")
    browser.scheduler.set_latest_application_version("1.4")
    browser.harness.advance(timedelta(hours=1))
    assert assigned(browser) == ["1.4"]
    assert "Nothing to do" in browser.get("version/1.4/act?do=reassign")
    assert "1 run of it, of schedule hourly" in browser.get("version/1.4/act?do=reassign&schedule=hourly")
    browser.confirm("version/1.4/act?do=reassign&schedule=hourly", to="1.5")
    assert assigned(browser) == ["1.5"]
    browser.harness.advance(MINUTE)
    assert [run.state for run in browser.harness.runs()] == ["SUCCEEDED"]
    assert "is not a valid name" in browser.get("version/1.4/act?do=reassign&schedule=a%20b", status=422)
    browser.get("version/1.4/act?do=reassign&schedule=none", status=404)


def test_a_version_that_is_none_takes_no_run() -> None:
    browser = console("1.4", "1.5")
    action, hidden = post_form(browser.get("version/1.4/act?do=reassign"))
    for to in ("2.0", "1.4", ""):
        answer = browser.send(action, {**hidden, "to": to})
        assert answer.status_code == 422
        assert "is not known. Use one of 1.5" in text_of(answer)
    assert assigned(browser) == ["1.4", "1.5"]
    browser.get("version/2.0/act?do=latest", status=404)
    browser.get("version/1.4/act?do=delete", status=422)


def test_runs_that_took_longer_than_a_request_are_reassigned_by_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterjack.console.pages.versions._AT_ONCE", 1)
    browser = console("1.4", "1.5")
    for number in range(3):
        browser.scheduler.reassign_run(browser.scheduler.submit("greet", {"to": "Ada"}, delay=600 + number).id, "1.4")
    browser.harness.advance(MINUTE)
    short = Browser(scheduler=browser.scheduler, longest=0.0)
    answer, requests = short.confirm("version/1.4/act?do=reassign", to="1.5", reason="all"), 1
    while 'class="confirm"' in text_of(answer):
        action, fields = post_form(text_of(answer))
        assert fields["reason"] == "all"
        answer, requests = short.send(action, fields), requests + 1
    assert "4 runs of" in text_of(answer)
    assert requests == 6  # one reads the run of the other version, the last finds that there is no more
    assert assigned(browser) == ["1.5"] * 5


def test_a_run_that_started_meanwhile_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = console("1.4", "1.5")
    moves = type(browser.scheduler).reassign_run

    def late(self: Any, run_id: str, version: str) -> Any:
        self.cancel_run(run_id)
        return moves(self, run_id, version)

    monkeypatch.setattr(type(browser.scheduler), "reassign_run", late)
    answer = browser.confirm("version/1.4/act?do=reassign", to="1.5")
    assert "1 run not reassigned" in text_of(answer)
    assert "it is CANCELLED, so its version does not change any more" in text_of(answer)


def test_one_waiting_run_is_reassigned_on_its_page() -> None:
    browser = console("1.4", "1.5")
    (run,) = (one for one in browser.harness.runs() if one.app_version == "1.4")
    assert "1.4" in browser.get(of_run(run.id))
    assert offered(browser.get(of_run(run.id))) == ["cancel", "reschedule", "requeue", "reassign"]
    assert browser.confirm(of_run(run.id, "/act?do=reassign"), version="1.5", reason="as agreed").status_code == 303
    assert assigned(browser) == ["1.5", "1.5"]
    line: Any = browser.scheduler.audit(act="reassign").items[0]
    assert (line.reason, line.via) == ("as agreed", "console")
    assert "is not a valid name" in browser.confirm(of_run(run.id, "/act?do=reassign"), version="no name").text


def test_each_act_is_offered_to_who_may_do_it() -> None:
    """Who operates a tenant moves its runs; who operates the installation moves versions, too."""
    browser = console("1.4", "1.5")
    for holder, name in (("default", "lead"), ("~installation", "root")):
        for to in ("iam:*", f"app:{name}@acme"):
            browser.harness.tenants.grant(holder, to, "admin" if to == "iam:*" else "operator")
    browser.harness.tenants.grant("default", "app:eve@acme", "viewer")
    expected = {"lead": ["reassign"] * 2, "root": ["latest", "retire", "reassign"] * 2, "eve": []}
    for name, acts in expected.items():
        reader = Browser(scheduler=browser.scheduler, actor=Actor(name=f"{name}@acme"))
        assert offered(reader.get("versions")) == acts
        for act in ("latest", "retire", "reassign"):
            page = reader.get(f"version/1.4/act?do={act}", status=200 if act in acts else 403)
            assert ("is not shown" in page) == (act not in acts)
    eve = Browser(scheduler=browser.scheduler, actor=Actor(name="eve@acme"))
    for fields in ({"do": "latest", "share": "1"}, {"do": "retire", "to": "1.5"}, {"do": "reassign", "to": "1.5"}):
        eve.send("/console/t/default/version/1.4/act", fields)
    assert latest(browser) == ("1.5", 1.0)
    assert assigned(browser) == ["1.4", "1.5"]


def test_dead_runs_are_repeated_with_the_latest_version_or_their_own() -> None:
    browser = Browser()
    browser.harness.deploy("1.4")
    dead = [browser.scheduler.submit("fail", {"a": number}).id for number in range(4)]
    browser.harness.advance(5 * MINUTE)
    browser.harness.deploy("1.5")
    browser.confirm(of_run(dead[0], "/act?do=replay"), as_it_was="on")
    browser.confirm(of_run(dead[0], "/act?do=replay"))
    browser.confirm(of_run(dead[0], "/act?do=redrive"))
    browser.confirm(of_run(dead[1], "/act?do=redrive"), as_it_was="on", payload='{"a": 1}')
    (wrong, form) = (
        browser.confirm(of_run(dead[2], "/act?do=redrive"), as_it_was="on", payload="{"),
        'value="on" checked',
    )
    assert (wrong.status_code, form in wrong.text) == (422, True)
    action, fields = post_form(browser.get("dead/redrive?job=fail"))
    wrong = browser.send(action, {**fields, "payload": "{", "as_it_was": "on"})
    assert (wrong.status_code, form in wrong.text) == (422, True)
    answer = Browser(scheduler=browser.scheduler, longest=0.0).send(action, {**fields, "as_it_was": "on"})
    while 'class="confirm"' in answer.text:  # the button that goes on keeps the word
        answer = browser.send(*post_form(answer.text))
    found = sorted((str(run.replay_of), str(run.app_version)) for run in browser.harness.runs() if run.replay_of)
    first, *others = dead
    assert found == sorted([(first, "1.4"), (first, "1.5"), (first, "1.5"), *((run, "1.4") for run in others)])
