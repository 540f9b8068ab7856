"""Cancelling with real workers: before the start nothing starts, while it runs a heartbeat tells it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from quarterjack import RunState
from quarterjack.local.cloud import LocalCloud

from bench.hurried.crew import Hurried, hurried

pytestmark = [pytest.mark.check, pytest.mark.cloud]

LEASE = 6.0  # seconds; a heartbeat is a third


@pytest.fixture
def hurry(local_cloud: LocalCloud, tmp_path: Path) -> Iterator[Hurried]:
    with hurried(local_cloud, tmp_path, lease=LEASE) as installation:
        installation.start_worker()
        yield installation


def test_a_running_job_sees_its_cancellation_at_a_heartbeat(hurry: Hurried) -> None:
    ids = [hurry.scheduler.submit("hurried.wait", {"to": str(hurry.to)}).id for _ in range(3)]
    assert hurry.until(lambda: len(hurry.lines("start")) == len(ids), 60), hurry.logs()
    assert all(hurry.scheduler.cancel_run(run_id).cancel_requested for run_id in ids)
    assert {hurry.scheduler.wait_for(run_id, timeout=60).state for run_id in ids} == {RunState.CANCELLED}
    assert sorted(line["run"] for line in hurry.lines("cancelled")) == sorted(ids)


def test_runs_cancelled_before_their_start_do_not_start(hurry: Hurried) -> None:
    payload = {"to": str(hurry.to), "seconds": 0}
    ids = [hurry.scheduler.submit("hurried.sleep", payload, delay=4).id for _ in range(20)]
    assert {hurry.scheduler.cancel_run(run_id).state for run_id in ids} == {RunState.CANCELLED}
    marker = hurry.scheduler.submit("hurried.sleep", payload, delay=5)
    assert hurry.scheduler.wait_for(marker.id, timeout=60).state is RunState.SUCCEEDED
    assert [line["run"] for line in hurry.lines("start")] == [marker.id]
