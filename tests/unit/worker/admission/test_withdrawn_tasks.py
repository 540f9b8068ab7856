"""No attempt of a task starts once its pipeline, or the pipeline that this one is a task of, has ended or was cancelled."""

from __future__ import annotations

import pytest
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.times import DAY
from quarterjack.state.ending import cancel, expire
from quarterjack.state.transition import Transition
from quarterjack.testing.process import Hand

from tests.support.scenes.line import Line
from tests.support.scenes.world import NOON

INNER = {"i": {"job": "again"}, "j": {"job": "ok", "after": ["i"]}}
CANCELS = cancel(now=NOON, expires=NOON + DAY)
EXPIRES = expire(revision=1, seen_fence=0, now=NOON, expires=NOON + DAY, reason="deadline passed")


@pytest.fixture
def line() -> Line:
    found = Line()
    found.world.scheduler.upsert_schedule("inner", "pipeline:inner", "manual", tasks=INNER)
    return found


def move(line: Line, run_id: str, transition: Transition) -> None:
    """Whoever ends the run dies before it reaches the tasks."""
    assert line.world.services.ledger.move(parse_run_id(run_id), transition).applied


def states(line: Line, job: str) -> list[str]:
    return [str(run.state) for run in line.world.memory.runs() if run.job == job]


@pytest.mark.parametrize("transition", [CANCELS, EXPIRES], ids=["cancelled", "expired"])
def test_a_first_attempt(line: Line, transition: Transition) -> None:
    line.publish({"a": {"job": "ok"}})
    run = line.world.scheduler.trigger("p")
    Hand(worker=line.world.worker()).work()
    move(line, run.id, transition)
    line.world.work()
    assert (line.ran, states(line, "ok")) == ([], ["CANCELLED"])


def test_a_further_attempt(line: Line) -> None:
    line.publish({"a": {"job": "again"}})
    run = line.world.scheduler.trigger("p")
    line.world.work()
    move(line, run.id, CANCELS)
    line.world.live(300)
    assert (line.ran, states(line, "again")) == (["a"], ["CANCELLED"])


def test_a_task_of_a_pipeline_in_a_cancelled_pipeline(line: Line) -> None:
    line.publish({"n": {"pipeline": "inner"}})
    run = line.world.scheduler.trigger("p")
    line.world.work()
    move(line, run.id, CANCELS)
    line.world.live(300)
    assert (line.ran, states(line, "again"), states(line, "pipeline:inner")) == (["i"], ["CANCELLED"], ["CANCELLED"])


def test_a_task_of_a_pipeline_in_one_that_has_expired_goes_on_and_is_the_last(line: Line) -> None:
    line.publish({"n": {"pipeline": "inner"}})
    run = line.world.scheduler.trigger("p")
    line.world.work()
    move(line, run.id, EXPIRES)
    line.world.live(300)
    assert (line.ran, states(line, "again"), states(line, "ok")) == (["i", "i"], ["SUCCEEDED"], ["CANCELLED"])


def test_a_child_goes_on_after_a_parent_that_has_ended(line: Line) -> None:
    """Only tasks end with what is above them: a child that its parent does not wait for has a life of its own."""
    line.world.jobs.job("parent")(lambda ctx, payload: ctx.submit("again", step="c") and None)
    line.world.scheduler.submit("parent")
    line.world.live(300)
    assert (states(line, "parent"), states(line, "again")) == (["SUCCEEDED"], ["SUCCEEDED"])


def test_a_child_that_has_begun_goes_on_when_the_row_of_its_parent_is_gone(line: Line) -> None:
    line.world.jobs.job("parent")(lambda ctx, payload: ctx.submit("again", step="c") and None)
    parent = line.world.scheduler.submit("parent")
    line.world.work()
    line.world.memory.remove_row(parse_run_id(parent.id))
    line.world.live(300)
    assert states(line, "again") == ["SUCCEEDED"]
