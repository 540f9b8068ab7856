"""The view of a pipeline's run from its rows."""

from __future__ import annotations

from datetime import datetime

from quarterjack.domain.run import RunRow, RunState
from quarterjack.domain.times import from_ms
from quarterjack.owner.runs.pipelines import PipelineState
from quarterjack.sdk.caller_access import CallerAccess, masked_run
from quarterjack.sdk.pipelines.views import WAITING, PipelineRun, TaskRun
from quarterjack.sdk.views import Run
from quarterjack.state.pipelines.decide import BROKEN, PASSED_OVER, SKIPPED_BY_CONDITION, End
from quarterjack.values import replace


def pipeline_run(run: Run, state: PipelineState) -> PipelineRun:
    """The view of a pipeline's run."""
    pipeline = state.pipeline
    return PipelineRun(
        run=run,
        pipeline=pipeline.name,
        revision=pipeline.revision,
        tasks=[_task(state, number) for number in range(1, len(pipeline.graph.tasks) + 1)],
        on_task_failure=str(pipeline.definition.options.on_task_failure),
    )


def masked_state(state: PipelineState, access: CallerAccess) -> PipelineState:
    """The state without conditions, payloads and texts of errors of the tasks whose job's payloads the caller may not read.

    Without those of the pipeline it is without those of all tasks: they are made from each other's results.
    """
    tasks = dict(enumerate(state.pipeline.graph.tasks, 1))
    is_open = access.may_read_payloads(state.pipeline.run.job)
    hidden = {number for number, task in tasks.items() if not (is_open and access.may_read_task(task.runs))}
    if not hidden:
        return state
    return replace(
        state,
        marks={
            number: mark[:1] if number in hidden and mark[0] == BROKEN else mark for number, mark in state.marks.items()
        },
        rows={number: masked_run(row) if number in hidden else row for number, row in state.rows.items()},
        hidden=hidden,
    )


def _task(state: PipelineState, number: int) -> TaskRun:
    graph, masked = state.pipeline.graph, number in state.hidden
    task, row = graph.task(number), state.rows.get(number)
    end, mark = state.decision.ends.get(number), state.marks.get(number, " ")
    over = state.pipeline.run.state if state.pipeline.run.is_terminal else None
    name, reason = (WAITING, None) if end is None and over is None else (str(RunState.SKIPPED), _why(mark, end, over))
    if mark[0] == BROKEN:
        name, reason = str(RunState.DEAD), None if masked else mark[1:]
    elif row is not None:
        name, reason = str(row.state), _reason(row, masked=masked)
    left = [graph.task(before).name for before in graph.edges[number - 1] if before not in state.decision.ends]
    return TaskRun(
        name=task.name,
        number=number,
        job=task.runs,
        after=task.after,
        state=name,
        run_id=None if row is None else str(row.ref),
        reason=reason,
        waits_for=left if name == WAITING else (),
        attempt=0 if row is None else row.attempt,
        queued_at=None if row is None else from_ms(row.created_at),
        started_at=_at(None if row is None else row.started_at),
        ended_at=_at(None if row is None else row.ended_at),
        optional=task.optional,
        join=str(task.join),
        when=None if masked else task.when,
    )


def _why(mark: str, end: End | None, over: RunState | None) -> str | None:
    """Why a task without a run has ended; ``over``: how the run of its pipeline has."""
    if end is None:
        return f"not started: the run of its pipeline is {over}"
    if mark[0] == SKIPPED_BY_CONDITION:
        return "its condition did not hold"
    if mark[0] == PASSED_OVER:
        return "skipped by its owner"
    return "tasks before it did not end as it asks" if end is End.SKIPPED else None


def _reason(row: RunRow, *, masked: bool) -> str | None:
    if row.failure is None:
        return "asked to end" if row.cancel_requested and not row.is_terminal else row.reason
    return row.failure.kind if masked else f"{row.failure.kind}: {row.failure.message}"


def _at(ms: int | None) -> datetime | None:
    return None if ms is None else from_ms(ms)
