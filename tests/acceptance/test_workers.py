"""Worker processes as their records show them: at a run, stopped in order, killed. ``kill -9`` here is the real one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack.errors import InvalidInput
from quarterjack.state.worker_record import WorkerState

from tests.support.installation.scene import Scene, until, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]


def test_a_killed_worker_is_shown_as_vanished_and_its_run_says_so(scene: Scene) -> None:
    crew = scene.start(worker("worker-1"))
    run = scene.scheduler.submit("test.sleep", {"to": scene.to, "seconds": 120})

    def running() -> list[Any]:
        return list(scene.scheduler.list_running().items)

    assert until(lambda: [each.id for each in running()] == [run.id], 60), scene.logs()
    (busy,) = scene.scheduler.workers(job="test.sleep").items
    (shown,) = running()
    assert (busy.state, busy.name, [each.id for each in busy.runs]) == (WorkerState.BUSY, shown.worker, [run.id])
    assert shown.published_at <= shown.leased_at <= shown.last_heartbeat_at
    crew["worker-1"].kill()
    later = scene.scheduler_of(timedelta(seconds=-120))  # two minutes on, and nothing has been heard
    (vanished,) = later.workers().items
    found = later.get_run(run.id)
    assert (vanished.state, vanished.name) == (WorkerState.VANISHED, found.worker)
    assert found.worker_vanished
    assert [each.id for each in later.list_running().items] == [run.id]


def test_a_worker_that_is_told_to_stop_is_shown_as_stopped(scene: Scene) -> None:
    crew = scene.start(worker("worker-1"))
    assert until(lambda: len(scene.scheduler.workers().items) == 1, 60), scene.logs()
    (idle,) = scene.scheduler.workers().items
    assert (idle.state, idle.queue) == (WorkerState.IDLE, "default")
    assert until(lambda: len(scene.scheduler.jobs()) > 0, 60), scene.logs()
    assert {"test.note", "test.sleep"} <= {job.name for job in scene.scheduler.jobs()}
    with pytest.raises(InvalidInput, match=r"did you mean 'test\.sleep'"):
        scene.scheduler.strictly().submit("test.slep")
    crew["worker-1"].terminate()
    assert crew["worker-1"].wait(60) == 0, scene.logs()
    assert list(scene.scheduler.workers().items) == []
    (stopped,) = scene.scheduler.workers(stopped=True).items
    assert (stopped.state, stopped.name) == (WorkerState.STOPPED, idle.name)
