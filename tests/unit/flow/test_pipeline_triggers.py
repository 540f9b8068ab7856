"""What starts a pipeline: past fires of a backfill, and fires that were missed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from quarterjack.domain.run import RunState
from quarterjack.domain.times import from_ms

from tests.support.scenes.world import NOON, World

TASKS = {"a": {"job": "say", "payload": "${fire.date}"}, "b": {"job": "say", "after": ["a"], "payload": "${a.result}"}}


def noting(world: World) -> list[Any]:
    noted = list[Any]()

    def say(ctx: Any, payload: Any) -> Any:
        noted.append(payload)
        return payload

    world.jobs.job("say")(say)
    return noted


def test_a_backfill_runs_the_tasks_of_each_past_fire() -> None:
    world = World()
    noted, at = noting(world), from_ms(NOON)
    world.scheduler.create_schedule("p", "pipeline:p", "0 3 * * *", tasks=TASKS)
    world.scheduler.backfill("p", at - timedelta(days=2), at, current=True, dry_run=False)
    world.live(300)
    assert Counter(noted) == {"2026-05-03": 2, "2026-05-04": 2}


def test_a_pipeline_that_was_missed_runs_late() -> None:
    world = World()
    noted = noting(world)
    world.scheduler.create_schedule("p", "pipeline:p", "10 12 * * *", tasks=TASKS)
    world.clock.advance(timedelta(minutes=20))
    world.live(120)
    (late,) = [run for run in world.memory.runs() if run.job == "pipeline:p"]
    assert late.state is RunState.SUCCEEDED
    assert noted == ["2026-05-04", "2026-05-04"]
