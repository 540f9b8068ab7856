"""A cancellation reaches the tasks of a pipeline and of those within it, also when it is called again after its caller died."""

from __future__ import annotations

import pytest
from quarterjack import Run
from quarterjack.testing import Crash
from quarterjack.testing.process import Hand

from tests.support.scenes.line import Line
from tests.support.scenes.world import Faults, crash

INNER = {"i": {"job": "again"}, "j": {"job": "ok", "after": ["i"]}}


def nested() -> tuple[Line, Run]:
    """A pipeline's run whose task is a pipeline, of which a task waits for its next attempt."""
    line = Line()
    scheduler = line.world.scheduler
    scheduler.upsert_schedule("inner", "pipeline:inner", "manual", tasks=INNER)
    line.publish({"n": {"pipeline": "inner"}})
    run = scheduler.trigger("p")
    line.world.work()
    return line, run


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("verb", ["cancel", "look", "mark_ended"])
def test_a_cancellation_that_is_called_again_reaches_every_depth(verb: str, skip: int) -> None:
    line, run = nested()
    try:
        line.world.owner(Faults().at(verb, after=crash, skip=skip)).cancel_run(run.id)
    except Crash:
        line.world.scheduler.cancel_run(run.id)
    assert {run.job: str(run.state) for run in line.world.memory.runs()} == {
        "pipeline:p": "CANCELLED",
        "pipeline:inner": "CANCELLED",
        "again": "CANCELLED",
    }


@pytest.mark.parametrize("skip", range(2))
def test_the_timers_end_what_an_owner_left(skip: int) -> None:
    line, run = nested()
    with pytest.raises(Crash):
        line.world.owner(Faults().at("cancel", after=crash, skip=skip)).cancel_run(run.id)
    line.world.wait(200)
    line.world.tick()
    assert {str(run.state) for run in line.world.memory.runs()} == {"CANCELLED"}
    assert len(line.world.memory.runs()) == 3


def test_a_task_that_an_owner_skips_has_not_begun() -> None:
    line = Line()
    line.publish({"a": {"job": "ok"}, "b": {"job": "ok", "after": ["a"]}})
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()
    line.world.scheduler.skip_task(run.id, "b")
    line.world.work()
    assert (line.seen(run).run.state, line.ran) == ("SUCCEEDED", ["a"])
