"""SDK methods for pipelines: publish one, look at a run's tasks, skip a task, repeat what did not succeed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quarterjack.domain.names import PIPELINE, check_name, check_whole, one_off_ref
from quarterjack.domain.run import RunRow
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.limits import RateWord
from quarterjack.errors import InvalidInput, NotFound, shorten
from quarterjack.sdk.pipelines.views import PipelineRun
from quarterjack.sdk.schedule_views import Schedule, Upserted
from quarterjack.sdk.schedules.changes import ScheduleMethods
from quarterjack.sdk.schedules.reading import ReadMethods
from quarterjack.sdk.views import Page, Run

if TYPE_CHECKING:
    from quarterjack.pipelines import Pipeline
    from quarterjack.sdk.pipelines.task_stats import TaskStats

MOST_RUNS = 100  # of task_stats
_RUNS, _TASK_RUNS = 20, 200  # of task_stats if its caller names no number: at most so many, with so many tasks together


class PipelineMethods(ReadMethods, ScheduleMethods):
    """Pipelines are schedules with tasks: pause, resume, trigger, update and delete them as such, by their names."""

    def upsert_pipeline(
        self, pipeline: Pipeline, *, managed_by: str | None = None, expected_revision: int | Schedule | None = None
    ) -> Upserted:
        """Create a pipeline, or update it to what is declared. Writes only differences, and each change makes a revision.

        Runs that have begun keep their revision. ``change`` is "created", "updated" or "unchanged". Raises as ``upsert_schedule``.

        >>> from datetime import UTC, datetime
        >>> from quarterjack import Registry, pipeline
        >>> from quarterjack.testing import Harness
        >>> jobs = Registry()
        >>> @jobs.job("orders.extract")
        ... def extract(ctx, payload):
        ...     return {"rows": 7}
        >>> @jobs.job("report.build")
        ... def build(ctx, payload):
        ...     return f"{payload['rows']} rows"
        >>> with pipeline("nightly", registry=jobs) as p:
        ...     orders = p.task(extract)
        ...     report = p.task(build, after=[orders], payload={"rows": orders.result["rows"]})
        >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
        >>> harness.scheduler.upsert_pipeline(p).change
        'created'
        >>> run = harness.scheduler.trigger("nightly")
        >>> _ = harness.advance(minutes=1)
        >>> [(task.name, task.state) for task in harness.scheduler.pipeline_run(run.id).tasks]
        [('orders.extract', 'SUCCEEDED'), ('report.build', 'SUCCEEDED')]
        """
        from quarterjack.pipelines import Pipeline as Declared  # noqa: PLC0415 (who has no pipeline does not load it)

        if not isinstance(pipeline, Declared):
            raise InvalidInput("pipeline", pipeline, "is no pipeline", "pass what `with pipeline(…) as p` gave: p")
        found = pipeline.declaration
        words: Any = vars(found.overrides) | found.options.as_dict()
        return self.upsert_schedule(
            pipeline.name,
            f"{PIPELINE}{pipeline.name}",
            found.rule,
            payload=json.loads(found.payload),
            description=found.description,
            tags=found.tags,
            managed_by=managed_by,
            expected_revision=expected_revision,
            **words,
        )

    def list_pipelines(
        self, *, prefix: str = "", next_fires: int = 0, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """The schedules that are pipelines, sorted by name. As ``list_schedules``."""
        return self.list_schedules(prefix=prefix, pipelines=True, next_fires=next_fires, limit=limit, cursor=cursor)

    def pipeline_run(self, run_id: str) -> PipelineRun:
        """The run of a pipeline with its tasks: their states, times, and what they wait for. Costs about a read unit for 8 tasks.

        Raises InvalidInput (it is no pipeline's run), NotFound, Unavailable.
        """
        row = self._pipeline_row(run_id, Verb.READ_RUNS)
        return self._shown(row)

    def task_stats(self, name: str, *, runs: int | None = None) -> Sequence[TaskStats]:
        """How each task did in the last ``runs`` (1 to 100) runs that the pipeline's schedule started: states, times, last failure.

        Without ``runs`` at most 20 are counted, and fewer of a pipeline with more than 10 tasks: as many as have 200 tasks together.
        Retries and submissions are runs of their own and are not counted. Costs what ``pipeline_run`` costs for each run.
        Raises InvalidInput, NotFound (no schedule has this name, or it has no tasks), Unavailable.
        """
        self._access.check_schedule(Verb.READ_RUNS, check_name(name))
        services = self.session.services
        if runs is not None:
            check_whole("runs", runs, 1, MOST_RUNS)
        head = services.schedules.head(self.tenant, name)
        if head is None:
            raise self._access.no_schedule(name)
        tasks = services.schedules.definitions.of(head.owner, head.revision).options.tasks
        if tasks is None:
            raise NotFound(f"name={name!r}: it is a schedule without tasks; list_pipelines() lists those with tasks")
        from quarterjack.sdk.pipelines.task_stats import task_stats  # noqa: PLC0415 (who has no pipeline does not load it)

        found = services.ledger.last_runs(
            [head.owner],
            upto=self.session.clock(),
            limit=runs or min(_RUNS, max(_TASK_RUNS // len(json.loads(tasks)), 1)),
        )[head.owner]
        return task_stats([self._shown(row) for row in found if row.job.startswith(PIPELINE)])

    def skip_task(self, run_id: str, task: str) -> PipelineRun:
        """Skip a task that has not begun: when it would start, the tasks after it go on, and its result is None for them.

        Raises InvalidInput, NotFound, Conflict (it has begun, or the pipeline's run has ended), Unavailable.
        """
        row = self._pipeline_row(run_id, Verb.SKIP)
        from quarterjack.owner.runs.pipelines import skip_task  # noqa: PLC0415 (who has no pipeline does not load it)

        return self._shown(skip_task(row, task, self._context))

    def retry_pipeline(self, run_id: str, *, skip: Sequence[str] = (), idempotency_key: str | None = None) -> Run:
        """Repeat what did not succeed of a pipeline's run that has ended, as a new run under the same revision.

        Its ``replay_of`` is the id of the old one. A task that has succeeded, or is optional and has failed, does not run again, unless
        a task before it does: its result is that of the old run. Tasks in ``skip`` are passed over. With an ``idempotency_key`` a
        second call returns the same run.
        Raises InvalidInput, NotFound, Conflict (it has not ended, or has succeeded), KeyReused, Throttled, Unavailable.
        """
        key = uuid.uuid4().hex if idempotency_key is None else check_name(idempotency_key, "idempotency_key")
        if not isinstance(skip, (list, tuple)) or not all(isinstance(name, str) for name in skip):
            raise InvalidInput("skip", skip, "is no list of tasks", "give their names in a list")
        original = self._pipeline_row(run_id, Verb.REPLAY)
        self._checks.may_run(original.job)
        self._take(RateWord.RUNS)
        ref = one_off_ref(self.tenant, key)
        from quarterjack.owner.runs.pipelines import retry  # noqa: PLC0415 (who has no pipeline does not load it)

        return self._access.run_view(retry(original, ref, skip, self._context, check=lambda run: None))

    def _shown(self, row: RunRow) -> PipelineRun:
        from quarterjack.owner.runs.pipelines import look_at  # noqa: PLC0415 (who has no pipeline does not load it)
        from quarterjack.sdk.pipelines.show import masked_state, pipeline_run  # noqa: PLC0415 (as above)

        state = masked_state(look_at(row, self.session.services), self._access)
        return pipeline_run(self._access.run_view(row), state)

    def _pipeline_row(self, run_id: str, verb: Verb) -> RunRow:
        self._access.check_some(verb, what=f"run {shorten(run_id, 300)}")
        return self._access.read_run(run_id, verb)
