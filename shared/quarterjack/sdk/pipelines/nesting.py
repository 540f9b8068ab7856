"""How deep a pipeline's tasks that run pipelines go, by what these are now."""

from __future__ import annotations

from collections.abc import Mapping

from quarterjack.domain.names import PIPELINE
from quarterjack.domain.pipelines.graph import DEEPEST, Graph
from quarterjack.domain.pipelines.reading import graph_of
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import InvalidInput
from quarterjack.stores.schedules import ScheduleStore


def check_nesting(job: str, graph: Graph, tenant: str, schedules: ScheduleStore) -> None:
    """Refuse a pipeline that is within itself, or has others within each other too deep. Raises InvalidInput, Unavailable.

    It makes a request for each depth, and one for each pipeline whose definition this process has not read; none if no task runs a
    pipeline. What changes afterwards fails the task when it would start.
    """
    name, within = job.removeprefix(PIPELINE), _pipelines_of(graph)
    for _ in range(DEEPEST - 1):
        if name in within:
            problem, remedy = "is this pipeline, or has it within", "leave the task out: it would start itself again"
            raise _refusal(graph, within[name], problem, remedy)
        within = _below(within, tenant, schedules) if within else {}
    for task in within.values():
        problem = f"has pipelines within each other: with this one they are more than {DEEPEST} deep"
        raise _refusal(graph, task, problem, "give the tasks of one of them to this pipeline")


def _refusal(graph: Graph, task: str, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"tasks.{task}.pipeline", graph.task(graph.numbers[task]).pipeline, problem, remedy)


def _below(within: Mapping[str, str], tenant: str, schedules: ScheduleStore) -> dict[str, str]:
    """The pipelines that tasks of these run, each with a task of the outermost that leads to it."""
    found = dict[str, str]()
    for head in schedules.heads((tenant, name) for name in within):
        if head.state is ScheduleState.DELETED:
            continue
        tasks = schedules.definitions.of(head.owner, head.revision).options.tasks
        if tasks is not None:
            found |= dict.fromkeys(_pipelines_of(graph_of(tasks, halts=True)), within[head.name])
    return found


def _pipelines_of(graph: Graph) -> dict[str, str]:
    """The pipelines that tasks run, each with the name of such a task."""
    return {task.pipeline: task.name for task in graph.tasks if task.pipeline is not None}
