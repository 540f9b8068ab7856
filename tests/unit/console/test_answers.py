"""Answers to runs that wait: the form that a schema gives, and the receipt."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry, Run
from quarterjack.console.answer_fields import answer_of, fields_of
from quarterjack.errors import InvalidInput
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser

APPROVAL = {
    "type": "object",
    "properties": {
        "ok": {"type": "boolean", "title": "Pay it?"},
        "cents": {"type": "integer"},
        "how": {"enum": ["card", "bank"]},
        "note": {"type": "string", "description": "for <accounting>"},
    },
    "required": ["ok"],
}


def waiting(schema: Any = None) -> tuple[Browser, Run, str]:
    """A console, a run that waits for an approval, and the address of its page."""
    jobs = Registry()

    @jobs.job("pay")
    def pay(ctx: Any, payload: Any) -> Any:
        return ctx.wait_for("approval", timeout=3_600, schema=schema)

    browser = Browser(jobs=jobs)
    run = browser.scheduler.submit("pay")
    browser.harness.advance()
    return browser, run, f"run/{run_in_url(run.id)}"


def test_the_form_says_since_when_and_until_when_its_run_waits() -> None:
    browser, _, page = waiting()
    assert "Answer…" in browser.get(page)
    shown = browser.get(f"{page}/answer")
    assert "signal <strong>approval</strong>" in shown
    assert "12:00" in shown
    assert "13:00" in shown


def test_an_answer_is_typed_as_json_and_the_receipt_is_shown() -> None:
    browser, run, page = waiting()
    answered = browser.confirm(f"{page}/answer", answer='{"ok": true}', reason="paid by phone")
    assert answered.status_code == 200
    assert "Your answer is accepted." in answered.text
    browser.harness.advance()
    assert browser.scheduler.get_run(run.id).result == {"ok": True}
    (entry,) = browser.scheduler.audit(act="signal").items
    assert (entry.target, entry.reason) == (run.id, "paid by phone")
    assert "Answer…" not in browser.get(page)


def test_a_form_has_a_field_for_each_property() -> None:
    browser, run, page = waiting(APPROVAL)
    shown = browser.get(f"{page}/answer")
    for words in ("Pay it?", "for &lt;accounting&gt;", '<option value="&#34;card&#34;">card', 'name="answer.cents"'):
        assert words in shown, words
    typed = {"answer.ok": "true", "answer.cents": "250", "answer.how": '"bank"', "answer.note": ""}
    assert "accepted" in browser.confirm(f"{page}/answer", **typed).text
    browser.harness.advance()
    assert browser.scheduler.get_run(run.id).result == {"ok": True, "cents": 250, "how": "bank"}


@pytest.mark.parametrize(
    "typed", [{"answer.ok": ""}, {"answer.ok": "maybe"}, {"answer.ok": "true", "answer.cents": "a <b>"}]
)
def test_an_answer_that_does_not_fit_is_shown_again(typed: dict[str, str]) -> None:
    browser, run, page = waiting(APPROVAL)
    again = browser.confirm(f"{page}/answer", **typed, reason="kept")
    assert again.status_code == 422
    assert 'role="alert"' in again.text
    assert 'value="kept"' in again.text
    assert "<b>" not in again.text
    assert browser.scheduler.get_run(run.id).awaits == "signal:approval"


def test_json_that_is_none_is_shown_again() -> None:
    browser, _, page = waiting()
    again = browser.confirm(f"{page}/answer", answer="{")
    assert (again.status_code, "is not JSON" in again.text) == (422, True)


def test_a_second_answer_is_told_the_first_one() -> None:
    browser, run, page = waiting()
    shown = browser.get(f"{page}/answer")
    browser.scheduler.signal(run.id, "approval", 1)
    action = f"/console/t/default/{page}/answer"
    assert "signal" in shown
    assert "Another answer came before" in browser.send(action, {"signal": "approval", "answer": "2"}).text
    browser.harness.advance()
    assert "waits for no signal now" in browser.get(f"{page}/answer")


def test_an_ended_run_takes_no_answer() -> None:
    browser, run, page = waiting()
    browser.scheduler.cancel_run(run.id)
    refused = browser.send(f"/console/t/default/{page}/answer", {"signal": "approval", "answer": "2"})
    assert refused.status_code in (200, 409)
    assert "CANCELLED" in refused.text
    assert "Traceback" not in refused.text


def test_only_who_may_signal_is_offered_it() -> None:
    browser, run, page = waiting()
    browser.harness.tenants.grant("default", "iam:*", "admin")
    browser.harness.tenants.grant("default", "app:eve@acme", "viewer")
    eve = Browser(scheduler=browser.scheduler, actor=Actor(name="eve@acme"))
    assert "Answer…" not in eve.get(page)
    eve.get(f"{page}/answer", status=403)
    refused = eve.send(f"/console/t/default/{page}/answer", {"signal": "approval", "answer": "1"})
    assert refused.status_code == 403
    assert browser.scheduler.get_run(run.id).awaits == "signal:approval"


@pytest.mark.parametrize(
    ("schema", "typed", "answer"),
    [
        (None, "", None),
        (None, "[1]", [1]),
        ({"type": "boolean"}, "false", False),
        ({"type": "string"}, "true", "true"),
        ({"enum": [1, "1"]}, '"1"', "1"),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, '{"a": []}', {"a": []}),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, '{"b": 1}', {"b": 1}),
        ({"properties": True}, "1", 1),
    ],
)
def test_one_field_is_the_whole_answer(schema: Any, typed: str, answer: Any) -> None:
    assert answer_of(fields_of(schema), {"answer": typed}) == answer


@pytest.mark.parametrize(("schema", "typed"), [({"type": "number"}, "true"), ({"const": 1}, "2"), (None, "{")])
def test_what_is_no_value_of_its_field_is_refused(schema: Any, typed: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        answer_of(fields_of(schema), {"answer": typed})
    assert refused.value.field == "payload"
