"""The straight line with real processes: create, tick, run, done; retry, dead, pause; from another process too."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise

import pytest
from quarterjack import RunState, ScheduleState
from quarterjack.domain.names import one_off_ref
from quarterjack.domain.times import to_ms

from tests.support.installation.scene import ROOT, UNDERTAKER, Scene, duplicates, in_seconds, ticker, until, worker

pytestmark = pytest.mark.cloud

FROM_ANOTHER_TERMINAL = """
import sys
from quarterjack import Scheduler
print(Scheduler().submit("test.note", {"to": sys.argv[1]}).id)
"""


def test_a_schedule_fires_on_time_and_tells_what_happened(scene: Scene) -> None:
    scene.start(worker(), ticker())
    scene.scheduler.create_schedule(
        "tick", "test.note", "rate(2 seconds, from=2026-01-01T00:00:00Z)", payload={"to": scene.to}, start="exact"
    )
    assert until(lambda: len(scene.starts()) >= 4, 60), scene.logs()
    scene.scheduler.pause_schedule("tick", reason="seen enough")
    paused_at = to_ms(in_seconds(0), "now") / 1000
    schedule = scene.scheduler.get_schedule("tick")
    assert (schedule.state, schedule.reason, list(schedule.next_fires)) == (ScheduleState.PAUSED, "seen enough", [])
    assert not until(lambda: any(start.at > paused_at for start in scene.starts()), 3), "it was paused"
    starts = scene.starts()
    assert not duplicates(scene.counts())
    assert all(start.at >= start.due for start in starts), "none starts early"
    assert [b.due - a.due for a, b in pairwise(starts)] == [2.0] * (len(starts) - 1)
    scene.ended(*scene.counts(), within=60)  # a run is settled after its job has told of its start
    runs = scene.scheduler.list_runs("tick").items
    assert {run.state for run in runs} == {RunState.SUCCEEDED, RunState.CANCELLED}
    assert {run.id for run in runs if run.state is RunState.SUCCEEDED} == {start.run for start in starts}


def test_a_schedule_that_only_the_ticker_can_have_seen(scene: Scene) -> None:
    """Created ten minutes ago, due now: nothing of it was sent when it was created."""
    earlier = scene.scheduler_of(timedelta(minutes=10))
    moment = in_seconds(4).replace(microsecond=0)
    earlier.create_schedule("once", "test.note-async", f"at({moment:%Y-%m-%dT%H:%M:%S})", payload={"to": scene.to})
    scene.start(worker(), ticker(period=1))
    assert until(lambda: len(scene.starts()) == 1, 60), scene.logs()
    assert scene.starts()[0].due == moment.timestamp()
    assert until(lambda: scene.scheduler.get_schedule("once").state is ScheduleState.COMPLETED, 60)


def test_failures_are_retried_and_what_never_works_ends_dead(scene: Scene) -> None:
    scene.start(worker(), UNDERTAKER)
    flaky = scene.scheduler.submit("test.fail", {"to": scene.to, "failures": 2})
    doomed = scene.scheduler.submit("test.fail", {"to": scene.to, "failures": 99})
    saved, lost = scene.ended(flaky.id, doomed.id, within=60)
    assert (saved.state, saved.attempt) == (RunState.SUCCEEDED, 3)
    assert (lost.state, lost.attempt, lost.error_type, lost.error) == (
        RunState.DEAD,
        3,
        "ConnectionError",
        "attempt 3",
    )
    assert scene.counts() == {flaky.id: 3, doomed.id: 3}


def test_one_offs_run_now_later_and_once_a_key(scene: Scene) -> None:
    scene.start(worker())
    payload = {"to": scene.to}
    now = scene.scheduler.submit("test.note", payload)
    later = scene.scheduler.submit("test.note", payload, delay=3)
    keyed = [scene.scheduler.submit("test.note", payload, idempotency_key="order-7").id for _ in range(3)]
    assert set(keyed) == {str(one_off_ref(scene.settings.tenant, "order-7"))}
    runs = scene.ended(now.id, later.id, keyed[0], within=60)
    assert {run.state for run in runs} == {RunState.SUCCEEDED}
    assert scene.counts() == {now.id: 1, later.id: 1, keyed[0]: 1}
    assert all(start.at >= start.due for start in scene.starts())


def test_the_sdk_in_another_terminal_needs_only_the_environment(scene: Scene) -> None:
    scene.start(worker())
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "shared"),
        "QUARTERJACK_PREFIX": scene.settings.prefix,
        **scene.cloud.environment,
    }
    command = [sys.executable, "-c", FROM_ANOTHER_TERMINAL, scene.to]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (run,) = scene.ended(told.stdout.strip(), within=60)
    assert run.state is RunState.SUCCEEDED
