"""What pipelines cost: writes and reads of an advance and of a look of the timer, messages of a hop; and how large they may be."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from quarterjack.testing import Crash, Detail, Hook
from quarterjack.testing.process import Hand

from tests.support.parts import in_rotation
from tests.support.scenes.line import Line
from tests.support.scenes.world import Faults
from tests.support.units import counted

READS = ("GetItem", "BatchGetItem", "Query")


@pytest.fixture
def line() -> Line:
    return Line()


def chain(length: int) -> dict[str, Any]:
    return {f"t{n}": {"job": "ok"} | ({"after": [f"t{n - 1}"]} if n else {}) for n in range(length)}


def calls_of_a_run(line: Line, tasks: dict[str, Any]) -> Faults:
    """The calls of workers, from the first slice to the last."""
    line.publish(tasks)
    line.world.scheduler.trigger("p")
    seen = Faults()
    line.world.work(line.world.worker(seen))
    return seen


def test_a_hop_is_one_message_and_costs_as_many_calls_wherever_it_is(line: Line) -> None:
    calls_of_a_run(line, chain(5))  # so that definitions have been read
    short, long = (calls_of_a_run(line, chain(length)) for length in (5, 15))
    per_hop = {
        verb: (count - Counter(short.verbs())[verb]) / 10
        for verb, count in Counter(long.verbs()).items()
        if count != Counter(short.verbs())[verb]
    }
    writes = {verb: per_hop.pop(verb) for verb in ("lease", "succeed", "mark_ended", "claim")}
    assert writes == dict.fromkeys(writes, 1.0)
    assert per_hop.pop("send") == 1.0
    reads = {verb: per_hop.pop(verb) for verb in ("look", "read")}
    assert reads == {"look": 1.0, "read": 2.0}  # its row; its pipeline's at its start, and at its end
    assert per_hop == {"receive": 1.0, "erase": 1.0, "revisions": 1.0}  # as of any run


def test_a_fan_in_reads_nothing_more_for_each_task_before_it(line: Line) -> None:
    few, many = (
        calls_of_a_run(line, {f"t{n}": {"job": "ok"} for n in range(size)} | {"last": _last(size)}) for size in (10, 60)
    )
    per_task = {
        verb: (many.verbs().count(verb) - few.verbs().count(verb)) / 50 for verb in ("mark_ended", "read", "ended")
    }
    assert per_task == {"mark_ended": 1.0, "read": 2.0, "ended": 0.0}


def _last(size: int) -> dict[str, Any]:
    return {"job": "ok", "after": [f"t{n}" for n in range(size)]}


@pytest.mark.parametrize("size", [10, 90])
def test_a_look_of_the_timer(line: Line, size: int) -> None:
    """It reads the run, the marks, and the rows of tasks that have begun and not ended; it writes where it looks next."""
    line.world.jobs.job("waits")(lambda ctx, payload: ctx.wait_for("go"))
    line.publish(chain(size) | {"w": {"job": "waits"}})
    line.world.scheduler.trigger("p")
    line.world.work()
    line.world.wait(60)
    seen = Faults()
    with counted() as units:
        line.world.tick(line.world.process(seen))
    verbs = Counter(detail.verb for operation, detail in seen.calls if detail.place == "runs" and operation in READS)
    assert verbs["ended"] == 1
    assert verbs["look"] <= 2
    assert units.get("runs", 0) == 0
    assert units["agenda"] == 2 + 4  # the ticker's lock; the timers of the pipeline and of the task move on


def test_many_failures_close_what_could_start_about_once(line: Line) -> None:
    size = 60
    line.broken |= {f"t{n}" for n in range(size)}
    seen = calls_of_a_run(line, {f"t{n}": {"job": "ok"} for n in range(size)} | {"last": _last(size)})
    claims = sum(len(detail.items) for _, detail in seen.calls if detail.verb == "claim")
    assert size <= claims < 3 * size


# Size.


class Mortal(Hook):
    """A process that dies at its call of that number, before or after it."""

    def __init__(self, number: int) -> None:
        self.left = number

    def before_call(self, operation: str, detail: Detail) -> tuple[()]:
        self._count()
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Crash


def wide(size: int) -> dict[str, Any]:
    return {
        "first": {"job": "ok"},
        **{f"t{n}": {"job": "ok", "after": ["first"]} for n in range(size)},
        "last": _last(size),
    }


@in_rotation(of=6)
def test_a_fan_out_of_a_thousand_is_complete_each_once_after_20_kills(line: Line) -> None:
    size, kills = 998, 20
    line.publish(wide(size))
    run = line.world.scheduler.trigger("p")
    dice, excused, died = Random(1), set[str](), 0
    while died < kills:
        before, process = len(line.ran), Mortal(dice.randint(0, 60))
        try:
            Hand(worker=line.world.worker(process), together=True).work()
        except Crash:
            died += 1
            excused |= {*line.ran[before:]}
    line.world.live(3_600)
    seen = line.seen(run)
    assert (died, seen.run.state, seen.run.result["succeeded"]) == (kills, "SUCCEEDED", size + 2)
    twice = {task for task, count in Counter(line.ran).items() if count > 1}
    assert twice <= excused
    assert len({*line.ran}) == size + 2
    assert line.ran[-1] == "last"


@in_rotation(of=6)
def test_a_definition_changes_100_times_while_100_runs_go(line: Line) -> None:
    """Each run has the tasks of its revision, and so has a replay of it."""
    runs = list[tuple[str, int]]()
    for number in range(100):
        line.publish({"a": {"job": "ok"}, f"b{number}": {"job": "ok", "after": ["a"]}})
        runs.append((line.world.scheduler.trigger("p").id, number))
        if number % 3 == 0:
            Hand(worker=line.world.worker()).work()
    line.world.live(120)
    for run_id, number in runs:
        seen = line.world.scheduler.pipeline_run(run_id)
        assert (seen.run.state, seen.revision) == ("SUCCEEDED", number + 1)
        assert [task.name for task in seen.tasks] == ["a", f"b{number}"]
    assert Counter(line.ran) == {"a": 100, **{f"b{number}": 1 for number in range(100)}}
    again = [line.world.scheduler.replay_run(run_id).id for run_id, _ in runs[::10]]
    line.world.live(60)
    assert [line.world.scheduler.pipeline_run(run_id).revision for run_id in again] == [
        n + 1 for n in range(0, 100, 10)
    ]
    assert Counter(line.ran) == {"a": 110, **{f"b{n}": 1 + (n % 10 == 0) for n in range(100)}}
