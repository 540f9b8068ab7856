"""The run of a pipeline with the revision that it has, and how its tasks have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quarterjack.domain.names import RunRef, schedule_owner
from quarterjack.domain.options import OnTaskFailure
from quarterjack.domain.pipelines.graph import Graph
from quarterjack.domain.pipelines.reading import graph_of
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Definition, ScheduleState
from quarterjack.errors import NotFound
from quarterjack.ports.services import Services
from quarterjack.state.pipelines.decide import (
    BROKEN,
    End,
    counted,
    decide,
    ref_by_mark,
    task_ref,
)
from quarterjack.state.waits.park import pipeline_of, tasks_text

_PROBLEM = 300  # characters of the reason why a task could not be made
_NAMED = 5  # tasks that the failure of a pipeline names


@dataclass(frozen=True)
class PipelineRow:
    """The run of a pipeline, with the revision that it has."""

    run: RunRow
    name: str
    revision: int
    definition: Definition

    @cached_property
    def graph(self) -> Graph:
        """Its tasks."""
        options = self.definition.options
        return graph_of(options.tasks or "{}", halts=options.on_task_failure is OnTaskFailure.HALT)

    def ref(self, number: int) -> RunRef:
        """The key of the run of a task."""
        return task_ref(self.run.ref, self.name, self.graph.task(number).name)

    def refs(self, services: Services, marks: Mapping[int, str] | None = None) -> dict[int, RunRef]:
        """The keys of the runs of all tasks, by number; ``marks``: if they were read. Raises Unavailable."""
        marks = self.marks(services) if marks is None else marks
        return {
            number: ref_by_mark(self.run.ref, self.name, task.name, marks.get(number, " "))
            for number, task in enumerate(self.graph.tasks, 1)
        }

    def marks(self, services: Services) -> dict[int, str]:
        """The marks of the tasks that have ended, by number. Raises Unavailable."""
        return dict(services.waits.ends(self.run.ref, range(1, len(self.graph.tasks) + 1)))


def read_pipeline(run: RunRow, services: Services) -> PipelineRow | None:
    """The pipeline of a run that waits for its tasks, or has waited; None: it is none. Raises NotFound, Unavailable."""
    found = pipeline_of(run)
    if found is None:
        return None
    name, revision = found
    definition = services.schedules.definitions.of(schedule_owner(run.ref.tenant, name), revision)
    return PipelineRow(run, name, revision, definition)


def awaited_by(tenant: str, name: str, services: Services) -> str:
    """What a run of a pipeline awaits that is made now: its revision is the current one from here on. Raises NotFound, Unavailable."""
    head = services.schedules.head(tenant, name)
    if head is None or head.state is ScheduleState.DELETED:
        raise NotFound(f"pipeline {name!r} does not exist")
    if services.schedules.definitions.of(head.owner, head.revision).options.tasks is None:
        raise NotFound(f"{name!r} is a schedule, and no pipeline")
    return tasks_text(name, head.revision)


def ends_of_tasks(run: RunRow, services: Services) -> Mapping[str, Any]:
    """How the tasks of a pipeline have ended: ``is_over``, ``counts`` by how they did, and ``problems`` in words, if the pipeline fails.

    Raises Unavailable.
    """
    pipeline = read_pipeline(run, services)
    if pipeline is None:
        return {"is_over": False}
    marks = pipeline.marks(services)
    decision = decide(pipeline.graph, marks)
    failed = [number for number, end in decision.ends.items() if end is End.FAILED]
    return {
        "is_over": decision.is_over,
        "counts": counted(pipeline.graph, marks),
        "problems": _problems(pipeline, failed[:_NAMED], marks, services),
    }


def _problems(pipeline: PipelineRow, numbers: Sequence[int], marks: Mapping[int, str], services: Services) -> list[str]:
    """In words why tasks have failed."""
    looked = services.ledger.look([pipeline.ref(number) for number in numbers]) if numbers else None
    found = list[str]()
    for number in numbers:
        run = None if looked is None else looked.found.get(pipeline.ref(number))
        mark = marks.get(number, BROKEN)
        why = mark[1:] or "its run is gone"
        if run is not None and mark[0] != BROKEN:
            error = run.reason if run.failure is None else f"{run.failure.kind}: {run.failure.message}"
            why = f"{run.state}" + (f", {error}" if error else "")
        found.append(f"task {pipeline.graph.task(number).name}: {why}"[:_PROBLEM])
    return found
