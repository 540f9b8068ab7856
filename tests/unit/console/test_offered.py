"""A page offers only what its reader may do: no link leads to a refusal, no form is refused, and nothing of it is audited."""

from __future__ import annotations

import pytest
from quarterjack.owner import access
from quarterjack.web import Actor

from tests.support.console import Browser
from tests.support.crawl import Crawl, crawl
from tests.support.visited import furnished

# What is granted, by a word for it.
GRANTS: dict[str, tuple[list[str], list[str]]] = {
    "viewer": (["viewer"], ["*"]),
    "auditor": (["auditor"], ["*"]),
    "operator": (["operator"], ["*"]),
    "editor": (["editor"], ["*"]),
    "viewer of one job": (["viewer"], ["greet"]),
    "submitter": (["submit", "read-runs"], ["*"]),
}
READS_ONLY = ("viewer", "auditor", "viewer of one job")


def refused(found: Crawl) -> dict[str, int]:
    return {address: status for address, status in found.statuses.items() if status == 403}


def denials(browser: Browser) -> list[object]:
    return [line.detail for line in browser.harness.memory.audit_entries() if line.act == "deny"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "DENIALS", access.DenialSampler())


@pytest.fixture(scope="module")
def boss() -> Browser:
    """An installation in which each of these roles is granted to an actor of its name."""
    made = furnished()
    for role, (can, jobs) in GRANTS.items():
        made.harness.tenants.grant("default", f"app:{role.replace(' ', '-')}", can, jobs=jobs)
    return made


def reader(boss: Browser, role: str) -> Browser:
    """Every other one is an operator of the process, who has no grant of the installation."""
    operator = list(GRANTS).index(role) % 2 == 0
    return Browser(scheduler=boss.scheduler, actor=Actor(name=role.replace(" ", "-"), operator=operator))


@pytest.mark.parametrize("role", GRANTS)
def test_pages_lead_to_nothing_that_their_reader_may_not_do(role: str, boss: Browser) -> None:
    found = crawl(reader(boss, role), led=True)
    assert len(found.pages) > 10
    assert refused(found) == {}
    assert denials(boss) == []
    if role in READS_ONLY:
        assert found.forms == {}


def test_no_form_that_an_operator_is_shown_is_refused(boss: Browser) -> None:
    """Only the forms of one page of each kind are sent: they change what there is."""
    ann = reader(boss, "operator")
    sent = {act: ann.send(form.address, form.fields).status_code for act, form in crawl(ann, led=True).forms.items()}
    assert len(sent) > 5
    assert {act: status for act, status in sent.items() if status == 403} == {}
    assert denials(boss) == []


def test_what_was_refused_is_in_the_audit_with_what_it_was_to_be_done_to() -> None:
    boss = furnished()
    boss.harness.tenants.grant("default", "app:eve@acme", "viewer")
    eve = Browser(scheduler=boss.scheduler, actor=Actor(name="eve@acme"))
    answer = eve.send("/console/t/default/schedule/team~good/act", {"do": "pause", "revision": "1", "reason": "x"})
    assert answer.status_code == 403
    assert denials(boss) == [{"verb": "pause", "principal": "app:eve@acme", "of": "schedule 'team/good'"}]
    assert "schedule &#39;team/good&#39;" in boss.get("audit?act=deny")


def test_the_form_of_an_act_is_not_shown_to_who_may_not_do_it() -> None:
    """By its address, which no page has for them. Nothing was done, so nothing is audited."""
    boss = furnished()
    boss.harness.tenants.grant("default", "app:eve@acme", "viewer")
    eve = Browser(scheduler=boss.scheduler, actor=Actor(name="eve@acme"))
    for path in (
        "schedule/team~good/act?do=pause",
        "schedules/act?do=delete&q=job:greet",
        "schedules/new",
        "freeze?for=1h",
    ):
        assert "is not shown" in eve.get(path, status=403)
        boss.get(path)
    assert denials(boss) == []
