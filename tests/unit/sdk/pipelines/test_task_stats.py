"""How each task of a pipeline did in its last runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from quarterjack.errors import InvalidInput, NotFound

from tests.support.scenes.line import Line

TASKS = {"a": {"job": "ok"}, "b": {"job": "twice", "after": ["a"]}, "c": {"job": "ok", "after": ["b"]}}


def lasts(line: Line, task: str, seconds: float) -> None:
    line.during[task] = lambda: line.world.wait(seconds)


def test_states_times_and_the_last_failure() -> None:
    line = Line()
    line.publish(TASKS)
    for seconds in (3, 9, 1):
        lasts(line, "a", seconds)
        line.run()
    line.broken = {"b"}
    failed = line.run()
    line.broken.clear()
    line.run()
    a, b, c = line.world.scheduler.task_stats("p")
    assert (a.name, a.job, a.states, a.attempts, a.last_failed) == ("a", "ok", {"SUCCEEDED": 5}, 5, None)
    assert (a.median_duration, a.longest_duration) == (timedelta(seconds=1), timedelta(seconds=9))
    assert (b.states, b.attempts, b.last_failed) == ({"DEAD": 1, "SUCCEEDED": 4}, 6, failed.run.id)
    assert (c.states, c.attempts) == ({"SKIPPED": 1, "SUCCEEDED": 4}, 4)
    assert b.median_wait is not None


def test_only_so_many_runs_are_counted_and_tasks_that_are_gone_come_last() -> None:
    line = Line()
    line.publish(TASKS)
    assert line.world.scheduler.task_stats("p") == []
    line.run()
    line.publish({"z": {"job": "ok"}})
    line.run()
    line.run()
    counted = {stats.name: sum(stats.states.values()) for stats in line.world.scheduler.task_stats("p", runs=3)}
    assert list(counted.items()) == [("z", 2), ("a", 1), ("b", 1), ("c", 1)]
    assert [stats.name for stats in line.world.scheduler.task_stats("p", runs=2)] == ["z"]


def test_without_a_number_fewer_runs_of_many_tasks_are_counted() -> None:
    line = Line()
    line.publish({f"t{number}": {"job": "ok"} for number in range(101)})
    line.run()
    line.run()
    assert [sum(stats.states.values()) for stats in line.world.scheduler.task_stats("p")] == [1] * 101
    assert [sum(stats.states.values()) for stats in line.world.scheduler.task_stats("p", runs=2)] == [2] * 101


def test_what_is_no_pipeline_is_refused() -> None:
    line = Line()
    line.world.scheduler.upsert_schedule("plain", "ok", "manual")
    with pytest.raises(NotFound, match=r"name='plain': it is a schedule without tasks; list_pipelines\(\) lists"):
        line.world.scheduler.task_stats("plain")
    with pytest.raises(NotFound, match="nothing"):
        line.world.scheduler.task_stats("nothing")
    with pytest.raises(InvalidInput, match=r"runs=101: .* 1 to 100"):
        line.world.scheduler.task_stats("plain", runs=101)
