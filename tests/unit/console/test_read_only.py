"""Who may only read is refused every form that changes something: all that a crawl finds, so that a new page is tried as well."""

from __future__ import annotations

from typing import Any

from quarterjack.web import Actor

from tests.support.console import Browser, form_of
from tests.support.crawl import crawl, get_routes, post_routes
from tests.support.visited import furnished

PREVIEW = "preview"  # the button of a form that shows what it would do, and does nothing


def state(browser: Browser) -> list[Any]:
    """All that an act could have changed."""
    scheduler, tenants = browser.scheduler, browser.harness.tenants
    return [
        scheduler.list_schedules().items,
        browser.harness.runs(),
        scheduler.list_dead().items,
        scheduler.frozen(),
        scheduler.list_backfills("team/good"),
        tenants.get("default"),
        tenants.get("~installation"),
        tenants.keys("default"),
        [tenant.name for tenant in tenants.list()],
    ]


def test_who_may_only_read_is_refused_every_form() -> None:
    boss = furnished()
    boss.harness.tenants.grant("default", "app:eve@acme", "viewer")
    found, before = crawl(boss), state(boss)
    assert {form.route for form in found.forms.values()} == set(post_routes()), "a form that no page leads to"
    eve = Browser(scheduler=boss.scheduler, actor=Actor(name="eve@acme"))
    answers = {act: eve.send(form.address, form.fields).status_code for act, form in found.forms.items()}
    acts = {act for act, form in found.forms.items() if form.fields.get("do") != PREVIEW}
    assert {act: status for act, status in answers.items() if act in acts} == dict.fromkeys(acts, 403)
    assert max(answers.values()) < 500
    assert state(boss) == before


def test_who_may_only_read_is_refused_what_a_form_offers_after_its_preview() -> None:
    """Buttons that only an answer to a preview has."""
    boss = furnished()
    boss.harness.tenants.grant("default", "app:eve@acme", "viewer")
    eve, before, root = (
        Browser(scheduler=boss.scheduler, actor=Actor(name="eve@acme")),
        state(boss),
        "/console/t/default/",
    )
    etag = form_of(boss.get("schedule/team~good/edit"))["etag"]
    definition = {"job": "greet", "expression": "1 2 * * *", "etag": etag, "payload": '{"to": "x"}', "do": "save"}
    span = {
        "start": "2026-05-04T10:00",
        "end": "2026-05-04T11:00",
        "order": "oldest",
        "concurrency": "1",
        "current": "yes",
    }
    forms = {
        "schedules/new": {**definition, "name": "team/new"},
        "schedule/team~good/edit": definition,
        "schedule/team~good/backfill": {**span, "do": "begin"},
    }
    assert {path: eve.send(root + path, form).status_code for path, form in forms.items()} == dict.fromkeys(forms, 403)
    assert state(boss) == before
    assert {path: boss.send(root + path, form).status_code for path, form in forms.items()} == dict.fromkeys(forms, 303)


def test_the_crawl_finds_every_page() -> None:
    boss = furnished()
    assert set(crawl(boss).pages.values()) == set(get_routes())


def test_no_form_of_another_site_is_taken() -> None:
    boss = furnished()
    found, before = crawl(boss), state(boss)
    for site in ("cross-site", "same-site", "none"):
        refused = {boss.send(form.address, form.fields, site).status_code for form in found.forms.values()}
        assert refused == {403}
    assert state(boss) == before
