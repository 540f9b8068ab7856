"""An actor of one tenant at every route of another, made from the document: it is told the same whether what it names is there or not."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from quarterjack.domain.names import callback_token
from quarterjack.web import Actor
from quarterjack.web.urls import run_in_url, run_of_url

from tests.support.api import BODIES, Api, document
from tests.support.visited import furnished


class Operation(NamedTuple):
    """One route and method."""

    name: str
    method: str
    path: str  # as the document has it
    of_operators: bool


class Shared(NamedTuple):
    """An installation with two tenants, and an actor of ``acme`` who asks about ``default``."""

    ann: Api
    there: dict[str, str]  # what ``default`` has, as segments of addresses


OPERATIONS = [
    Operation(operation["operationId"], method.upper(), path, operation["tags"] == ["operators"])
    for path, operations in document()["paths"].items()
    for method, operation in operations.items()
    if path.startswith("/v1/")
]
ABSENT = {
    "name": "absent",
    "run": run_in_url("default/~nothing#once"),
    "backfill": "absent",
    "key": "absent.1",
    "token": callback_token("default/~nothing#once", "approval"),
    "link": "0" * 12,
    "task": "report",
    "version": "7.0",
}
MAKES = "put_schedule"  # one of one's own, of whatever name
NAMING = [
    operation
    for operation in OPERATIONS
    if any(f"{{{name}}}" in operation.path for name in ABSENT) and operation.name != MAKES
]
EMPTY = {
    "get_schedule_stats",
    "cancel_schedule_runs",
    "list_backfills",
}  # they ask for no schedule, and find nothing of it
QUERIES = {"why_schedule": {"at": "2026-05-04T12:05:00Z"}}


@pytest.fixture(scope="module", params=[True, pytest.param(False, marks=pytest.mark.check)], ids=["granted", "open"])
def shared(request: pytest.FixtureRequest) -> Shared:
    return installed(is_granted=request.param)


def installed(*, is_granted: bool) -> Shared:
    boss = furnished()
    (backfill,) = boss.scheduler.list_backfills("team/good")
    if is_granted:
        for to in ("iam:*", "app:ann@acme"):
            boss.harness.tenants.grant("acme", to, "admin")
    else:
        for to in ("app:boss@acme", "iam:*"):
            boss.harness.tenants.revoke("~installation", to)
    ann = Api(scheduler=boss.scheduler, actor=Actor(name="ann@acme", tenants={"acme"}))
    run = next(run for run in boss.harness.runs() if run.schedule == "team/good")
    there = {"name": "team~good", "run": run_in_url(run.id), "backfill": str(backfill.id), "key": "crm.1"}
    there["token"] = callback_token(run.id, "approval")
    there["link"], there["task"] = "1" * 12, "extract"
    there["version"] = ABSENT["version"]  # versions are of the installation, of every tenant
    return Shared(ann, there)


def ask(shared: Shared, operation: Operation, tenant: str, ids: dict[str, str]) -> tuple[int, Any]:
    """Status and problem, without what the request itself says."""
    path = operation.path.format(**{"tenant": tenant, **ids})
    body = {} if operation.method in ("GET", "DELETE") else {"json": BODIES.get(operation.name, {})}
    answer = shared.ann.client.request(operation.method, path, params=QUERIES.get(operation.name), **body)
    names = [*ids.values(), *(value.replace("~", "/") for value in ids.values()), run_of_url(ids["run"]), tenant]
    text = answer.text
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, "…")
    return answer.status_code, text


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_another_tenants_address_is_refused_alike(shared: Shared, operation: Operation) -> None:
    """Also below tenants that do not exist, and with names of nothing."""
    answers = {
        ask(shared, operation, tenant, ids) for tenant in ("default", "nobody") for ids in (shared.there, ABSENT)
    }
    assert len(answers) == 1, answers
    assert {status for status, _ in answers} == {403}


@pytest.mark.parametrize("operation", NAMING, ids=lambda operation: operation.name)
def test_another_tenants_names_and_ids_are_like_those_of_nothing(shared: Shared, operation: Operation) -> None:
    there, nowhere = (ask(shared, operation, "acme", ids) for ids in (shared.there, ABSENT))
    assert there == nowhere
    assert there[0] in ((200,) if operation.name in EMPTY else (403, 404)), there


def test_a_schedule_of_ones_own_may_have_the_name_of_anothers() -> None:
    shared = installed(is_granted=True)
    (operation,) = (operation for operation in OPERATIONS if operation.name == MAKES)
    there, nowhere = (ask(shared, operation, "acme", ids) for ids in (shared.there, ABSENT))
    assert there == nowhere
    assert there[0] == 201
