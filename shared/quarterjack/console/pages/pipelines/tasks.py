"""The tasks of a pipeline's run: the graph with the state of each, and a table that says what each waits for.

The page of the run shows them, a line of a list opens them, and the page of a pipeline's schedule shows the graph without states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from quarterjack.console.calls import PageCall, Part, get, part, run_of, schedule_of
from quarterjack.console.pages.pipelines.drawing import GraphBox, drawn, is_drawn
from quarterjack.console.words import QUIET, duration, look
from quarterjack.domain.names import PIPELINE
from quarterjack.domain.run import FAILED, RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.sdk.pipelines.views import WAITING, PipelineRun, TaskRun
from quarterjack.sdk.views import Run

_FAILED = frozenset({*map(str, FAILED), str(RunState.CANCELLED)})
_NAMED = 3  # tasks that a line of the table names as those it waits for


@dataclass(frozen=True)
class ShownTasks:
    """The tasks of a run, ready for the template."""

    seen: PipelineRun
    graph: Markup | None  # None: it is too large to be drawn
    skippable: frozenset[str]  # tasks that the actor may skip


def is_pipeline(run: Run) -> bool:
    """Whether a run is that of a pipeline."""
    return run.job.startswith(PIPELINE)


def tasks_of(call: PageCall, run: Run) -> Part | None:
    """The tasks of a run; None: it is no pipeline's."""
    return part(lambda: _shown(call, run)) if is_pipeline(run) else None


def graph_of(tasks: Mapping[str, Any] | None) -> Markup | None:
    """The graph of a definition, with the job of each task; None: it has no tasks, or too many."""
    nodes = [
        GraphBox(name=name, after=words.get("after", ()), look=QUIET, detail=_runs(words))
        for name, words in (tasks or {}).items()
    ]
    return drawn(nodes) if nodes and is_drawn(nodes) else None


def _runs(words: Mapping[str, Any]) -> str:
    if "pipeline" in words:
        return f"{PIPELINE}{words['pipeline']}"
    return f"{words['job']} for each" if "map" in words else str(words["job"])


def unstarted(seen: PipelineRun) -> Sequence[TaskRun]:
    """Tasks that may be skipped."""
    return [task for task in seen.tasks if task.state == WAITING]


def failed(seen: PipelineRun) -> Sequence[TaskRun]:
    """Tasks that a retry may pass over."""
    return [task for task in seen.tasks if task.state in _FAILED]


def waits_for(task: TaskRun) -> str:
    """The tasks that a task waits for, in words."""
    more = len(task.waits_for) - _NAMED
    return ", ".join([*task.waits_for[:_NAMED], *([f"{more} more"] if more > 0 else [])])


def _shown(call: PageCall, run: Run) -> ShownTasks:
    seen = call.scheduler.pipeline_run(run.id)
    critical = seen.critical_path
    nodes = [_drawn(call, task) for task in seen.tasks]
    may_skip = run.ended_at is None and call.may(Verb.SKIP, run.job)
    return ShownTasks(
        seen=seen,
        graph=drawn(nodes, critical) if is_drawn(nodes) else None,
        skippable=frozenset(task.name for task in unstarted(seen)) if may_skip else frozenset(),
    )


def _drawn(call: PageCall, task: TaskRun) -> GraphBox:
    state = task.state.lower()
    return GraphBox(
        name=task.name,
        after=task.after,
        look=look(task.state),
        detail=state if task.duration is None else f"{state}, {duration(task.duration)}",
        address=None if task.run_id is None else call.of_run(task.run_id),
    )


def show_tasks(call: PageCall) -> Response:
    """The tasks of a run by themselves: what a line of a list opens."""
    run = call.scheduler.get_run(run_of(call))
    return call.render("pipelines/tasks.html", run=run, tasks=tasks_of(call, run), waits_for=waits_for)


def show_task_stats(call: PageCall) -> Response:
    """How each task of a pipeline did in its last runs."""
    name = schedule_of(call)
    stats = call.scheduler.task_stats(name)
    runs = max((sum(task.states.values()) for task in stats), default=0)
    return call.render("pipelines/task_stats.html", name=name, stats=stats, runs=runs)


ROUTES = (get("/run/{run}/tasks", show_tasks), get("/schedule/{name}/task-stats", show_task_stats))
