"""The form of a schedule: every word survives it, a preview writes nothing, and the command and the file do the same."""

from __future__ import annotations

import html
import json
import re
import shlex
from typing import Any

import pytest
from quarterjack import Tenants
from quarterjack.apply.document import read
from quarterjack.apply.fields import read_words, words_of
from quarterjack.cli.app import run
from quarterjack.cli.shell import Shell
from quarterjack.console.pages.schedules.fields import FIELDS, fields_of, words_of_form
from quarterjack.console.pages.schedules.form import command_of, file_of
from quarterjack.domain.schedule import Definition
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness
from quarterjack.web import Actor

from tests.support.api import NOON, greeting_jobs
from tests.support.console import Browser, form_of

EDIT = "schedule/team~a/edit"
ROOT = "/console/t/default/"
RICH: list[dict[str, Any]] = [
    {"job": "greet", "expression": "30 2 * * MON-FRI"},
    {
        "job": "greet",
        "expression": ["0 1 * * *", "rate(7 minutes)"],
        "timezone": "Europe/Berlin",
        "payload": {"a": [1, None, "ü"]},
    },
    {"job": "j", "expression": "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY;INTERVAL=2"},
    {
        "job": "j",
        "expression": ["RRULE:FREQ=DAILY", "0 5 * * *"],
        "description": "two\nlines",
        "tags": {"a": "b c", "e": "x=y"},
    },
    {
        "job": "j",
        "expression": "0 5 * * *",
        "tags": {"a=b": "c", "d": " e "},
        "timeout": 1_000.25,
        "deadline": 86_400.5,
    },
    {
        "job": "j",
        "expression": "H 5 * * *",
        "timezone": "Europe/Berlin",
        "rule": {
            "exclude": ["weekends", "2026-12-24/2026-12-31"],
            "calendar": "NO",
            "on_excluded": "next_business_day",
            "gap": "skip",
            "repeated": "both",
            "start": "2026-12-01T00:00:00Z",
            "end": "2027-12-01T00:00:00Z",
            "max_fires": 9,
            "window": 600,
        },
        "payload": "no",
        "delivery": "at_most_once",
        "start": "exact",
        "retry": {"max_attempts": 5, "backoff": "linear", "base": 2.5, "cap": 60.0, "within": 900.0},
        "catch_up": "latest",
        "catch_up_window": 60.0,
        "overlap": "buffer_all",
        "buffer": 3,
        "pause_on_failure": 2,
        "delete_after_completion": True,
        "shadow": True,
        "on_failure": "job:tell",
        "expect_success_within": 7_200.0,
        "alert_if_running_longer_than": 600.0,
        "must_end_by": "22:30",
        "queue": "default",
    },
]


def settled(words: dict[str, Any]) -> Any:
    """Words as the definition that they make says them."""
    return told(read_words("x", words, "here"))


def told(declared: Any) -> Any:
    made = Definition(
        job=declared.job,
        rule=declared.rule,
        payload=declared.payload,
        overrides=declared.overrides,
        options=declared.options,
    )
    return words_of(made, json.loads(declared.payload), description=declared.description, tags=declared.tags)


@pytest.mark.parametrize("words", RICH)
def test_every_word_survives_the_form_also_as_browsers_send_it(words: dict[str, Any]) -> None:
    sent = {name: text.replace("\n", "\r\n") for name, text in fields_of(words).items()}
    assert set(sent) == set(FIELDS)
    assert settled(words_of_form(sent)) == settled(words)


@pytest.mark.parametrize("words", RICH)
def test_the_file_declares_the_same(words: dict[str, Any]) -> None:
    (document,) = read(file_of("team/a", words), "made")
    (declared,) = document.declarations
    assert (declared.name, told(declared)) == ("team/a", settled(words))


@pytest.mark.parametrize("words", RICH)
@pytest.mark.parametrize("act", ["create", "upsert"])
def test_the_command_does_the_same(words: dict[str, Any], act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(greeting_jobs(), at=NOON)
    monkeypatch.setattr(Shell, "scheduler", harness.scheduler)
    given = words | {"tags": {key: value for key, value in words.get("tags", {}).items() if "=" not in key}}
    said = shlex.split(command_of("team/a", given, act=act))
    assert run(said[1:]) == 0
    found = harness.scheduler.get_schedule("team/a")
    payload = {} if found.payload is None else {"payload": found.payload}
    assert {"queue": "default", **found.definition, **payload} == {"queue": "default", **settled(given)}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("payload", "{"),
        ("payload", '{"a": 1, "a": 2}'),
        ("timeout", "soon"),
        ("attempts", "-1"),
        ("tags", "no"),
        ("more", "- a"),
        ("more", "overlap: skip"),
        ("more", "a: ["),
    ],
)
def test_a_fault_names_its_field(field: str, text: str) -> None:
    with pytest.raises(InvalidInput) as found:
        words_of_form({"job": "greet", "expression": "0 5 * * *", field: text})
    assert found.value.field.partition(":")[0] == field
    assert found.value.remedy


def console(**options: Any) -> Browser:
    browser = Browser(**options)
    browser.scheduler.create_schedule(
        "team/a", "greet", "0 * * * *", timezone="Europe/Berlin", payload={"to": "Ada"}, overlap="skip", timeout=30.0
    )
    return browser


def test_a_preview_shows_fires_and_differences_and_writes_nothing() -> None:
    browser = console()
    form = form_of(browser.get(EDIT))
    answer = browser.send(
        ROOT + EDIT, {**form, "expression": "30 2 * * *", "payload": '{"to": "Bob"}', "do": "preview"}
    )
    assert "<code><bdi>expression</bdi></code> <del>0 * * * *</del>" in answer.text
    assert "<code><bdi>payload.to</bdi></code> <del>Ada</del>" in answer.text
    assert "<code><bdi>overlap</bdi></code>" not in answer.text
    assert "2026-05-05 02:30:00" in answer.text
    assert 'value="save"' in answer.text
    assert browser.scheduler.get_schedule("team/a").revision == 1


def test_the_form_as_it_is_changes_nothing() -> None:
    browser = console()
    form = form_of(browser.get(EDIT))
    preview = browser.send(ROOT + EDIT, form)
    assert "Nothing: the schedule has this definition." in preview.text
    assert 'value="save"' not in preview.text
    answer = browser.send(ROOT + EDIT, {**form, "do": "save"})
    assert answer.headers["location"].endswith("schedule/team~a?done=same")
    assert browser.scheduler.get_schedule("team/a").revision == 1


def test_an_edit_is_carried_out_once_with_its_reason() -> None:
    browser = console()
    form = form_of(browser.get(EDIT)) | {"expression": "30 2 * * *", "overlap": "", "reason": "less load", "do": "save"}
    for _ in range(2):
        assert browser.send(ROOT + EDIT, form).headers["location"].endswith("?done=edit")
    found = browser.scheduler.get_schedule("team/a")
    assert (found.revision, found.expression, found.payload) == (2, "30 2 * * *", {"to": "Ada"})
    assert "overlap" not in found.definition
    line: Any = browser.scheduler.audit(schedule="team/a", act="update").items[0]
    assert (line.reason, line.via) == ("less load", "console")


def test_an_edit_of_a_revision_that_is_not_current_any_more_is_refused_and_stays_typed() -> None:
    browser = console()
    form = form_of(browser.get(EDIT)) | {"description": "mine", "do": "save"}
    browser.scheduler.update_schedule("team/a", expression="5 * * * *")
    answer = browser.send(ROOT + EDIT, form)
    assert answer.status_code == 409
    assert "Nothing was changed." in answer.text
    assert form_of(answer.text)["description"].strip() == "mine"
    assert browser.scheduler.get_schedule("team/a").revision == 2


def test_an_edit_takes_back_no_tags_and_no_description_that_others_gave_meanwhile() -> None:
    browser = console()
    form = form_of(browser.get(EDIT)) | {"timeout": "55", "do": "save"}
    browser.scheduler.update_schedule("team/a", description="theirs", tags={"oncall": "zoe"})
    answer = browser.send(ROOT + EDIT, form)
    assert answer.status_code == 409
    assert "somebody changed it after this form was shown" in html.unescape(answer.text)
    found = browser.scheduler.get_schedule("team/a")
    assert (found.description, found.tags, found.definition["timeout"]) == ("theirs", {"oncall": "zoe"}, 30.0)


def test_an_edit_that_names_no_form_that_was_shown_changes_nothing() -> None:
    browser = console()
    form = {**form_of(browser.get(EDIT)), "timeout": "55", "do": "save"}
    assert browser.send(ROOT + EDIT, form | {"etag": ""}).status_code == 409
    assert browser.scheduler.get_schedule("team/a").revision == 1


@pytest.mark.parametrize(("field", "text"), [("expression", "61 * * * *"), ("timezone", "Mars/Base"), ("payload", "{")])
def test_a_fault_is_shown_beside_what_was_typed(field: str, text: str) -> None:
    browser = console()
    form = form_of(browser.get(EDIT)) | {field: text}
    for word in ("preview", "save"):
        answer = browser.send(ROOT + EDIT, {**form, "do": word})
        assert answer.status_code == 422
        assert f"<strong>{field}</strong>" in answer.text
        assert form_of(answer.text)[field].strip() == text
    assert browser.scheduler.get_schedule("team/a").revision == 1


def test_a_schedule_is_created_after_its_preview() -> None:
    browser = console()
    form = form_of(browser.get("schedules/new")) | {
        "name": "team/b",
        "job": "greet",
        "expression": "30 2 * * *",
        "payload": '{"to": "x"}',
    }
    preview = browser.send(ROOT + "schedules/new", form)
    assert "At 02:30" in preview.text
    assert len(browser.scheduler.list_schedules().items) == 1
    for _ in range(2):
        answer = browser.send(ROOT + "schedules/new", {**form, "do": "save"})
        assert answer.headers["location"] == f"{ROOT}schedule/team~b?done=create"
    assert browser.scheduler.get_schedule("team/b").timezone == "UTC"


def test_a_name_that_is_taken_is_said_in_the_preview_and_refused() -> None:
    browser = console()
    form = form_of(browser.get("schedules/new")) | {"name": "team/a", "job": "greet", "expression": "30 2 * * *"}
    preview = browser.send(ROOT + "schedules/new", form)
    assert "There is a schedule of this name." in preview.text
    assert 'value="save"' not in preview.text
    assert browser.send(ROOT + "schedules/new", {**form, "do": "save"}).status_code == 409


def test_what_is_declared_elsewhere_is_not_changed_here_and_says_where() -> None:
    browser = console()
    browser.scheduler.upsert_schedule("team/a", "greet", "0 * * * *", payload={"to": "x"}, managed_by="acme.jobs")
    page = browser.get(EDIT)
    assert "acme.jobs" in page
    assert 'class="editor"' not in page
    assert "managed_by: acme.jobs" in html.unescape(page)
    form = {"job": "greet", "expression": "9 * * * *", "etag": '"r2"', "do": "save"}
    assert browser.send(ROOT + EDIT, form).status_code == 409
    assert browser.scheduler.get_schedule("team/a").expression == "0 * * * *"


def test_who_may_not_read_payloads_edits_the_rest() -> None:
    browser = console(actor=Actor(name="eve@acme", operator=True))
    tenants = Tenants(services=browser.scheduler.session.services, clock=browser.scheduler.session.clock)
    tenants.grant("default", browser.scheduler.session.services.identity(), "admin")
    tenants.grant("default", "app:eve@acme", "read-schedules")
    tenants.grant("default", "app:eve@acme", "update")
    form = form_of(browser.get(EDIT)) | {"expression": "30 2 * * *"}
    assert "payload" not in form
    preview = browser.send(ROOT + EDIT, form)
    assert "<code><bdi>expression</bdi></code>" in preview.text
    assert (
        "payload"
        not in re.findall(r'<section id="preview".*?</section>', preview.text, re.DOTALL)[0].partition("<details")[0]
    )
    assert browser.send(ROOT + EDIT, {**form, "do": "save"}).status_code == 303
    assert browser.scheduler.get_schedule("team/a").payload == {"to": "Ada"}
