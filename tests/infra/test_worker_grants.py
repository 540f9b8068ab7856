"""The roles of worker and ticker are enough for what they cancel in an owner's stead: what is below a cancelled run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from aws_cdk.assertions import Template
from quarterjack import Context, Registry, Scheduler, Settings
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.tenants.caller import role
from quarterjack.fires.context import FireContext
from quarterjack.owner.runs.change import end_children, end_run
from quarterjack.services import connect, system_clock
from quarterjack.state.waits.asked import child_ref
from quarterjack.testing.process import Hand, make_worker

from tests.support.policies import enforced
from tests.support.templates import statements

pytestmark = pytest.mark.cloud


class Family:
    """A run with a child and a map, on the local cloud."""

    def __init__(self, settings: Settings, during: Callable[[], object] = lambda: None) -> None:
        jobs, self.during = Registry(), during
        jobs.job("child")(lambda ctx, payload: None)
        jobs.job("parent")(self._parent)
        self.services = connect(settings)
        self.owner = Scheduler("acme", jobs=jobs, settings=settings)
        self.worker = make_worker(self.services, jobs, system_clock, wait=lambda seconds: None)
        self.parent = self.owner.submit("parent").id
        self.child = str(child_ref(parse_run_id(self.parent), "c"))

    def _parent(self, ctx: Context, payload: Any) -> Any:
        child = ctx.submit("child", step="c")
        self.during()
        return ctx.gather([child]), ctx.map("child", [1, 2], at_a_time=2)

    def row(self, run_id: str) -> RunRow:
        row = self.services.ledger.read(parse_run_id(run_id))
        assert row is not None
        return row

    def states(self) -> list[RunState]:
        return [self.row(run_id).state for run_id in (self.parent, self.child)]


def test_a_worker_may_cancel_what_its_run_has_submitted(template: Template, local_settings: Settings) -> None:
    with ExitStack() as role_of_worker:

        def during() -> None:
            family.owner.cancel_run(family.parent)
            role_of_worker.enter_context(enforced(statements(template, "JobsWorkerRole"), local_settings))

        family = Family(local_settings, during)
        assert Hand(worker=family.worker).work(most=1)
    assert family.states() == ["CANCELLED", "CANCELLED"]


def test_a_ticker_may_cancel_what_an_owner_left(template: Template, local_settings: Settings) -> None:
    family = Family(local_settings)
    assert Hand(worker=family.worker).work(most=1)
    assert family.states() == ["PARKED", "QUEUED"]
    context = FireContext(services=family.services, clock=system_clock, caller=role("owner"))
    cancelled = end_run(family.row(family.parent), context)
    with enforced(statements(template, "JobsTickerRole"), local_settings):
        end_children(cancelled, FireContext(services=family.services, clock=system_clock))
    assert family.states() == ["CANCELLED", "CANCELLED"]
