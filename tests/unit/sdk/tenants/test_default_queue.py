"""The queue of a tenant's profile: of runs for which neither job nor caller names one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from quarterjack import Registry
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness

AT = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.fixture
def harness() -> Harness:
    jobs = Registry()
    for name in ("bulk", "own", "third"):
        jobs.queue(name)
    jobs.job("plain")(lambda ctx, payload: None)
    jobs.job("owned", queue="own")(lambda ctx, payload: None)
    return Harness(jobs, at=AT, tenant="acme")


def queues(harness: Harness) -> list[str | None]:
    """Of a plain one-off, of one whose job names a queue, of one whose caller does, and of a schedule."""
    on = harness.scheduler
    runs = [on.submit("plain"), on.submit("owned"), on.submit("plain", queue="third")]
    on.upsert_schedule("s", "plain", "0 0 1 1 *")
    stored = {str(run.ref): run.queue for run in harness.memory.runs()}
    revision = harness.memory.revisions("acme/s")[-1]
    return [*(stored[run.id] for run in runs), revision.definition.options.queue]


def test_it_is_the_last_that_is_asked(harness: Harness) -> None:
    assert queues(harness) == [None, "own", "third", None]
    harness.tenants.set(INSTALLATION, queue="third")
    assert queues(harness) == ["third", "own", "third", "third"]
    harness.tenants.set("acme", queue="bulk")
    assert queues(harness) == ["bulk", "own", "third", "bulk"]
    assert {str(run.state) for run in harness.advance(minutes=1)} == {"SUCCEEDED"}


def test_one_that_does_not_exist_is_named(harness: Harness) -> None:
    harness.tenants.set("acme", queue="nowhere")
    with pytest.raises(InvalidInput, match="nowhere"):
        harness.scheduler.submit("plain")
    assert harness.scheduler.submit("plain", queue="default").id
