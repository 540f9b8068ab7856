"""A refusal that a tenant's caller gets says what the caller can do: an operator's command is of no use there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from quarterjack.domain.tenants.profile import INSTALLATION

from tests.support.api import NIGHTLY, Api

RUN = {"job": "greet", "payload": {"to": "Ada"}}


def limited(api: Api) -> None:
    api.harness.tenants.set("default", limits={"schedules": 0})


def fires(api: Api) -> None:
    api.harness.tenants.set("default", limits={"fires_per_hour": 0})


def throttled(api: Api) -> None:
    api.harness.tenants.set("default", limits={"runs_per_second": 0.001, "runs_burst": 1})
    api.ask("POST", "/runs", RUN)


def suspended(api: Api) -> None:
    api.harness.tenants.suspend("default", reason="unpaid")


def without_jobs(api: Api) -> None:
    api.harness.tenants.set("default", jobs=[])


def other_queue(api: Api) -> None:
    api.harness.tenants.set(INSTALLATION, queue="typo")


@pytest.mark.parametrize(
    ("refuse", "asked", "status", "remedy"),
    [
        (limited, ("POST", "/schedules", {"name": "n", **NIGHTLY}), 403, "delete some, or ask an operator"),
        (fires, ("POST", "/schedules", {"name": "n", **NIGHTLY}), 403, "fire less often, or delete others"),
        (throttled, ("POST", "/runs", RUN), 429, ""),
        (suspended, ("POST", "/runs", RUN), 403, "ask an operator of the installation to resume it"),
        (without_jobs, ("POST", "/runs", RUN), 403, "ask an operator of the installation for it"),
        (other_queue, ("POST", "/runs", RUN), 422, "ask an operator of the installation to change the profile"),
    ],
)
def test_a_refusal_gives_the_tenant_its_own_remedy(
    refuse: Callable[[Api], None], asked: Any, status: int, remedy: str
) -> None:
    api = Api()
    refuse(api)
    answer = api.ask(*asked)
    assert answer.status_code == status, answer.text
    assert remedy in answer.json()["detail"]
    assert "quarterjack " not in answer.text
