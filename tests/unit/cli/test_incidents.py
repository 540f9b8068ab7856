"""What fails, on the command line: listed, described, and what was LOST repeated only on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from quarterjack import Registry, Scheduler
from quarterjack.domain.names import aside_ref
from quarterjack.domain.times import MINUTE
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.stores.schedules import IncidentChange
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import tick

from tests.support.command_line import Say

pytestmark = pytest.mark.cloud


@pytest.fixture
def failing(said: Say, local_settings: Settings) -> str:
    """A schedule that fails, and one that does not; the id of the run that failed."""
    for name in ("bad", "good"):
        said("schedules", "create", name, "j", "0 0 1 1 *", "--on-failure", "job:page", "--pause-on-failure", "3")
    services = connect(local_settings)
    head = services.schedules.head("default", "bad")
    assert head is not None
    run = str(aside_ref(head.owner, system_clock(), "trigger-x"))
    shown = replace(head, version=2, failing=2, failed_at=system_clock(), failed_run=run, incident="failure-1")
    assert services.schedules.note(IncidentChange(head=shown, expected=1))
    return run


def test_those_that_fail_are_listed_with_the_last_run_that_did(said: Say, failing: str) -> None:
    (listed,) = said("--json", "schedules", "list", "--failing").json
    assert (listed["name"], listed["failing"], listed["failed_run"], listed["incident"]) == (
        "bad",
        2,
        failing,
        "failure-1",
    )
    assert [one["name"] for one in said("--json", "schedules", "list", "--not-failing").json] == ["good"]
    shown = said("schedules", "list", "--failing").out
    assert "failed_run" in shown.replace(" ", "_")
    described = said("schedules", "describe", "bad").out
    assert "failing" in described
    assert "job:page" in described


@pytest.fixture
def lost(local_settings: Settings) -> str:
    """An at-most-once run whose worker vanished two minutes ago."""
    jobs, services = Registry(), connect(local_settings)
    jobs.job("pay", delivery="at_most_once")(_vanish)

    def earlier() -> int:
        return system_clock() - 2 * MINUTE

    run = Scheduler(jobs=jobs, services=services, settings=local_settings, clock=earlier).submit("pay")
    worker = make_worker(services, jobs, earlier, wait=lambda seconds: None)
    hand = Hand(worker=worker)
    with pytest.raises(Crash):
        _work_for_ever(hand)
    tick(services, clock=system_clock, holder="t")
    while not bury_all(services, system_clock):
        pass
    return run.id


def _work_for_ever(hand: Hand) -> None:
    while True:
        hand.work()


def _vanish(ctx: object, payload: object) -> None:
    raise Crash


def test_what_is_lost_is_listed_and_repeated_only_on_demand(said: Say, lost: str) -> None:
    (listed,) = said("--json", "dead", "list").json
    assert (listed["id"], listed["state"]) == (lost, "LOST")
    assert "LOST" in said("dead", "list").out
    refused = said("--json", "dead", "redrive", lost)
    assert (refused.code, refused.problem["error"]) == (4, "Conflict")
    (dry,) = said("--json", "dead", "redrive", "--job", "pay", "--dry-run").json
    assert (dry["runs"], list(dry["failed"])) == ([], [lost])
    (again,) = said("--json", "dead", "redrive", "--job", "pay", "--allow-repeat").json
    assert [run["id"] for run in again["runs"]] == [lost]
