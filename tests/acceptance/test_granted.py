"""Worker processes whose tenant's job is taken away while its schedules fire every second: when the last of them starts."""

from __future__ import annotations

import pytest
from quarterjack import RunState, Tenants
from quarterjack.domain.tenants.access import KIND, NOT_GRANTED
from quarterjack.services import system_clock

from tests.support.installation.scene import UNDERTAKER, Scene, ticker, until, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]

WITHIN = 5.0  # seconds
JOB = "test.note"


def test_no_process_starts_a_job_later_than_five_seconds_after_it_was_taken_away(scene: Scene) -> None:
    owner, tenants = scene.scheduler, Tenants(settings=scene.settings)
    owner.create_schedule("prompt", JOB, "rate(1 second)", payload={"to": scene.to})
    owner.create_schedule("exact", JOB, "rate(1 second)", payload={"to": scene.to}, start="exact")
    scene.start(ticker(period=10), worker("worker-1"), worker("worker-2"), UNDERTAKER)
    assert until(lambda: len(scene.starts()) > 40, 90), scene.logs()

    tenants.set(owner.tenant, jobs=["other"])
    taken = system_clock() / 1_000
    assert until(lambda: system_clock() / 1_000 > taken + 20, 60)
    refused = list(owner.list_dead(error_type=KIND, limit=500).items)
    late = [start.at - taken for start in scene.starts() if start.at > taken]
    assert refused, scene.logs()
    print(f"{len(late)} starts after, the last {max(late, default=0):.3f} s after; {len(refused)} refused")  # noqa: T201 (a figure to report)
    assert max(late, default=0.0) <= WITHIN, late
    assert {(run.state, run.reason) for run in refused} == {(RunState.DEAD, NOT_GRANTED)}

    tenants.set(owner.tenant, add_jobs=[JOB])
    before = len(scene.starts())
    assert until(lambda: len(scene.starts()) > before + 10, 60), scene.logs()
    done = owner.redrive(error_type=KIND, limit=5)
    assert done.count == 5, done.failed
    again = scene.ended(*(str(run.redriven_as) for run in done.runs), within=60)
    assert {run.state for run in again} == {RunState.SUCCEEDED}
