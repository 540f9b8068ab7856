"""An actor of one tenant at every page and form of another: the answer is the same whether what it names is there or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from httpx import Response
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url

from tests.support.console import Browser
from tests.support.crawl import Crawl, crawl, elsewhere, with_ids
from tests.support.visited import furnished

NO_RUN = "default/~nothing#once"
ABSENT = {"name": "absent", "run": run_in_url(NO_RUN), "key": "absent.1", "holder": "nobody", "backfill": "absent"}


@dataclass(frozen=True)
class Visit:
    """One request."""

    address: str
    route: str
    fields: Mapping[str, str] | None = None  # of a form

    def at(self, address: str) -> Visit:
        return Visit(address, self.route, self.fields)

    def send(self, browser: Browser) -> Response:
        return browser.client.get(self.address) if self.fields is None else browser.send(self.address, self.fields)


@pytest.fixture(scope="module")
def boss() -> Browser:
    """Of the tenant ``default``, which has everything."""
    made = furnished()
    made.harness.tenants.create("acme")
    made.harness.tenants.grant("acme", "iam:*", "admin")
    made.harness.tenants.grant("acme", "app:ann@acme", "admin")
    return made


@pytest.fixture(scope="module")
def found(boss: Browser) -> Crawl:
    return crawl(boss)


@pytest.fixture(scope="module")
def ann(boss: Browser) -> Browser:
    """Of the tenant ``acme``, where she may do everything."""
    return Browser(scheduler=boss.scheduler, actor=Actor(name="ann@acme", tenants={"acme"}))


def visits(found: Crawl) -> Iterator[Visit]:
    for address, route in found.pages.items():
        yield Visit(address, route)
    for form in found.forms.values():
        yield Visit(form.address, form.route, form.fields)


def test_another_tenants_pages_are_refused_alike_whether_it_exists_or_not(found: Crawl, ann: Browser) -> None:
    seen = set()
    for visit in visits(found):
        answers = [visit.at(elsewhere(visit.address, tenant)).send(ann) for tenant in ("default", "nobody")]
        absent = with_ids(visit.address, visit.route, ABSENT)
        if absent is not None:
            answers.append(visit.at(absent).send(ann))
        assert {answer.status_code for answer in answers} == {403}, visit
        seen |= {answer.text for answer in answers}
    assert len(seen) == 1, "nothing of an answer depends on what was asked for"


def test_another_tenants_names_and_ids_are_like_those_of_nothing(found: Crawl, ann: Browser) -> None:
    tried = 0
    for visit in visits(found):
        absent = with_ids(visit.address, visit.route, ABSENT)
        if absent is None:
            continue
        tried += 1
        there, nowhere = (visit.at(elsewhere(address, "acme")) for address in (visit.address, absent))
        answers = [there.send(ann), nowhere.send(ann)]
        assert {answer.status_code for answer in answers} <= {403, 404}, (visit, answers[0].text)
        assert answers[0].status_code == answers[1].status_code, visit
        assert without_ids(answers[0].text, there) == without_ids(answers[1].text, nowhere), visit
    assert tried > 20


def without_ids(text: str, visit: Visit) -> str:
    """What a page says, without what its address names, in the forms in which pages write it; its navigation is the tenant's own."""
    text = text[text.index("<main") :]
    for segment in visit.address.partition("?")[0].split("/")[5:]:
        text = text.replace(segment, "…").replace(segment.replace("~", "/"), "…")
    for run in (NO_RUN, *RUNS):
        text = text.replace(run, "…").replace(run.replace("'", "&#39;"), "…")
    return text


RUNS: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _runs(boss: Browser) -> None:
    RUNS[:] = [run.id for run in boss.harness.runs()]
