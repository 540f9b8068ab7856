"""Queues, workers, jobs, the freeze and the audit: what they show, and the acts on them."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.times import MINUTE, to_ms
from quarterjack.fires.backpressure import KEY as HOLDS
from quarterjack.fires.backpressure import OWNER
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.state.backpressure import HoldLog, QueueHolds
from quarterjack.state.worker_record import (
    KEY,
    GivenBack,
    JobNames,
    WorkerIdentity,
    WorkerKind,
    WorkerRow,
    owner_of,
    record_body,
)
from quarterjack.stores.records import Record

from tests.support.api import NOON
from tests.support.console import Browser, post_form

AT = to_ms(NOON, "at")
LETTER = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "whom <it> goes to"},
        "copies": {"type": "integer", "minimum": 1, "default": 1},
        "paper": {"$ref": "#/$defs/Paper"},
    },
    "required": ["to", "paper"],
    "additionalProperties": False,
    "$defs": {"Paper": {"type": "string", "enum": ["A4", "A5"]}},
}


def worker(browser: Browser, name: str = "w-1", **identity: Any) -> None:
    """A worker says something of itself."""
    given: dict[str, Any] = {"kind": WorkerKind.PROCESS, "host": "host-1", "version": "1", "started_at": AT - MINUTE}
    given |= {"queue": "default", "jobs": JobNames.of(["greet"])} | identity
    unknown = given.pop("unknown", GivenBack())
    row = WorkerRow(identity=WorkerIdentity(name=name, **given), seen_at=AT, unknown=unknown)
    record = Record(owner=owner_of(name), key=KEY + name, version=1, body=record_body(row), expires=row.expires)
    assert browser.harness.memory.connect().records.write(record)


def publish(browser: Browser, name: str, schema: Any) -> None:
    """A worker publishes a job that this process does not have."""
    job = PublishedJob(name=name, queue=None, policies={}, schema=schema)
    services = browser.harness.memory.connect()
    CataloguePublisher(services, lambda now: [*sets_of([job], "7", now)]).publish(browser.harness.clock())


def hold(browser: Browser) -> None:
    """The ticker holds the default queue back."""
    log = HoldLog(queues={None: QueueHolds().begun(AT, "depth", 60_000, None)})
    record = Record(owner=OWNER, key=HOLDS, version=1, body=log.body(), expires=None)
    assert browser.harness.memory.connect().records.write(record)


def test_a_queue_is_shown_with_its_depth_its_workers_and_why_it_is_held() -> None:
    browser = Browser()
    page = browser.get("queues")
    assert "default" in page
    assert "held back</strong>" not in page
    browser.scheduler.submit("greet", {"to": "Ada"})
    assert "No worker serves default" in browser.get("queues")
    worker(browser)
    hold(browser)
    page = browser.get("queues")
    assert "No worker serves default" not in page
    assert "default is held back</strong> since" in page
    assert "too many messages wait in it" in page
    assert "?queue=default" in page


def test_workers_are_found_by_queue_and_job() -> None:
    browser = Browser()
    assert "quarterjack worker --jobs" in browser.get("workers")
    worker(browser)
    worker(browser, "w-2", queue="slow", jobs=JobNames.of(["fail"]))
    page = browser.get("workers")
    assert "w-1" in page
    assert ">slow<" in page
    assert "w-1" not in browser.get("workers?job=fail")
    assert "is not a queue of this installation" in browser.get("workers?queue=none", status=422)


def test_a_worker_that_gets_messages_of_jobs_that_it_does_not_know_is_shown_with_the_remedy() -> None:
    browser = Browser()
    worker(browser)
    assert "does not know" not in browser.get("workers")
    worker(browser, "w-2", unknown=GivenBack(count=3, names=("shop.mail",), last_at=AT))
    page = browser.get("workers")
    assert "gave 3 messages back" in page
    assert "it does not know shop.mail" in page
    assert "QUARTERJACK_PREFIX" in page


def test_a_vanished_worker_is_shown_as_such() -> None:
    browser = Browser()
    worker(browser)
    browser.harness.advance(timedelta(minutes=5))
    assert 'badge bad"' in browser.get("workers")


def test_the_catalogue_is_searched_and_one_job_is_shown_with_its_payload_and_schedules() -> None:
    browser = Browser()
    publish(browser, "letters/print", LETTER)
    browser.scheduler.strictly(strict=False).create_schedule(
        "nightly", "letters/print", "30 2 * * *", payload={"to": "Ada", "paper": "A4"}
    )
    assert "letters/print" in browser.get("jobs")
    assert "letters/print" not in browser.get("jobs?q=greet")
    assert "No job has <code>nothing</code>" in browser.get("jobs?q=nothing")
    page = browser.get("job/letters~print")
    for words in ("whom &lt;it&gt; goes to", "required", "one of A4, A5", "at least 1", "schedule/nightly"):
        assert words in page
    browser.get("job/none", status=404)


def test_a_job_is_run_once_with_a_payload_that_fits() -> None:
    browser = Browser()
    publish(browser, "letters/print", LETTER)
    page = browser.get("job/letters~print/submit")
    assert "&#34;paper&#34;: &#34;A4&#34;" in page
    action, hidden = post_form(page)
    refused = browser.send(action, {**hidden, "payload": '{"to": "Ada", "paper": "A3"}'})
    assert refused.status_code == 422
    assert "payload.paper" in refused.text
    assert "A3" in refused.text
    assert "Nothing was submitted" in refused.text
    assert "is not JSON" in browser.send(action, {**hidden, "payload": "{"}).text
    given = {**hidden, "payload": json.dumps({"to": "Ada", "paper": "A5"})}
    for _ in range(2):
        answer = browser.send(action, given)
        assert answer.status_code == 303
        assert "/run/" in answer.headers["location"]
    assert len(browser.harness.runs()) == 1


def test_a_one_off_is_submitted_for_a_time() -> None:
    browser = Browser()
    answer = browser.confirm("job/greet/submit", payload='{"to": "Ada"}', run_at="2026-05-04T18:00")
    assert answer.status_code == 303
    (run,) = browser.harness.runs()
    assert run.due.isoformat() == "2026-05-04T18:00:00+00:00"
    fault = browser.confirm("job/greet/submit", payload="null", run_at="soon")
    assert (fault.status_code, "is not a time" in fault.text) == (422, True)


def test_a_freeze_is_shown_with_numbers_then_begun_then_ended() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    assert "Nothing is frozen" in browser.get("freeze")
    page = browser.get("freeze?for=4h")
    assert "1 active schedule, with 3 fires before its end" in page  # at 13, 14 and 15 h
    assert "2026-05-04 16:00" in page
    assert browser.scheduler.frozen() is None
    answer = browser.confirm("freeze?for=4h", reason="the database moves")
    assert answer.headers["location"].endswith("/freeze?done=freeze")
    assert browser.scheduler.frozen() == NOON + timedelta(hours=4)
    assert "Frozen until" in browser.get("freeze")
    line: Any = browser.scheduler.audit(act="freeze").items[0]
    assert (line.reason, line.via) == ("the database moves", "console")
    assert browser.confirm("freeze?do=thaw", reason="it is done").status_code == 303
    assert browser.scheduler.frozen() is None
    assert "Nothing to do" in browser.get("freeze?do=thaw")


def test_the_end_of_a_freeze_is_on_the_clocks_of_a_zone() -> None:
    browser = Browser()
    page = browser.get("freeze?until=2026-05-04T18:00&zone=Europe/Berlin")
    assert "2026-05-04T18:00:00+02:00" in page
    assert "Until" in browser.get("freeze?until=2027-04-04T18:00")
    assert "2026-05-04 16:00" in page
    assert "is not a time" in browser.get("freeze?until=soon", status=422)
    assert "Europe/Berlin" in browser.get("freeze?until=2026-05-04T18:00&zone=Europe/Berlim", status=422)
    browser.get("freeze?for=9y", status=422)
    action, hidden = post_form(browser.get("freeze?until=2020-05-04T18:00"))
    assert browser.send(action, hidden).status_code == 422  # the SDK says that it is over
    assert browser.scheduler.frozen() is None


def test_the_audit_says_who_paused_the_nightly_export_and_why() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly", "greet", "30 2 * * *", payload={"to": "Ada"})
    browser.scheduler.acting_as("bob@acme", reason="too <slow>").pause_schedule("nightly")
    page = browser.get("audit?schedule=nightly&act=pause")
    for words in ("app:bob@acme", "too &lt;slow&gt;", "revision 1", "schedule/nightly"):
        assert words in page
    assert "bob@acme" not in browser.get("audit?act=create")
    assert "No entry found" in browser.get("audit?actor=eve")
    assert "is not known" in browser.get("audit?act=nothing", status=422)
    assert "No entry found" in browser.get("audit?of=installation")


@pytest.mark.parametrize("path", ["audit?days=2", "audit?of=mine", "audit?since=soon", "audit?run=!"])
def test_a_filter_of_the_audit_that_cannot_be_read_is_shown_with_its_fault(path: str) -> None:
    assert 'role="alert"' in Browser().get(path, status=422)


def test_the_audit_is_listed_in_pages() -> None:
    browser = Browser()
    for number in range(60):
        browser.scheduler.create_schedule(f"s{number:02}", "greet", "0 * * * *", payload={"to": "Ada"})
    first = browser.get("audit?act=create")
    more = first.split('<a class="button" href="/console/t/default/')[1].split('"')[0].replace("&amp;", "&")
    second = browser.get(more)
    shown = [f"s{number:02}" for number in range(60) if f">s{number:02}<" in first]
    assert len(shown) == 50
    assert all(f">s{number:02}<" in second for number in range(60) if f"s{number:02}" not in shown)


def test_the_audit_is_verified() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    assert "Unchanged." not in browser.get("audit/verify")
    assert "Unchanged." in browser.get("audit/verify?days=7")
    browser.get("audit/verify?days=2", status=422)
    browser.get("audit/verify?days=7&upto=yesterday", status=422)


def test_the_audit_is_verified_so_many_entries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day that does not fit is the next page's; one that never will is named, with the command that verifies it."""
    monkeypatch.setattr("quarterjack.console.pages.audit._AT_ONCE", 1)
    browser = Browser()
    browser.scheduler.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    browser.harness.clock.advance(timedelta(days=1))
    browser.scheduler.pause_schedule("a")
    browser.scheduler.resume_schedule("a")
    browser.harness.clock.advance(timedelta(days=1))
    browser.scheduler.pause_schedule("a")
    page, told = browser.get("audit/verify?days=7"), 0
    assert "Unchanged." in page
    while links := re.findall(r'href="([^"]*upto=[^"]*)"', page):
        page = browser.get(unescape(links[0]).split("/t/default/")[-1])
        told += "quarterjack audit verify --day" in page
    assert told == 1
    assert "unclosed" in page  # the first day: no auditor came


def test_an_empty_installation_says_what_to_do_next() -> None:
    browser = Browser()
    browser.harness = type(browser.harness)(Registry(), at=NOON)
    empty = Browser(scheduler=browser.harness.scheduler)
    assert "quarterjack worker --jobs" in empty.get("jobs")
    assert "No entry found" in empty.get("audit")
