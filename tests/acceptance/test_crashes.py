"""Processes that die, and what becomes of their work. ``kill -9`` here is the real one."""

from __future__ import annotations

import signal
import time
from datetime import timedelta

import pytest
from quarterjack import RunState
from quarterjack.state.lease import LEASE, SKEW

from tests.support.installation.scene import UNDERTAKER, Scene, duplicates, in_seconds, ticker, until, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]

TAKE_OVER = (LEASE + SKEW) / 1000 + 60  # seconds within which a killed worker's run starts again, on a busy machine


def test_a_ticker_killed_between_claim_and_send_loses_nothing(scene: Scene) -> None:
    earlier = scene.scheduler_of(timedelta(minutes=10))
    moment = in_seconds(8).replace(microsecond=0)
    names = [f"once-{number}" for number in range(5)]
    for name in names:
        earlier.create_schedule(name, "test.note", f"at({moment:%Y-%m-%dT%H:%M:%S})", payload={"to": scene.to})
    scene.start(worker())
    killed = scene.run_module("tests.support.installation.dying_ticker")
    assert killed.wait(60) == -signal.SIGKILL, killed.log.read_text()
    claimed = [run for name in names for run in scene.scheduler.list_runs(name).items]
    assert claimed, "it died before it claimed anything"
    assert {run.state for run in claimed} == {RunState.QUEUED}
    scene.start(ticker(period=1))
    assert until(lambda: len(scene.starts()) == len(names), 60), scene.logs()
    assert not until(lambda: bool(duplicates(scene.counts())), 3), scene.starts()
    assert all(start.due == moment.timestamp() for start in scene.starts())


def test_sigterm_lets_a_worker_finish_what_it_can(scene: Scene) -> None:
    crew = scene.start(worker("worker-1", "--grace", "10"))
    run = scene.scheduler.submit("test.sleep", {"to": scene.to, "seconds": 3})
    assert until(lambda: len(scene.starts()) == 1, 60), scene.logs()
    crew["worker-1"].terminate()
    assert crew["worker-1"].wait(60) == 0, scene.logs()
    (finished,) = scene.ended(run.id, within=60)
    assert (finished.state, finished.attempt) == (RunState.SUCCEEDED, 1)


def test_sigterm_releases_what_a_worker_cannot_finish_and_another_starts_it_at_once(scene: Scene) -> None:
    crew = scene.start(worker("worker-1", "--grace", "1"))
    run = scene.scheduler.submit("test.sleep", {"to": scene.to, "seconds": 120})
    assert until(lambda: len(scene.starts()) == 1, 60), scene.logs()
    scene.start(worker("worker-2"))
    crew["worker-1"].terminate()
    assert until(lambda: len(scene.starts()) == 2, 60), scene.logs()
    assert '"event": "run.released"' in crew["worker-1"].log.read_text(), "nobody waited for its lease to run out"
    assert scene.starts()[1].pid != scene.starts()[0].pid
    assert crew["worker-1"].wait(60) == 0, scene.logs()
    (finished,) = scene.ended(run.id, within=60)
    assert finished.state is RunState.SUCCEEDED


def test_a_worker_with_an_abandoned_thread_renews_itself_and_goes_on(scene: Scene) -> None:
    crew = scene.start(worker("worker-1"), UNDERTAKER)
    pid = crew["worker-1"].pid
    stuck = scene.scheduler.submit("test.stuck", {"to": scene.to})
    (dead,) = scene.ended(stuck.id, within=60)
    assert (dead.state, dead.error_type) == (RunState.DEAD, "Timeout")
    started = '"event": "worker.started"'
    assert until(lambda: crew["worker-1"].log.read_text().count(started) == 2, 60), scene.logs()
    assert (crew["worker-1"].pid, crew["worker-1"].exit_code) == (pid, None)
    (done,) = scene.ended(scene.scheduler.submit("test.note", {"to": scene.to}).id, within=60)
    assert done.state is RunState.SUCCEEDED


@pytest.mark.proof
def test_a_killed_workers_run_starts_again_within_a_lease(scene: Scene) -> None:
    crew = scene.start(worker("worker-1"))
    run = scene.scheduler.submit("test.sleep", {"to": scene.to, "seconds": 300})
    assert until(lambda: len(scene.starts()) == 1, 60), scene.logs()
    scene.start(worker("worker-2"))
    crew["worker-1"].kill()
    killed = time.time()
    assert until(lambda: len(scene.starts()) == 2, TAKE_OVER), scene.logs()
    print(f"started again after {scene.starts()[1].at - killed:.1f} s")  # noqa: T201  # a figure to report
    (finished,) = scene.ended(run.id, within=60)
    assert (finished.state, finished.attempt, finished.fence) == (RunState.SUCCEEDED, 2, 2)


@pytest.mark.proof
def test_a_job_that_kills_its_process_ends_dead_and_takes_no_other_along(scene: Scene) -> None:
    crew = scene.start(worker("worker-1"), UNDERTAKER)
    killer = scene.scheduler.submit("test.die", {"to": scene.to})
    others = [scene.scheduler.submit("test.note", {"to": scene.to}).id for _ in range(5)]

    def over() -> bool:
        crew.replace_ended()
        return scene.scheduler.get_run(killer.id).ended_at is not None

    assert until(over, 4 * TAKE_OVER, look=1), scene.logs()
    dead = scene.scheduler.get_run(killer.id)
    assert dead.state is RunState.DEAD
    assert {run.state for run in scene.ended(*others, within=TAKE_OVER)} == {RunState.SUCCEEDED}
    assert scene.counts()[killer.id] == 3
