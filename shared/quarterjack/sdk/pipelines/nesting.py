"""How deep a pipeline's tasks that run pipelines go, by what these are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quarterjack.domain.names import PIPELINE
from quarterjack.domain.pipelines.graph import DEEPEST, Graph
from quarterjack.domain.pipelines.reading import graph_of
from quarterjack.domain.schedule import ScheduleState
from quarterjack.errors import InvalidInput
from quarterjack.sdk.session import Session
from quarterjack.stores.schedules import ScheduleStore


def check_nesting(job: str, graph: Graph, tenant: str, session: Session) -> None:
    """Refuse a pipeline that is within itself, or has others within each other too deep; warn of a task whose pipeline does not exist.

    Raises InvalidInput, Unavailable.

    It makes a request for each depth, and one for each pipeline whose definition this process has not read; none if no task runs a
    pipeline. What changes afterwards fails the task when it would start.
    """
    name, within, schedules = job.removeprefix(PIPELINE), _pipelines_of(graph), session.services.schedules
    for depth in range(DEEPEST - 1):
        if name in within:
            problem, remedy = "is this pipeline, or has it within", "leave the task out: it would start itself again"
            raise _refusal(graph, within[name], problem, remedy)
        graphs = _graphs(within, tenant, schedules)
        if not depth:
            _warn_of(within, graphs, session)
        within = {inner: within[outer] for outer, each in graphs.items() for inner in _pipelines_of(each)}
    for task in within.values():
        problem = f"has pipelines within each other: with this one they are more than {DEEPEST} deep"
        raise _refusal(graph, task, problem, "give the tasks of one of them to this pipeline")


def _refusal(graph: Graph, task: str, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"tasks.{task}.pipeline", graph.task(graph.numbers[task]).pipeline, problem, remedy)


def _warn_of(within: Mapping[str, str], graphs: Mapping[str, Graph], session: Session) -> None:
    """Warn, also if ``strict``: of pipelines that are published one after the other the outer one may be the first."""
    for name, task in within.items():
        if name not in graphs and name not in session.coming:
            problem = f"tasks.{task}.pipeline={name!r}: there is no pipeline of that name"
            session.on_unknown(f"{problem}: the task fails unless it is published before the task starts")


def _graphs(names: Iterable[str], tenant: str, schedules: ScheduleStore) -> dict[str, Graph]:
    """Those of the pipelines of these names that exist."""
    found = dict[str, Graph]()
    for head in schedules.heads((tenant, name) for name in names):
        if head.state is not ScheduleState.DELETED:
            tasks = schedules.definitions.of(head.owner, head.revision).options.tasks
            found |= {} if tasks is None else {head.name: graph_of(tasks, halts=True)}
    return found


def _pipelines_of(graph: Graph) -> dict[str, str]:
    """The pipelines that tasks run, each with the name of such a task."""
    return {task.pipeline: task.name for task in graph.tasks if task.pipeline is not None}
