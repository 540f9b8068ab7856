"""What to start next: a pure function of the graph and of the marks of ended tasks. There is no counter to lose.

A mark is one letter for how a task ended (``state.waits.park.LETTERS``), or one of those below; a text may follow. Marks are only added,
so that two processes that see different marks never contradict each other: who sees fewer starts fewer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from quarterjack.domain.names import RunRef, one_off_ref, parse_run_id
from quarterjack.domain.pipelines.graph import Graph, Join, Task
from quarterjack.domain.run import FAILED, RunRow, RunState
from quarterjack.state.waits.park import LETTERS
from quarterjack.values import value

SKIPPED_BY_CONDITION = "W"  # its ``when`` did not hold
NOT_STARTED = "N"  # the pipeline halted before it began
PASSED_OVER = LETTERS[RunState.SKIPPED]  # an owner skipped it: when it would start, the tasks after it go on
BROKEN = "B"  # its payload or its condition could not be made; the reason follows
# The reasons of the SKIPPED runs of such tasks.
HALTED = "not started: a task of its pipeline has failed"
NOT_HELD = "its condition did not hold"
NOT_MADE = "cannot be made: "  # before the problem
_DIGEST = 16  # characters that tell the runs of a pipeline apart in the ids of its tasks' runs
_SUCCEEDED = LETTERS[RunState.SUCCEEDED]
_FAILED = frozenset({BROKEN, LETTERS[RunState.CANCELLED], *(LETTERS[state] for state in FAILED)})


class End(Enum):
    """How a task has ended, as the tasks after it see it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


@value(kw_only=True)
class NextTasks:
    """What follows from the ends of some tasks. Tasks are numbers from 1."""

    start: tuple[int, ...]  # they may start
    close: tuple[int, ...]  # they could start, had the pipeline not halted
    ends: Mapping[int, End]  # of all tasks that have ended or never start
    is_over: bool  # whether that is all of them


def end_of(task: Task, mark: str) -> End:
    """How a task ended by its mark."""
    letter = mark[0]
    if letter in _FAILED:
        return End.SUCCEEDED if task.optional else End.FAILED
    return End.SUCCEEDED if letter in (_SUCCEEDED, PASSED_OVER) else End.SKIPPED


def counted(graph: Graph, marks: Mapping[int, str]) -> dict[str, int]:
    """How many tasks of a pipeline that is over have succeeded, failed, optional ones included, and been skipped."""
    letters = [mark[0] for mark in marks.values()]
    succeeded, failed = letters.count(_SUCCEEDED), sum(letter in _FAILED for letter in letters)
    return {
        End.SUCCEEDED.value: succeeded,
        End.FAILED.value: failed,
        End.SKIPPED.value: len(graph.tasks) - succeeded - failed,
    }


def mark_of(run: RunRow) -> str:
    """The mark of a task that has ended, or never starts, by its run."""
    reason = run.reason or ""
    if run.state is RunState.SKIPPED and reason == HALTED:
        return NOT_STARTED
    if run.state is RunState.SKIPPED and reason == NOT_HELD:
        return SKIPPED_BY_CONDITION
    if run.state is RunState.SKIPPED and reason.startswith(NOT_MADE):
        return BROKEN + reason.removeprefix(NOT_MADE)
    return LETTERS[run.state]


def decide(graph: Graph, marks: Mapping[int, str]) -> NextTasks:
    """What follows from the marks of ended tasks, by number."""
    passed = {number for number, mark in marks.items() if mark[0] == PASSED_OVER}
    ends = {
        number: end_of(graph.task(number), mark)
        for number, mark in marks.items()
        if number <= len(graph.tasks) and number not in passed
    }
    halted = graph.halts and End.FAILED in ends.values()
    start, close = list[int](), list[int]()
    # As ``ends``, but FAILED for a task that never starts because one above it failed; without tasks of which that is open.
    causes = dict(ends)
    for number, before in enumerate(graph.edges, 1):  # each behind those it comes after
        if number in ends:
            continue
        join = graph.task(number).join
        seen = causes if join is Join.NONE_FAILED else ends
        verdict = _verdict(join, [seen.get(each) for each in before])
        if verdict is False:
            ends[number] = End.SKIPPED
            above = [causes.get(each) for each in before]
            if End.FAILED in above or None not in above:
                causes[number] = End.FAILED if End.FAILED in above else End.SKIPPED
        elif verdict and number in passed:  # not before its turn: what a task before it decides until then counts
            ends[number] = causes[number] = End.SUCCEEDED
        elif verdict:
            (close if halted else start).append(number)
    return NextTasks(start=tuple(start), close=tuple(close), ends=ends, is_over=len(ends) == len(graph.tasks))


def _verdict(join: Join, before: list[End | None]) -> bool | None:
    """Whether a task starts by the ends of those before it; None: that is open."""
    if not before:
        return True
    if join is Join.ANY and End.SUCCEEDED in before:
        return True
    if join is Join.ALL and (End.FAILED in before or End.SKIPPED in before):
        return False
    if join is Join.NONE_FAILED and End.FAILED in before:
        return False
    if None in before:
        return None
    return join is not Join.ANY


# Names.


def task_ref(run: RunRef, pipeline: str, task: str, digest: str | None = None) -> RunRef:
    """The key of a task's run, which follows from its pipeline's run: claimed again, it is the same. ``digest``: of an earlier run."""
    return one_off_ref(run.tenant, f"{pipeline}:{digest or digest_of(run)}:{task}")


@lru_cache(maxsize=1024)
def digest_of(run: RunRef) -> str:
    """What tells a pipeline's run from others in the ids of its tasks."""
    return hashlib.sha256(str(run).encode()).hexdigest()[:_DIGEST]


def task_of(run: RunRow) -> tuple[str, str] | None:
    """The pipeline and the task of a run; None: it is no task's."""
    if run.parent is None or not run.ref.is_one_off:
        return None
    pipeline, _, rest = run.ref.owner.partition("/~")[2].rpartition(f":{digest_of(parse_run_id(run.parent))}:")
    return (pipeline, rest) if pipeline else None


def ref_by_mark(run: RunRef, pipeline: str, task: str, mark: str) -> RunRef:
    """The run of a task: of this pipeline's run, or of the earlier one that it repeats, if the mark names that."""
    return task_ref(run, pipeline, task, None if mark[0] == BROKEN else mark[1:])


def inherited(graph: Graph, marks: Mapping[int, str], run: RunRef) -> dict[int, str]:
    """The marks with which a repeated run begins: of what has succeeded in ``run``, unless a task before it is not among them."""
    kept = dict[int, str]()
    for number, before in enumerate(graph.edges, 1):
        mark = marks.get(number)
        if mark is None or end_of(graph.task(number), mark) is not End.SUCCEEDED:
            continue
        if mark[0] == PASSED_OVER or all(each in kept for each in before):
            kept[number] = mark if mark[1:] or mark[0] == PASSED_OVER else f"{mark}{digest_of(run)}"
    return kept
