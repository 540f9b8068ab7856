"""Two tickers and two workers at once: nothing missing, nothing double."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from quarterjack import RunState, next_fires
from quarterjack.domain.names import fire_ref, schedule_owner
from quarterjack.domain.times import to_ms

from tests.support.installation.scene import Scene, duplicates, in_seconds, ticker, until, worker

pytestmark = [pytest.mark.check, pytest.mark.cloud]

SCHEDULES = 30
SECONDS = 12  # of fires
PATIENCE = 120  # seconds: how fast an engine is, is not what is tested


def test_two_tickers_and_two_workers_run_every_fire_once(scene: Scene) -> None:
    """Created as if three minutes ago, so that all fires are the tickers' to claim."""
    earlier = scene.scheduler_of(timedelta(minutes=3))
    first = in_seconds(10).replace(microsecond=0)
    expression = f"rate(2 seconds, from={first:%Y-%m-%dT%H:%M:%SZ})"
    names = [f"every-{number}" for number in range(SCHEDULES)]
    for name in names:
        earlier.create_schedule(name, "test.note", expression, payload={"to": scene.to})
    scene.start(worker("worker-1"), worker("worker-2"), ticker("ticker-1", period=1), ticker("ticker-2", period=1))
    before, last = first - timedelta(seconds=1), first + timedelta(seconds=SECONDS)
    fires = [fire for fire in next_fires(expression, after=before, count=100) if fire <= last]
    expected = {
        str(fire_ref(schedule_owner(scene.settings.tenant, name), to_ms(fire, "fire")))
        for name in names
        for fire in fires
    }
    assert len(expected) == SCHEDULES * (SECONDS / 2 + 1)
    assert until(lambda: expected <= set(scene.counts()), SECONDS + PATIENCE), sorted(expected - set(scene.counts()))[
        :5
    ]
    assert not duplicates(scene.counts())
    assert all(start.at >= start.due for start in scene.starts())
    assert len({start.pid for start in scene.starts()}) == 2, "both workers had their share"
    scheduler = scene.scheduler

    def states() -> list[Counter[RunState]]:
        return [Counter(run.state for run in scheduler.list_runs(name, before=last).items) for name in names]

    succeeded = [Counter({RunState.SUCCEEDED: len(fires)})] * SCHEDULES
    assert until(lambda: states() == succeeded, PATIENCE), (
        states()
    )  # a run is settled after its job has told of its start
