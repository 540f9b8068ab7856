"""Tasks of a pipeline: what its run waits for, why a task has no run yet or never gets one, and why it was not started."""

from __future__ import annotations

from collections.abc import Iterator

from quarterjack.domain.pipelines.graph import Join
from quarterjack.domain.run import RunRow, RunState
from quarterjack.owner.runs.pipelines import PipelineState
from quarterjack.state.pipelines.decide import HALTED, NOT_HELD, NOT_MADE, PASSED_OVER, End, task_of
from quarterjack.why.answer import Cause, Sentence, Verdict, count, show
from quarterjack.why.facts import Facts, of_run
from quarterjack.why.no_run import Judgement

_NOT_MADE = NOT_MADE.rstrip(": ")  # of a caller who may not read the problem
_SHOWN = 5  # tasks that are named
_ASKS = {
    Join.ALL: "all tasks before it have to succeed",
    Join.ANY: "one of the tasks before it has to succeed",
    Join.NONE_FAILED: "no task before it may fail, or be skipped since one has failed",
}
_ENDED = {RunState.CANCELLED: Verdict.CANCELLED, RunState.EXPIRED: Verdict.EXPIRED}


def left_of(state: PipelineState) -> str:
    """The number of tasks that have not ended, and of all: ``2 of 5 tasks``."""
    size = len(state.pipeline.graph.tasks)
    return f"{size - len(state.decision.ends):,} of {count(size, 'task')}"


def of_tasks(state: PipelineState) -> Iterator[Sentence]:
    """The tasks that a parked run waits for: first those that have a run."""
    run = state.pipeline.run
    left = [number for number in range(1, len(state.pipeline.graph.tasks) + 1) if number not in state.decision.ends]
    left.sort(key=lambda number: number not in state.rows)
    for number in left[:_SHOWN]:
        yield _under_way(state, number) if number in state.rows else of_run(run, _not_begun(state, number))
    if len(left) > _SHOWN:
        yield of_run(run, f"{len(left) - _SHOWN:,} more of its tasks have not ended.")
    if left:
        yield from _halt(state)
    else:
        yield of_run(run, "All of them have ended: it goes on within an hour, at the next check of its timer.")


def without_task_run(state: PipelineState, number: int) -> Judgement:
    """The judgement about a task that has no run."""
    run, mark = state.pipeline.run, state.marks.get(number, " ")
    if mark[0] == PASSED_OVER:
        return Verdict.SKIPPED, [of_run(run, f"{_task(state, number)} was skipped by its owner.", Cause.OWNER)]
    if mark != " ":
        text = f"{_task(state, number)} ended in an earlier run of the pipeline, and its row has left the ledger."
        return Verdict.GONE, [of_run(run, text, Cause.RETENTION)]
    if run.state in _ENDED:
        text = f"{_task(state, number)} never starts: the run of its pipeline is {run.state} since {show(run.ended_at or 0)}."
        return _ENDED[run.state], [of_run(run, text)]
    if number in state.decision.ends:
        return Verdict.SKIPPED, [of_run(run, _against_its_join(state, number), Cause.FAILURE)]
    if run.awaits is None or run.started_at is None:
        text = f"{_task(state, number)} waits: the run of its pipeline is {run.state}, and has not begun."
        return Verdict.WAITING, [of_run(run, text)]
    halted = [*_halt(state)]
    return Verdict.SKIPPED if halted else Verdict.WAITING, [*halted, *_waits(state, number)]


def skipped_task(facts: Facts, run: RunRow) -> Judgement | None:
    """The judgement about a task that has a run which was not started; None: that was for another reason."""
    reason, ended, state = run.reason or "", show(run.ended_at or 0), facts.pipeline
    if task_of(run) is None:
        return None
    if reason.startswith(_NOT_MADE):
        problem = f": {reason.removeprefix(NOT_MADE)}" if reason != _NOT_MADE else ""
        text = f"It failed before its start at {ended}, since its payload or its condition could not be made{problem}."
        return Verdict.DEAD, [of_run(run, text, Cause.FAILURE)]
    if reason == NOT_HELD:
        number = run.child_no or 0
        when = None if state is None or number in state.hidden else state.pipeline.graph.task(number).when
        text = f"It was skipped at {ended}: its condition did not hold" + ("." if when is None else f": {when}.")
        return Verdict.SKIPPED, [of_run(run, text)]
    if reason == HALTED:
        halted = [] if state is None else [*_halt(state)]
        return Verdict.SKIPPED, [of_run(run, f"It was not started, since {ended}: its pipeline is halted."), *halted]
    return None


def of_pipeline(run: RunRow) -> Iterator[Sentence]:
    """To which run of which pipeline a task belongs."""
    found = task_of(run)
    if found is not None:
        yield of_run(run, f"It is task {found[1]!r} of pipeline {found[0]!r}, of run {run.parent}.")


def _halt(state: PipelineState) -> Iterator[Sentence]:
    """That no task starts any more, and because of which."""
    graph = state.pipeline.graph
    failed = [number for number, end in state.decision.ends.items() if end is End.FAILED]
    if not graph.halts or not failed:
        return
    text = f"No task starts any more, because {_how_ended(state, failed[0])}"
    more = f", and {len(failed) - 1} more failed" if len(failed) > 1 else ""
    yield of_run(state.pipeline.run, f"{text}{more}; on_task_failure is halt.", Cause.FAILURE)


def _waits(state: PipelineState, number: int) -> Iterator[Sentence]:
    """What a task without a run waits for."""
    run, name = state.pipeline.run, state.pipeline.graph.task(number).name
    before = [each for each in state.pipeline.graph.edges[number - 1] if each not in state.decision.ends]
    if not before:
        text = (
            f"Task {name!r} could start, and has no run: the process that ended the last task before it crashed or is about to start it. "
            "It starts at the next check of the pipeline's timer, within an hour."
        )
        yield of_run(run, text)
    for each in before[:_SHOWN]:
        other = state.pipeline.graph.task(each).name
        row = state.rows.get(each)
        what = f"which is {_state(row)}" if row is not None else _behind(state, each)
        yield of_run(run if row is None else row, f"Task {name!r} waits for {other}, {what}.")
    if len(before) > _SHOWN:
        yield of_run(run, f"It waits for {len(before) - _SHOWN:,} more tasks.")


def _names_before(state: PipelineState, number: int) -> str:
    """The tasks before one that have not ended; empty: all have."""
    graph = state.pipeline.graph
    return _names([graph.task(each).name for each in graph.edges[number - 1] if each not in state.decision.ends])


def _behind(state: PipelineState, number: int) -> str:
    left = _names_before(state, number)
    return f"which waits for {left}" if left else "which has no run yet"


def _not_begun(state: PipelineState, number: int) -> str:
    left = _names_before(state, number)
    return f"{_task(state, number)} {f'waits for {left}' if left else 'could start'}, and has no run yet."


def _under_way(state: PipelineState, number: int) -> Sentence:
    row = state.rows[number]
    return of_run(row, f"{_task(state, number)} is {_state(row)}.")


def _against_its_join(state: PipelineState, number: int) -> str:
    graph = state.pipeline.graph
    task = graph.task(number)
    ends = {each: state.decision.ends.get(each) for each in graph.edges[number - 1]}
    is_alone = (
        task.join is Join.NONE_FAILED and End.FAILED in ends.values()
    )  # what was skipped may be so by a condition
    wanted = (End.FAILED,) if is_alone else (End.FAILED, End.SKIPPED)
    found = [each for each, end in ends.items() if end in wanted]
    said = "; ".join(_how_ended(state, each) for each in found[:_SHOWN])
    return f"{_task(state, number)} never starts: {_ASKS.get(task.join, 'its join asks for more')}, and {said}."


def _how_ended(state: PipelineState, number: int) -> str:
    """How a task has ended, in words."""
    name, row, mark = state.pipeline.graph.task(number).name, state.rows.get(number), state.marks.get(number, " ")
    if row is None:
        return f"task {name!r} never started" if mark == " " else f"task {name!r} has failed"
    error = "" if row.failure is None else f", {row.failure.kind}: {row.failure.message}".removesuffix(": ")
    if row.state is RunState.SKIPPED and row.reason:
        error = f", {row.reason}".removesuffix(": ")
    return f"task {name!r} is {row.state}{error.removesuffix('.')}"


def _state(row: RunRow) -> str:
    """Its state, with the number of the attempt: of a run that waits for the next one that of the failed one."""
    if row.state is RunState.RETRYING:
        return f"{row.state}, after attempt {row.attempt}"
    if row.state is RunState.PARKED and row.reason:
        return f"{row.state} ({row.reason})"
    return str(row.state) if row.attempt < 2 else f"{row.state}, in attempt {row.attempt}"


def _task(state: PipelineState, number: int) -> str:
    return f"Task {state.pipeline.graph.task(number).name!r}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
