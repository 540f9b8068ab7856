"""How each task of a pipeline did in its last runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import median_low

from quarterjack.domain.run import FAILED
from quarterjack.sdk.pipelines.views import PipelineRun, TaskRun

_FAILED = frozenset(map(str, FAILED))


@dataclass(frozen=True, kw_only=True)
class TaskStats:
    """A task over the last runs of its pipeline."""

    name: str  # unique in its pipeline
    job: str  # name of its job, in the newest run that has the task
    states: Mapping[str, int]  # number of runs by the task's state in it, as ``TaskRun.state``
    attempts: int  # started in all of these runs
    median_duration: timedelta | None = None  # from first start to end, of the runs in which it ended; None: in none
    longest_duration: timedelta | None = None  # the same
    median_wait: timedelta | None = (
        None  # from the time at which it could start to its first start; None: it never started
    )
    last_failed: str | None = None  # id of the newest run of the pipeline in which it failed


def task_stats(runs: Sequence[PipelineRun]) -> list[TaskStats]:
    """Statistics of the tasks of runs that are sorted newest first: those of the newest run first, in its order."""
    found = dict[str, list[tuple[PipelineRun, TaskRun]]]()
    for run in runs:
        for task in run.tasks:
            found.setdefault(task.name, []).append((run, task))
    return [_of_task(name, of) for name, of in found.items()]


def _of_task(name: str, of: Sequence[tuple[PipelineRun, TaskRun]]) -> TaskStats:
    tasks = [task for _, task in of]
    took = sorted(task.duration for task in tasks if task.duration is not None)
    waited = [
        task.started_at - task.queued_at for task in tasks if task.started_at is not None and task.queued_at is not None
    ]
    return TaskStats(
        name=name,
        job=tasks[0].job,
        states=dict(sorted(Counter(task.state for task in tasks).items())),
        attempts=sum(task.attempt for task in tasks),
        median_duration=median_low(took) if took else None,
        longest_duration=took[-1] if took else None,
        median_wait=max(median_low(waited), timedelta()) if waited else None,
        last_failed=next((run.run.id for run, task in of if task.state in _FAILED), None),
    )
