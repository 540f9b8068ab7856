"""Return values of the SDK about pipelines, with aware datetimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from quarterjack.sdk.views import Run

WAITING = "WAITING"  # of a task that has no run yet


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """A task in one run of its pipeline."""

    name: str  # unique in its pipeline
    number: int  # its place, from 1: each task comes after those that it waits for
    job: str  # name of its job; of a task that runs a pipeline "pipeline:<name>", of one that maps a job "map:<job>"
    after: Sequence[str]  # tasks that end before it starts
    state: str  # of its run, SKIPPED, or "WAITING" before it has one
    run_id: str | None  # of its run; of a task that an earlier run of the pipeline did, of that one's
    reason: str | None = None  # why it is in this state, or the error of its run
    waits_for: Sequence[str] = ()  # while WAITING: tasks that have not ended
    attempt: int = 0  # attempts started
    queued_at: datetime | None = None  # UTC: when it could start
    started_at: datetime | None = None  # UTC, of the first attempt
    ended_at: datetime | None = None  # UTC
    optional: bool = False  # whether its failure counts as its end
    join: str = "all"  # when it starts by the ends of ``after``: "all", "any", "none_failed" or "done"
    when: str | None = None  # its condition; None: it has none, or the caller may not read-payloads

    @property
    def duration(self) -> timedelta | None:
        """From its first start to its end; None before that."""
        return None if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at


@dataclass(frozen=True, kw_only=True)
class PipelineRun:
    """The run of a pipeline, with its tasks."""

    run: Run  # its run
    pipeline: str  # its name
    revision: int  # number of the revision whose tasks it has
    tasks: Sequence[TaskRun]  # each behind those that it comes after
    on_task_failure: str  # "halt" or "continue"

    @property
    def critical_path(self) -> Sequence[str]:
        """The tasks that its end waited for: back from the one that ended last, each time to the last end before it.

        Without those that were skipped, and those that an earlier run did.
        """
        last_before: dict[str, TaskRun | None] = {}  # of each task, past those that did not run
        ran: dict[str, TaskRun] = {}
        for task in self.tasks:
            found = [ran.get(name) or last_before[name] for name in task.after]
            last_before[task.name] = max((one for one in found if one is not None), key=_end, default=None)
            if task.state != "SKIPPED" and task.ended_at is not None and not self._is_of_earlier_run(task.ended_at):
                ran[task.name] = task
        last, path = max(ran.values(), key=_end, default=None), list[str]()
        while last is not None:
            path.append(last.name)
            last = last_before[last.name]
        return path[::-1]

    def _is_of_earlier_run(self, ended_at: datetime) -> bool:
        return self.run.created_at is not None and ended_at < self.run.created_at

    def task(self, name: str) -> TaskRun:
        """The task of that name. Raises KeyError."""
        return {task.name: task for task in self.tasks}[name]


def _end(task: TaskRun) -> tuple[datetime, int]:
    assert task.ended_at is not None, "it has ended"
    return task.ended_at, task.number
