"""The jobs that every worker knows: that of a pipeline's runs, and that of a task that maps a job over items."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from quarterjack.domain.job import Context, Job
from quarterjack.domain.names import MAP, PIPELINE
from quarterjack.domain.policies import Policies, Retry
from quarterjack.errors import ChildFailed, InvalidInput, Permanent

_POLICIES = Policies(retry=Retry(max_attempts=100, cap=60.0))  # what fails for good is a task, and that is permanent


class PipelineFailed(Permanent):
    """Tasks of a pipeline have failed."""


@lru_cache(maxsize=1024)
def builtin_job(name: str) -> Job | None:
    """The job of that name, if it is of the scheduler itself."""
    if name.startswith(PIPELINE):
        return Job(name=name, function=_run_pipeline, policies=_POLICIES)
    if name.startswith(MAP):
        return Job(name=name, function=_map, policies=_POLICIES)
    return None


def _run_pipeline(ctx: Context, payload: Any) -> Any:
    """Wait for the tasks, which other processes start; called again, tell how they have ended."""
    del payload  # it is for the tasks
    waits: Any = ctx.effects.waits
    ended = waits.tasks()
    if ended["problems"]:
        raise PipelineFailed("; ".join(ended["problems"]))
    return ended["counts"]


def _map(ctx: Context, payload: Any) -> Any:
    """Run the job once for each item; the results in the order of the items. What fails would fail again: items have their own retries."""
    items = payload["items"]
    if not isinstance(items, list):
        raise Permanent(f"its items are no list, but {type(items).__name__}")
    try:
        return list(ctx.map(ctx.job.removeprefix(MAP), items, at_a_time=payload["at_a_time"]))
    except (ChildFailed, InvalidInput) as problem:
        raise Permanent(str(problem)) from problem
