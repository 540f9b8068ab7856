"""Runs and dead runs: what their pages show, and the acts on one run and on the dead runs that a filter finds."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from quarterjack import Registry, Retry
from quarterjack.errors import Forbidden, Misconfigured
from quarterjack.owner.runs import dead
from quarterjack.testing import Harness
from quarterjack.web.urls import run_in_url

from tests.support.api import NOON
from tests.support.console import Browser, post_form

MINUTE = timedelta(minutes=1)


def of_run(run_id: str, more: str = "") -> str:
    return f"run/{run_in_url(run_id)}{more}"


def console(dead: int = 3) -> Browser:
    """Some dead runs of a schedule, newest ten minutes ago or less, and a run that succeeded."""
    browser = Browser()
    browser.scheduler.create_schedule("bad", "fail", "*/10 * * * *")
    browser.scheduler.create_schedule("good", "greet", "7 * * * *", payload={"to": "Ada"})
    browser.harness.advance(10 * dead * MINUTE + 5 * MINUTE)
    return browser


def dead_ids(browser: Browser, **how: Any) -> list[str]:
    return [one.id for one in browser.scheduler.list_dead(**how).items]


def flaky() -> Harness:
    """A job with steps and a stage, that fails at its first attempt."""
    jobs = Registry()

    @jobs.job("flaky", retry=Retry(max_attempts=2, base=60, jitter=0))
    def work(ctx: Any, payload: Any) -> Any:
        ctx.step("fetch", lambda: {"rows": 3})
        if ctx.attempt == 1:
            raise TimeoutError("<b>slow</b>")
        return {"sum": 6}

    return Harness(jobs, at=NOON)


# One run.


def test_a_run_shows_attempts_steps_result_and_payload_in_order() -> None:
    harness = flaky()
    browser = Browser(scheduler=harness.scheduler)
    run = harness.scheduler.submit("flaky", {"day": "mon"})
    harness.advance(3 * MINUTE)
    page = browser.get(of_run(run.id))
    for words in ("TimeoutError", "&lt;b&gt;slow", "fetch", "&#34;rows&#34;: 3", "&#34;sum&#34;: 6", "&#34;day&#34;"):
        assert words in page, words
    titles = re.findall(r"<li><span>([^<]+?)(?: <|</span>)", page)
    assert titles[-4:] == ["Attempt 1 failed", "Next attempt not before", "Attempt 2 leased", "Succeeded"]
    assert "every 3s" not in page  # it is over


def test_a_fire_has_the_payload_of_its_revision_while_that_is_current() -> None:
    browser = console(1)
    run = browser.scheduler.list_runs("good", upcoming=False).items[0].id
    assert "&#34;to&#34;: &#34;Ada&#34;" in browser.get(of_run(run))
    assert "&#34;Ada&#34;" in browser.get(of_run(run, "/act?do=replay"))
    browser.scheduler.update_schedule("good", payload={"to": "Bob"})
    page = browser.get(of_run(run))
    assert ("Ada&#34;\n" in page, "Bob" in page, "is not the current one" in page) == (False, False, True)


def test_a_run_of_a_backfill_leads_to_it() -> None:
    browser = console(1)
    browser.scheduler.backfill("good", NOON - timedelta(hours=3), NOON, current=True, dry_run=False)
    browser.harness.advance(3 * MINUTE)
    run = next(one for one in browser.scheduler.list_runs("good", upcoming=False).items if one.backfill)
    link = re.search(
        r'<a class="wrap" href="/console/t/default/(schedule/good/backfills/[^"]+)"', browser.get(of_run(run.id))
    )
    assert link
    assert "Backfill" in browser.get(link[1])


def test_a_running_run_shows_how_far_it_is() -> None:
    jobs, seen = Registry(), list[str]()

    @jobs.job("long")
    def work(ctx: Any, payload: Any) -> None:
        ctx.progress(0.4, "<i>loading</i>")
        seen.append(Browser(scheduler=harness.scheduler).get(of_run(run.id)))

    harness = Harness(jobs, at=NOON)
    run = harness.scheduler.submit("long")
    harness.advance(MINUTE)
    (page,) = seen
    assert "every 3s" in page
    assert 'value="cancel"' in page
    assert "<i>loading" not in page


def test_a_parked_run_shows_what_it_waits_for_and_its_child_whose_child_it_is() -> None:
    jobs = Registry()

    @jobs.job("child")
    def child(ctx: Any, payload: Any) -> Any:
        return ctx.wait_for("go", timeout=86_400)

    @jobs.job("parent")
    def parent(ctx: Any, payload: Any) -> Any:
        return ctx.gather([ctx.submit("child", step="pay")])

    harness = Harness(jobs, at=NOON)
    browser = Browser(scheduler=harness.scheduler)
    run = harness.scheduler.submit("parent")
    harness.advance(MINUTE)
    page = browser.get(of_run(run.id))
    assert "It waits for child: pay. It waits since" in page
    assert "Its child &#39;pay&#39; is PARKED." in page
    assert "every 15s" in page  # it may wait for a year
    assert re.findall(r"<li><span>([^<]+?)(?: <|</span>)", page)[-2:] == ["Parked", "Its wait ends, at the latest"]
    assert "waits for child: pay" in browser.get("runs")
    (waiting,) = (one for one in harness.runs() if one.parent == run.id)
    page = browser.get(of_run(waiting.id))
    assert "Child of" in page
    assert run_in_url(run.id) in page
    assert "Attempt 1 leased" in page  # the slice does not count, the attempt goes on


def test_progress_and_stage_are_shown_as_of_the_last_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser()
    run = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600)
    seen = replace(run, progress=0.4, stage="<i>loading", cancel_requested=True, worker_vanished=True, slices=2)
    monkeypatch.setattr(type(browser.scheduler), "get_run", lambda self, run_id: seen)
    page = browser.get(of_run(run.id))
    for words in (
        '<progress max="1" value="0.4"',
        "40 %",
        "&lt;i&gt;loading",
        "cancellation",
        "lease",
        "<dt>Slices</dt><dd>2",
    ):
        assert words in page, words


def test_a_run_that_is_not_over_refreshes_by_itself() -> None:
    browser = Browser()
    run = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600)
    page = browser.get(of_run(run.id))
    assert f'hx-get="/console/t/default/{of_run(run.id)}"' in page
    assert "every 3s" in page


def test_a_dead_run_links_the_list_and_then_the_run_that_repeats_it() -> None:
    browser = console()
    run = dead_ids(browser)[0]
    assert "list of dead runs</a>" in browser.get(of_run(run))
    shown = browser.confirm(of_run(run, "/act?do=redrive"), reason="mended")
    repeat = browser.scheduler.list_dead(include_redriven=True).items[0].redriven_as
    assert shown.headers["location"] == f"/console/t/default/{of_run(repeat)}?done=redrive"
    page = browser.get(of_run(run))
    assert f'repeated as <a href="/console/t/default/{of_run(repeat)}"' in page
    assert f'href="/console/t/default/{of_run(run)}"' in browser.get(of_run(repeat))


def test_a_part_that_is_refused_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = console()

    def refused(self: Any, run_id: str) -> Any:
        raise Forbidden("no")

    monkeypatch.setattr(type(browser.scheduler), "why_run", refused)
    page = browser.get(of_run(dead_ids(browser)[0]))
    assert "You have no grant to see this." in page
    assert "Traceback" in page


def test_transitions_are_a_page_that_says_where_there_is_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = console(1)
    address = of_run(dead_ids(browser)[0], "/transitions")
    page = browser.get(address)
    assert re.findall(r"<td>(claimed|leased|dead|buried)</td>", page) == ["claimed", "leased", "dead", "buried"]

    def none(self: Any, run_id: str) -> Any:
        raise Misconfigured("QUARTERJACK_ARCHIVE: no bucket")

    monkeypatch.setattr(type(browser.scheduler), "transitions", none)
    assert "QUARTERJACK_ARCHIVE: no bucket" in browser.get(address)


# Acts on one.


def test_only_what_can_be_done_is_offered() -> None:
    browser = console(1)
    waits = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600).id
    offered = {
        run: re.findall(r'name="do" value="(\w+)"', browser.get(of_run(run)))
        for run in (waits, dead_ids(browser)[0], browser.scheduler.list_runs("good", upcoming=False).items[0].id)
    }
    assert list(offered.values()) == [["cancel", "reschedule", "requeue"], ["redrive", "replay", "dismiss"], ["replay"]]


def test_a_one_off_is_moved_to_another_time() -> None:
    browser = Browser()
    run = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600).id
    assert browser.confirm(of_run(run, "/act?do=reschedule"), at="2026-05-05T06:30").status_code == 303
    assert browser.scheduler.get_run(run).due == datetime(2026, 5, 5, 6, 30, tzinfo=UTC)
    again = browser.confirm(of_run(run, "/act?do=reschedule"), at="soon", reason="later")
    assert again.status_code == 422
    assert "is not a time" in again.text
    assert 'value="later"' in again.text


def test_a_one_off_gets_another_priority_and_a_wrong_queue_is_told() -> None:
    browser = Browser()
    run = browser.scheduler.submit("greet", {"to": "Ada"}, delay=3_600, tags={"customer": "42"}).id
    assert browser.confirm(of_run(run, "/act?do=requeue"), queue="", priority="low").status_code == 303
    (entry,) = browser.scheduler.audit(act="requeue").items
    assert (entry.target, entry.detail["priority"], browser.scheduler.get_run(run).revision) == (run, "low", 1)
    again = browser.confirm(of_run(run, "/act?do=requeue"), queue="nowhere", priority="high")
    assert again.status_code == 422
    assert "is not declared" in again.text
    assert '<option value="high" selected>' in again.text
    assert "runs?tag=customer%3D42" in browser.get(of_run(run)), "its tag leads to the runs that have it"


def test_a_replay_gets_another_payload_or_its_own() -> None:
    browser = console(1)
    run = browser.scheduler.list_runs("good", upcoming=False).items[0].id
    shown = browser.confirm(of_run(run, "/act?do=replay"), payload='{"to": "Bob"}')
    browser.harness.advance(MINUTE)
    assert "Hello Bob" in browser.get(shown.headers["location"].removeprefix("/console/t/default/"))
    own = browser.confirm(of_run(run, "/act?do=replay"), payload=" ")
    browser.harness.advance(MINUTE)
    assert "Hello Ada" in browser.get(own.headers["location"].removeprefix("/console/t/default/"))


def test_a_redrive_with_the_payload_that_the_form_came_with_is_the_one_before() -> None:
    browser = Browser()
    run = browser.scheduler.submit("fail", {"a": 1, "b": [2]}).id
    browser.harness.advance(5 * MINUTE)
    browser.scheduler.redrive(run)
    answer = browser.confirm(of_run(run, "/act?do=redrive"), payload='{"b": [2],\r\n "a": 1}')
    assert answer.status_code == 303
    other = browser.confirm(of_run(run, "/act?do=redrive"), payload='{"b": 3}')
    assert (other.status_code, "another payload" in other.text) == (409, True)


@pytest.mark.parametrize("do", ["replay", "redrive"])
def test_a_payload_that_is_not_json_is_shown_with_its_fault_as_it_was_typed(do: str) -> None:
    browser = console(1)
    answer = browser.confirm(of_run(dead_ids(browser)[0], f"/act?do={do}"), payload='{"to": <Bob>}')
    assert answer.status_code == 422
    assert "is not JSON" in answer.text
    assert "{&#34;to&#34;: &lt;Bob&gt;}</textarea>" in answer.text
    assert len(dead_ids(browser)) == 1


def test_a_dead_run_is_dismissed_with_a_reason() -> None:
    browser = console()
    run = dead_ids(browser)[1]
    browser.get(of_run(run, "/act?do=dismiss"))
    assert len(dead_ids(browser)) == 3
    browser.confirm(of_run(run, "/act?do=dismiss"), reason="known")
    assert run not in dead_ids(browser)
    line: Any = browser.scheduler.audit(act="purge").items[0]
    assert (line.reason, line.via, list(line.detail["runs"])) == ("known", "console", [run])
    assert "not on the list" in browser.get(of_run(run))


# Acts on many.


def test_dead_runs_of_a_filter_are_counted_and_then_dismissed() -> None:
    browser = console()
    page = browser.get("dead/dismiss?job=fail")
    assert "Dismiss 3 dead runs?" in page
    answer = browser.confirm("dead/dismiss?job=fail", reason="known")
    assert "3 runs dismissed" in answer.text
    assert dead_ids(browser) == []
    assert "Nothing to do" in browser.get("dead/dismiss?job=fail")


def test_dismissal_leaves_what_is_older_than_the_list() -> None:
    browser = console()
    browser.harness.advance(timedelta(hours=26))
    browser.confirm("dead/dismiss?job=fail&days=1")
    assert dead_ids(browser) == []
    left = dead_ids(browser, since=NOON, limit=1_000)
    assert 3 <= len(left) < 20


def test_a_dismissal_that_takes_longer_than_a_request_goes_on_by_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead, "_REMOVED_AT_ONCE", 1)
    browser = console()
    short = Browser(scheduler=browser.scheduler, longest=0.0)
    answer = short.confirm("dead/dismiss?job=fail", reason="known")
    assert "1 run dismissed" in answer.text
    action, fields = post_form(answer.text)
    assert fields["reason"] == "known"
    assert "3 runs dismissed" in Browser(scheduler=browser.scheduler).send(action, fields).text


def test_dead_runs_are_repeated_with_another_payload() -> None:
    browser = console()
    wrong = browser.confirm("dead/redrive?job=fail", payload="{")
    assert (wrong.status_code, "is not JSON" in wrong.text) == (422, True)
    assert "3 runs repeated" in browser.confirm("dead/redrive?job=fail", payload='{"n": 1}').text
    repeat = browser.scheduler.list_dead(include_redriven=True).items[0].redriven_as
    assert browser.scheduler.get_run(repeat).payload == {"n": 1}


def test_a_redrive_says_how_far_it_came() -> None:
    browser = console()
    action, fields = post_form(browser.get("dead/redrive?job=fail"))
    answer = Browser(scheduler=browser.scheduler, longest=0.0).send(action, {**fields, "payload": "7"})
    done = re.search(r'<progress max="3" value="(\d)"', answer.text)
    assert done
    assert int(done[1]) < 3
    action, rest = post_form(answer.text)
    assert rest["payload"] == "7"
    assert "3 runs repeated" in Browser(scheduler=browser.scheduler).send(action, rest).text


def test_dead_runs_are_counted_by_error_and_found_by_it() -> None:
    browser = console(1)
    browser.scheduler.submit("greet", {"nobody": 1})
    browser.harness.advance(timedelta(hours=3))
    page = browser.get("dead")
    link = re.search(r'<a href="([^"]*error_type=KeyError[^"]*)">KeyError</a>', page)
    assert link
    narrowed = browser.get(html.unescape(link[1]).removeprefix("/console/t/default/"))
    assert narrowed.count("KeyError") > 1
    assert "Permanent" not in narrowed


# The list.


def test_runs_are_found_by_kind_time_and_outcome() -> None:
    browser = console()
    browser.scheduler.trigger("good")
    browser.harness.advance(MINUTE)
    for query, found, other in (
        ("state=failed", "schedule/bad", "schedule/good"),
        ("kind=trigger", "schedule/good", "schedule/bad"),
        ("schedule=bad&until=2026-05-04T12:10:00Z", "12:10:00", "12:20:00"),
        ("schedule=bad&since=2026-05-04T12:20:00Z", "12:20:00", "12:10:00"),
        ("until=2026-05-04T12:08", "schedule/good", "schedule/bad"),
        ("prefix=go", "schedule/good", "schedule/bad"),
    ):
        page = browser.get(f"runs?{query}").partition('id="live"')[2]
        assert found in page, query
        assert other not in page, query


@pytest.mark.parametrize(
    "query", ["since=then", "kind=none", "state=ASLEEP", "since=2026-05-04T12:00&until=2026-05-03T12:00"]
)
def test_a_filter_that_cannot_be_read_is_shown_with_its_remedy(query: str) -> None:
    assert 'role="alert"' in console(1).get(f"runs?{query}", status=422)
