"""Who is let into the console, and what no other site can make a browser do there."""

from __future__ import annotations

import pytest
from quarterjack.web import Actor

from tests.support.api import AsgiClient
from tests.support.console import FORM, KEY, Browser, form_of, post_form

UNSAFE = ["schedules/act", "schedule/nightly/act", "run/AAAA/act", "dead/redrive"]


def test_without_a_session_a_page_asks_for_the_key_and_an_act_is_refused() -> None:
    browser = Browser(signed_in=False)
    answer = browser.client.get("/console/t/default/schedules")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/sign-in?next=%2Ft%2Fdefault%2Fschedules"
    for path in UNSAFE:
        assert browser.send(f"/console/t/default/{path}", {"do": "pause"}).status_code == 401, path


def test_a_deep_link_survives_signing_in() -> None:
    browser = Browser(signed_in=False)
    asked = browser.client.get("/console/t/default/runs?state=failed&job=greet").headers["location"]
    page = browser.client.get(asked).text
    action, hidden = post_form(page)
    refused = browser.send(action, {**hidden, "key": "wrong"})
    assert post_form(refused.text)[1] == hidden, "also after a mistyped key"
    assert browser.send(action, {**hidden, "key": KEY}).headers["location"] == (
        "/console/t/default/runs?state=failed&job=greet"
    )


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/t/../../v1",
        "/t//evil",
        "/sign-out",
        "t/default/",
        "/t/a\nb",
    ],
)
def test_signing_in_leads_to_pages_of_the_console_alone(address: str) -> None:
    browser = Browser(signed_in=False)
    answer = browser.send("/console/sign-in", {"key": KEY, "next": address, "action": address})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")


def test_a_session_that_ends_in_an_edit_keeps_the_text() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly", "greet", "0 2 * * *", payload={"to": "Ada"})
    form = form_of(browser.get("schedule/nightly/edit")) | {"description": 'typed "here" <b>', "do": "save"}
    browser.client.headers.pop("cookie")
    answer = browser.send("/console/t/default/schedule/nightly/edit", form)
    assert answer.status_code == 401
    assert "Your session has ended" in answer.text
    action, hidden = post_form(answer.text)
    signed_in = browser.send(action, {**hidden, "key": KEY})
    assert signed_in.status_code == 200
    browser.client.headers["cookie"] = signed_in.headers["set-cookie"].partition(";")[0]
    again, kept = post_form(signed_in.text)
    assert kept == {name: value.replace("\n", "\r\n") for name, value in form.items()} or kept == form
    assert browser.send(again, kept).status_code == 303
    assert browser.scheduler.get_schedule("nightly").description == 'typed "here" <b>'


def test_the_addresses_that_people_type_lead_somewhere() -> None:
    client = Browser(signed_in=False).client
    for address in ("/", "/console"):
        answer = client.get(address)
        assert (answer.status_code, answer.headers["location"]) == (307, "/console/")


def test_the_key_opens_a_session_whose_cookie_says_nothing_and_goes_nowhere_else() -> None:
    answer = Browser(signed_in=False).sign_in(KEY)
    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert KEY not in cookie


def test_another_key_opens_none() -> None:
    browser = Browser(signed_in=False)
    for key in ("", "qjk_local_tesT", f"{KEY}x", "é"):
        answer = browser.sign_in(key)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "This is not the key" in answer.text


def test_whoever_signs_out_ends_the_session_everywhere() -> None:
    browser = Browser()
    other = AsgiClient(browser.app, {"cookie": browser.client.headers["cookie"]})
    assert browser.send("/console/sign-out", {}).status_code == 303
    assert other.get("/console/t/default/").status_code == 303


def test_an_api_key_that_was_made_here_opens_a_session_of_its_holder() -> None:
    operator = Browser()
    text = operator.harness.tenants.create_key("default", "crm", ["viewer"]).text
    holder = Browser(scheduler=operator.scheduler, signed_in=False)
    assert holder.sign_in(text).status_code == 303
    assert "key:crm" in holder.get("schedules")
    assert holder.client.get("/console/t/other/schedules").status_code == 403
    holder.send("/console/sign-out", {})
    assert operator.client.get("/console/t/default/").status_code == 200, "only its own session has ended"
    operator.harness.tenants.revoke_key("default", "crm.1")
    operator.harness.advance(seconds=6)
    refused = Browser(scheduler=operator.scheduler, signed_in=False).sign_in(text)
    assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_a_form_of_another_site_changes_nothing(site: str) -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly", "greet", "0 2 * * *", payload={"to": "Ada"})
    answer = browser.send("/console/t/default/schedule/nightly/act", {"do": "pause"}, site=site)
    assert answer.status_code == 403
    assert browser.scheduler.get_schedule("nightly").state == "ACTIVE"


def test_a_browser_that_does_not_name_the_site_has_to_name_the_origin() -> None:
    browser = Browser()
    browser.scheduler.create_schedule("nightly", "greet", "0 2 * * *", payload={"to": "Ada"})
    address = "/console/t/default/schedule/nightly/act"
    assert browser.send(address, {"do": "pause"}, site=None).status_code == 403
    assert browser.send(address, {"do": "pause"}, site=None, origin="http://evil.example").status_code == 403
    assert browser.send(address, {"do": "pause"}, site=None, origin="http://localhost").status_code == 303


def test_only_forms_are_taken_here_and_only_json_by_the_api() -> None:
    browser = Browser()
    here = browser.send("/console/sign-in", {"key": KEY}, **{"content-type": "application/json"})
    there = browser.send("/v1/tenants/default/schedules", {"name": "x"})
    assert (here.status_code, there.status_code) == (415, 415)
    assert FORM != "application/json"


def test_an_actor_of_one_tenant_sees_no_page_of_another() -> None:
    browser = Browser(actor=Actor(name="alice@acme", tenants={"acme"}))
    for path in ("", "schedules", "schedule/nightly", "runs", "run/AAAA", "dead", "nobody"):
        assert browser.client.get(f"/console/t/default/{path}").status_code in (403, 404), path
    assert browser.client.get("/console/").headers["location"] == "/console/t/acme/"
