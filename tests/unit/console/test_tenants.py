"""Tenants, grants and API keys: for operators, each act shown first, with a reason in the audit; and no secret on any page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Scheduler
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.web import Actor

from tests.support.console import Browser, post_form
from tests.support.open_breakers import open_breaker, open_breaker_of_all

ADMIN = "iam:*"


def audited(browser: Browser, act: str, tenant: str = "acme") -> Any:
    owner = Scheduler(tenant, services=browser.harness.memory.connect(), clock=browser.harness.clock)
    return owner.audit(act=act).items[0]  # type: ignore[arg-type]


def test_a_profile_is_made_changed_and_listed() -> None:
    browser = Browser()
    assert "No profile yet" in browser.get("tenants")
    made = browser.confirm(
        "tenants/new", tenant="acme", limited="yes", jobs="report.* greet", description="<us>", reason="new"
    )
    assert made.headers["location"] == "/console/t/default/tenant/acme?done=create"
    assert browser.harness.tenants.get("acme").jobs == ("report.*", "greet")
    assert audited(browser, "create-tenant").reason == "new"
    page = browser.get("tenants")
    assert "report.*, greet" in page
    assert "&lt;us&gt;" in page
    assert browser.confirm("tenant/acme/edit", limited="", jobs="", queue="", description="theirs").status_code == 303
    found = browser.harness.tenants.get("acme")
    assert (found.jobs, found.description) == (None, "theirs")


def test_a_form_about_an_old_version_of_a_profile_is_refused() -> None:
    browser = Browser()
    browser.harness.tenants.create("acme", description="a")
    action, hidden = post_form(browser.get("tenant/acme/edit"))
    browser.harness.tenants.set("acme", description="b")
    assert browser.send(action, {**hidden, "description": "c"}).status_code == 409
    assert browser.harness.tenants.get("acme").description == "b"


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"tenant": "a/b"}, "tenant"), ({"tenant": "acme", "limited": "yes", "jobs": "a b!"}, "jobs")],
)
def test_a_profile_that_cannot_be_is_shown_with_its_fault(fields: dict[str, str], said: str) -> None:
    browser = Browser()
    answer = browser.confirm("tenants/new", **fields)
    assert answer.status_code == 422
    assert f"<strong>{said}</strong>" in answer.text
    assert "Nothing was written" in answer.text
    assert browser.harness.tenants.list() == []


def test_a_tenant_is_suspended_and_resumed_with_numbers_and_a_reason() -> None:
    browser = Browser()
    owner = Scheduler("acme", services=browser.harness.memory.connect(), clock=browser.harness.clock)
    owner.create_schedule("a", "greet", "0 * * * *", payload={"to": "Ada"})
    assert "1 active schedule:" in browser.get("tenant/acme/act?do=suspend")
    assert "Nothing to do" in browser.get("tenant/acme/act?do=resume")
    answer = browser.confirm("tenant/acme/act?do=suspend", reason="unpaid since March")
    assert answer.headers["location"].endswith("/tenant/acme?done=suspend")
    assert "Suspended: unpaid since March" in browser.get("tenant/acme")
    assert audited(browser, "suspend-tenant").via == "console"
    assert "Nothing to do" in browser.get("tenant/acme/act?do=suspend")
    assert browser.confirm("tenant/acme/act?do=resume").status_code == 303
    assert browser.harness.tenants.get("acme").state == "ACTIVE"


def test_a_grant_is_shown_with_its_verbs_given_and_taken_away() -> None:
    browser = Browser()
    browser.harness.tenants.grant("acme", ADMIN, "admin")
    page = browser.get("tenant/acme/grant?to=app:bob@acme&can=pause+resume&jobs=report.*")
    assert "2 verbs: pause, resume" in page
    assert "first grant" not in page
    answer = browser.confirm("tenant/acme/grant?to=app:bob@acme&can=pause+resume&jobs=report.*", reason="night shift")
    assert answer.status_code == 303
    assert [grant.to for grant in browser.harness.tenants.get("acme").grants] == [ADMIN, "app:bob@acme"]
    assert audited(browser, "grant").reason == "night shift"
    assert "Take 1 grant away from app:bob@acme" in browser.get("tenant/acme/revoke?to=app:bob@acme")
    assert browser.confirm("tenant/acme/revoke?to=app:bob@acme").status_code == 303
    assert [grant.to for grant in browser.harness.tenants.get("acme").grants] == [ADMIN]
    browser.get("tenant/acme/revoke?to=app:eve", status=404)
    assert "No grant of acme is left" in browser.get(f"tenant/acme/revoke?to={ADMIN}")


def test_a_first_grant_that_would_lock_its_giver_out_is_refused_in_the_form() -> None:
    browser = Browser()
    page = browser.get("tenant/acme/grant?to=app:bob@acme&can=operator")
    assert "This is its first grant" in page
    answer = browser.confirm("tenant/acme/grant?to=app:bob@acme&can=operator")
    assert answer.status_code == 422
    assert "Nothing was written" in answer.text
    assert "Did you mean" in browser.get("tenant/acme/grant?to=app:bob@acme&can=operatr", status=422)


def test_grants_of_the_installation_are_shown_with_every_tenant() -> None:
    browser = Browser()
    browser.harness.tenants.grant(INSTALLATION, ADMIN, "admin")
    assert "Of the installation, which count here too" in browser.get("tenant/acme")
    assert "All tenants" in browser.get(f"tenant/{INSTALLATION}")
    assert "All tenants" in browser.get("tenants")


def test_a_key_is_made_shown_once_and_revoked() -> None:
    browser = Browser()
    assert "No key yet" in browser.get("keys")
    action, hidden = post_form(browser.get("keys/new"))
    given = {**hidden, "name": "crm", "can": "submit", "jobs": "gr*", "days": "30", "reason": "the new CRM"}
    made = browser.send(action, given)
    assert made.status_code == 201
    text = made.text.split('aria-label="Text of the key">')[1].split("<")[0]
    assert text.startswith("qj_default_crm.")
    assert browser.send(action, given).status_code == 409  # sent twice: one key
    (key,) = browser.harness.tenants.keys("default")
    assert key.expires_at == browser.harness.clock.now() + timedelta(days=30)
    assert audited(browser, "create-key", "default").reason == "the new CRM"
    for page in ("keys", f"keys/{key.id}/revoke", "audit", "tenant/default", "tenants"):
        assert text.rpartition("_")[2] not in browser.get(page)
    answer = browser.confirm(f"keys/{key.id}/revoke", reason="it leaked")
    assert answer.headers["location"].endswith("/keys?done=revoke")
    assert not browser.harness.tenants.keys("default")
    browser.get("keys/crm.1/revoke", status=404)


def test_a_key_that_cannot_be_is_shown_with_its_fault() -> None:
    browser = Browser()
    answer = browser.confirm("keys/new", name="crm", can="submitt", days="")
    assert answer.status_code == 422
    assert "Did you mean" in answer.text
    assert browser.confirm("keys/new", name="crm", can="submit", days="9").status_code == 422
    assert not browser.harness.tenants.keys("default")


def test_the_last_use_of_a_key_is_shown() -> None:
    browser = Browser()
    text = browser.harness.tenants.create_key("default", "crm", "viewer").text
    assert "never" in browser.get("keys")
    from quarterjack.owner.api_keys import authenticate

    assert authenticate(text, browser.harness.memory.connect(), browser.harness.clock()) is not None
    assert "2026-05-04 <span" in browser.get("keys")


def test_who_is_no_operator_sees_the_tenants_that_he_may_name_and_no_profile() -> None:
    browser = Browser(actor=Actor(name="alice@acme", tenants={"default", "acme"}))
    browser.harness.tenants.create("globex", description="a secret of theirs")
    page = browser.get("tenants")
    assert "/console/t/acme/" in page
    assert "globex" not in page
    for path in ("tenants/new", "tenant/globex", "tenant/globex/edit", "tenant/globex/grant", "keys", "keys/new"):
        assert "globex" not in browser.get(path, status=403).replace(path, "")
    for path in ("tenants/new", "tenant/default/act", "tenant/default/edit", "tenant/default/grant", "keys/new"):
        answer = browser.send(f"/console/t/default/{path}", {"do": "suspend", "to": "app:eve", "can": "admin"})
        assert answer.status_code == 403, path
    assert [each.name for each in browser.harness.tenants.list()] == ["globex"]


def test_an_operator_goes_to_a_tenant_without_a_profile() -> None:
    browser = Browser()
    answer = browser.client.get("/console/t/default/tenants/switch?to=acme")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/t/acme/")
    browser.get("tenants/switch?to=a/b", status=422)
    assert "It has no profile" in browser.get("tenant/acme")


def test_limits_are_shown_and_changed() -> None:
    browser = Browser()
    browser.harness.tenants.set(INSTALLATION, limits={"fires_per_hour": 9_000})
    assert browser.confirm("tenants/new", tenant="acme", limits="schedules=5 runs_per_second=0.5").status_code == 303
    assert browser.harness.tenants.get("acme").limits == {"runs_per_second": 0.5, "schedules": 5}
    page = browser.get("tenant/acme")
    assert "runs_per_second=0.5, schedules=5" in page
    assert "of the installation: fires_per_hour=9000" in page
    assert browser.confirm("tenant/acme/edit", limits="schedules=6").status_code == 303
    assert browser.harness.tenants.get("acme").limits == {"schedules": 6}
    assert browser.confirm("tenant/acme/edit", limits="concurrent_runs:a=2 concurrent_runs:b=3").status_code == 303
    assert browser.confirm("tenant/acme/edit", limits="concurrent_runs:b=4 schedules=6").status_code == 303
    assert browser.harness.tenants.get("acme").limits == {"schedules": 6, "concurrent_runs:b": 4}
    assert browser.confirm("tenant/acme/edit", limits="schedules=6").status_code == 303
    wrong = browser.confirm("tenant/acme/edit", limits="schedules=many")
    assert wrong.status_code == 422
    assert "schedules=many" in wrong.text
    assert browser.harness.tenants.get("acme").limits == {"schedules": 6}


def test_a_page_says_when_a_throttled_act_may_be_repeated() -> None:
    """And does not wait for it: a page that waits holds a thread of the server."""
    browser = Browser()
    browser.harness.tenants.set("default", limits={"runs_per_second": 0.01})
    sent = {"payload": '{"to": "Ada"}'}
    assert browser.confirm("job/greet/submit", **sent).status_code == 303
    refused = browser.confirm("job/greet/submit", **sent)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "100")
    assert "come back in 100 s" in refused.text


def test_a_tenants_page_shows_how_many_runs_wait_and_how_much_is_kept() -> None:
    browser = Browser()
    browser.harness.tenants.set("default", limits={"waiting_runs": 1, "kept_bytes": 90_000})
    assert browser.confirm("job/greet/submit", payload='{"to": "Ada"}').status_code == 303
    refused = browser.confirm("job/greet/submit", payload='{"to": "Ada"}')
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "waiting_runs=1" in refused.text
    page = browser.get("tenant/default")
    assert "1 of waiting_runs=1<" in page
    assert "of kept_bytes" not in page, "nobody has counted them"


def test_a_tenants_page_shows_its_circuit_breakers() -> None:
    browser = Browser()
    assert "Circuit breakers" not in browser.get("tenant/default")
    open_breaker_of_all("default", browser.harness.memory.connect(), browser.harness.clock())
    open_breaker("default", "greet", browser.harness.memory.connect(), browser.harness.clock())
    page = browser.get("tenant/default")
    assert "Circuit breakers of default" in page
    assert "all jobs" in page
    assert "open since" in page
