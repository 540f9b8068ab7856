"""Jobs that do what a job should not, in real worker processes under a short lease. docs/how-to/long-jobs.md says what comes of each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from quarterjack import Run, RunState
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import LogFollower

from bench.hurried.crew import Hurried, hurried

pytestmark = [pytest.mark.check, pytest.mark.cloud]

LEASE = 4.0  # seconds
HELD = 9.0  # seconds for which a job holds its interpreter: more than LEASE and SKEW


@pytest.fixture
def hurry(local_cloud: LocalCloud, tmp_path: Path) -> Iterator[Hurried]:
    with hurried(local_cloud, tmp_path, lease=LEASE) as installation:
        yield installation


def submitted(hurry: Hurried, job: str, **payload: Any) -> Run:
    return hurry.scheduler.submit(job, {"to": str(hurry.to), **payload})


def ready(hurry: Hurried, *names: str) -> None:
    """Start workers and wait until they take orders."""
    for name in names:
        events = LogFollower(hurry.folder / f"{name}.log")
        hurry.start_worker(name)
        assert hurry.until(partial(says, events, "worker.started"), 60), hurry.logs()


def says(events: LogFollower, name: str) -> bool:
    """Whether such an event is among the new ones."""
    return any(event["event"] == name for _, event in events.new())


@pytest.mark.proof
def test_a_job_that_holds_its_interpreter_loses_its_lease_and_its_outcome_is_refused(hurry: Hurried) -> None:
    events = LogFollower(hurry.folder / "worker-1.log", hurry.folder / "worker-2.log")
    ready(hurry, "worker-1", "worker-2")
    run = submitted(hurry, "hurried.hold", seconds=HELD)
    assert hurry.until(lambda: len(hurry.lines("end")) == 2, 60), hurry.logs()
    first, second = hurry.lines("start")
    assert first["pid"] != second["pid"]
    assert LEASE < second["at"] - first["at"] < HELD, "another took it while the first could not move"
    found = hurry.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.fence, found.result) == (RunState.SUCCEEDED, 2, 2, 2)
    assert hurry.until(partial(says, events, "lease.lost"), 60), hurry.logs()


@pytest.mark.proof
def test_isolated_it_keeps_its_lease(hurry: Hurried) -> None:
    ready(hurry, "worker-1", "worker-2")
    run = submitted(hurry, "hurried.hold-apart", seconds=HELD)
    found = hurry.scheduler.wait_for(run.id, timeout=60)
    assert (found.state, found.attempt, found.fence) == (RunState.SUCCEEDED, 1, 1)
    assert len(hurry.lines("start")) == 1


def test_an_isolated_process_that_dies_is_retried_at_once_and_its_worker_goes_on(hurry: Hurried) -> None:
    ready(hurry, "worker-1")
    run = submitted(hurry, "hurried.die-apart")
    found = hurry.scheduler.wait_for(run.id, timeout=60)
    assert (found.state, found.attempt) == (RunState.SUCCEEDED, 3)
    assert [(a.error_type, a.error_code) for a in found.failed_attempts] == [("ProcessDied", "exit 99")] * 2
    assert hurry.children["worker-1"].exit_code is None
    assert len({line["pid"] for line in hurry.lines("start")} | {hurry.children["worker-1"].pid}) == 4


@pytest.mark.proof
def test_a_worker_with_an_abandoned_thread_makes_way_for_another(hurry: Hurried) -> None:
    events = LogFollower(hurry.folder / "worker-1.log")
    ready(hurry, "worker-1")
    run = submitted(hurry, "hurried.deaf")
    found = hurry.scheduler.wait_for(run.id, timeout=60)
    assert (found.state, found.attempt) == (RunState.SUCCEEDED, 2)
    assert [attempt.error_type for attempt in found.failed_attempts] == ["Timeout"]
    assert found.result == hurry.children["worker-1"].pid, "the same process to whoever supervises it"
    seen = [event["event"] for _, event in events.new()]
    assert seen.count("worker.started") == 2
    assert "worker.recycling" in seen
