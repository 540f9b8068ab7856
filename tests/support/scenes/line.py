"""A world with a pipeline whose jobs note their tasks, and fail or wait as told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quarterjack import Retry, Run
from quarterjack.sdk.pipelines.views import PipelineRun

from tests.support.scenes.world import World

ONCE = Retry(max_attempts=1)
DIAMOND: Mapping[str, Any] = {
    "a": {"job": "ok"},
    "b": {"job": "ok", "after": ["a"]},
    "c": {"job": "ok", "after": ["a"]},
    "d": {"job": "ok", "after": ["b", "c"]},
}


class Line:
    """A world whose jobs note their tasks, and fail or wait as told."""

    def __init__(self) -> None:
        self.world = World()
        self.ran: list[str] = []
        self.payloads: dict[str, Any] = {}
        self.results: dict[str, Any] = {}
        self.broken: set[str] = set()
        self.during: dict[str, Callable[[], object]] = {}
        self.world.jobs.job("ok", retry=ONCE)(self._job)
        self.world.jobs.job("again", retry=Retry(max_attempts=5, base=100.0, jitter=0.0))(self._fails_at_first)
        self.world.jobs.job("twice", retry=Retry(max_attempts=2, base=1.0, jitter=0.0))(self._job)

    def _job(self, ctx: Any, payload: Any) -> Any:
        task = ctx.run_id.split(":")[-1].removesuffix("#once")
        self.ran.append(task)
        self.payloads[task] = payload
        if task in self.during:
            self.during.pop(task)()
        if task in self.broken:
            raise RuntimeError(f"{task} is broken")
        return self.results.get(task)

    def _fails_at_first(self, ctx: Any, payload: Any) -> Any:
        self._job(ctx, payload)
        if ctx.attempt == 1:
            raise RuntimeError("not this time")

    def publish(self, tasks: Mapping[str, Any], **words: Any) -> None:
        self.world.scheduler.upsert_schedule("p", "pipeline:p", "manual", tasks=tasks, **words)

    def run(self, seconds: float = 60, **given: Any) -> PipelineRun:
        run = self.world.scheduler.trigger("p", **given)
        self.world.live(seconds)
        return self.seen(run)

    def seen(self, run: Run | PipelineRun) -> PipelineRun:
        return self.world.scheduler.pipeline_run(run.id if isinstance(run, Run) else run.run.id)

    def states(self, run: PipelineRun) -> dict[str, str]:
        return {task.name: task.state for task in run.tasks}
