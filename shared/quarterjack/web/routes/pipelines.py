"""Pipelines: list them; read, skip and retry the tasks of a run. Otherwise a pipeline is a schedule, and its run is a run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.fields import NAME, ApiBody, ApiQuery, IdempotencyKey, PageQuery, RunId, ScheduleName, TaskName
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.urls import run_in_url

router = routes_of("pipelines")


class PipelineQuery(PageQuery):
    """Conditions, all of which must hold."""

    prefix: str | None = Field(None, pattern=NAME, description="prefix of the name")
    next_fires: int = Field(0, ge=0, le=10, description="number of next fires that are listed with each pipeline")


class TaskStatsQuery(ApiQuery):
    """The runs that are counted."""

    runs: int | None = Field(
        None,
        ge=1,
        le=100,
        description="number of the last runs that are counted; without it 20, or as many as have 200 tasks",
    )


class RetryTasksRequest(ApiBody):
    """The tasks that do not run."""

    skip: list[str] = Field(
        [], description="names of tasks that are skipped; tasks after them go on", examples=[["report.mail"]]
    )


@router.get("/pipelines", responses=answers(views.SCHEDULES))
def list_pipelines(call: Call, query: Annotated[PipelineQuery, InQuery()]) -> Response:
    """The schedules that have tasks, sorted by name. A page may be short, even empty, and not the last."""
    page = call.scheduler.list_pipelines(**query.arguments())
    return call.answer(views.page_document(page, searched_name=page.searched_name, unreadable=page.unreadable))


@router.get("/schedules/{name}/task-stats", responses=answers(views.items_model(views.TASK_STATS.model)))
def list_task_stats(call: Call, name: ScheduleName, query: Annotated[TaskStatsQuery, InQuery()]) -> Response:
    """How each task of a pipeline did in its last runs. Retries and submissions are not counted."""
    return call.answer({"items": call.scheduler.task_stats(name, runs=query.runs)})


@router.get("/runs/{run}/tasks", responses=answers(views.PIPELINE_RUN.model))
def list_tasks(call: Call, run: RunId) -> Response:
    """The tasks of a pipeline's run: their states, times, and the tasks that they wait for."""
    return call.answer(call.scheduler.pipeline_run(run))


@router.post("/runs/{run}/tasks/{task}/skip", responses=answers(views.PIPELINE_RUN.model))
def skip_task(call: Call, run: RunId, task: TaskName) -> Response:
    """Skip a task that has not begun: the tasks after it go on."""
    return call.answer(call.scheduler.skip_task(run, task))


@router.post("/runs/{run}/retry-tasks", status_code=201, responses=answers(views.RUN.model, 201, "submitted"))
def retry_tasks(call: Call, run: RunId, body: RetryTasksRequest | None = None, key: IdempotencyKey = None) -> Response:
    """Repeat the tasks that did not succeed in an ended run of a pipeline, as a new run with the same revision."""
    given = {} if body is None else body.given()
    done = call.scheduler.retry_pipeline(run, **given, idempotency_key=key)
    return call.answer(done, 201, Location=call.address("runs", run_in_url(done.id)))
