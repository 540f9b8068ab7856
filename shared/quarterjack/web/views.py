"""The documents of the API: which view of the SDK has which form."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any

from pydantic import BaseModel, Field, create_model

from quarterjack.sdk.backfills import Backfill
from quarterjack.sdk.history.audit import AuditEntry
from quarterjack.sdk.history.bulk_runs_work import BulkRunsResult
from quarterjack.sdk.history.day_stats import DayStats, HourlyOutcomes
from quarterjack.sdk.history.versions import ApplicationVersion
from quarterjack.sdk.history.views import JobView, LogLine, QueueView, Worker, WorkerRun
from quarterjack.sdk.history.workers import TickerStatus
from quarterjack.sdk.pipelines.task_stats import TaskStats
from quarterjack.sdk.pipelines.views import PipelineRun, TaskRun
from quarterjack.sdk.schedule_views import ChainView, RevisionView, Schedule
from quarterjack.sdk.schedules.bulk import BulkResult
from quarterjack.sdk.schedules.forecast_views import ComingSchedule, Forecast, ForecastSpan
from quarterjack.sdk.schedules.freeze import Holds
from quarterjack.sdk.views import DeadRun, Page, Redriven, Run, RunTransition
from quarterjack.sdk.waits.links import RunLink, SignalLink
from quarterjack.sdk.waits.signals import SignalReceipt
from quarterjack.timing import PreviewRow
from quarterjack.web.fields import DEFINITION
from quarterjack.web.problems import Problem
from quarterjack.web.shapes import Shape, as_json, page_model, shape
from quarterjack.web.urls import cursor_in_url, run_in_url
from quarterjack.why.answer import Answer

_URL_ID = (str, "its id as a segment of an address", lambda item: run_in_url(item.id))

RUN = shape(
    Run,
    add={
        "url_id": _URL_ID,
        "lateness": (float | None, "seconds from due to the first start", lambda run: run.lateness),
    },
)
_TASK_URL_ID = (
    str | None,
    "its id as a segment of an address",
    lambda task: None if task.run_id is None else run_in_url(task.run_id),
)
TASK_RUN = shape(
    TaskRun,
    add={
        "url_id": _TASK_URL_ID,
        "duration": (float | None, "seconds from its first start to its end", lambda task: task.duration),
    },
)
_PATH = "names of the tasks that its end waited for, in their order"
PIPELINE_RUN = shape(PipelineRun, add={"critical_path": (list[str], _PATH, lambda run: run.critical_path)})
TASK_STATS = shape(TaskStats)
DEAD_RUN = shape(DeadRun, add={"url_id": _URL_ID})
WORKER_RUN = shape(WorkerRun, add={"url_id": _URL_ID})
TRANSITION = shape(RunTransition)
LOG_LINE = shape(LogLine)
BACKFILL = shape(
    Backfill, add={"progress": (float, "share of its fires that are handled, 0 to 1", lambda one: one.progress)}
)
REVISION = shape(RevisionView)
CHAIN = shape(ChainView)
WORKER = shape(Worker)
QUEUE = shape(QueueView, add={"depth": (int | None, "messages that wait or are in flight", lambda one: one.depth)})
JOB = shape(JobView)
APP_VERSION = shape(ApplicationVersion)
AUDIT_ENTRY = shape(AuditEntry)
DAY_STATS = shape(DayStats)
HOURLY = shape(HourlyOutcomes)
TICKER = shape(TickerStatus)
HOLDS = shape(Holds)
ANSWER = shape(
    Answer, add={"causes": (list[str], "what kept it from running, or from running in time", lambda one: one.causes)}
)
SIGNAL = shape(SignalReceipt)
SIGNAL_LINK, RUN_LINK = shape(SignalLink), shape(RunLink)
FIRE = shape(PreviewRow)
_GO_ON = {"cursor": (str | None, "send it to go on; null: all were read", lambda one: cursor_in_url(one.cursor))}
BULK_RUNS = shape(BulkRunsResult, leave_out=("cursor",), add=_GO_ON)
BULK = shape(BulkResult, leave_out=("cursor",), add=_GO_ON)
SPAN, COMING = shape(ForecastSpan), shape(ComingSchedule)
FORECAST = shape(Forecast, leave_out=("cursor",), add=_GO_ON)
REDRIVEN = shape(Redriven, leave_out=("cursor",), add=_GO_ON)

# A listing has what the head of a schedule tells; a schedule has what does not move by itself, so that its tag stays.
LISTED = shape(Schedule, leave_out=("payload", "last_fired_at", "definition"))
_MOVES = ("failing", "failed_at", "failed_run", "incident", "version", "last_fired_at", "next_fires")
_IN_DEFINITION = ("job", "expression", "timezone", "payload", "description", "tags", "definition")
SCHEDULE = Shape(Schedule, leave_out=(*_MOVES, *_IN_DEFINITION), name="ScheduleDocument")
ScheduleDocument: type[BaseModel] = create_model(
    "ScheduleResource",
    __base__=SCHEDULE.model,
    __doc__="A schedule. Its fires, runs and incidents are in its status.",
    definition=(
        dict[str, Any],
        Field(description="what PUT takes and PATCH merges", json_schema_extra={**DEFINITION}),
    ),
)


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """A schedule as GET answers it."""
    payload = {} if schedule.payload is None else {"payload": schedule.payload}
    return SCHEDULE.document(schedule) | {"definition": as_json({**schedule.definition, **payload})}


class ScheduleStatus(BaseModel):
    """The state of a schedule that changes without a change of its definition."""

    state: str
    revision: int
    failing: int = Field(description="consecutive runs that failed for good")
    failed_at: str | None
    failed_run: str | None = Field(description="id of the run that failed last")
    incident: str | None = Field(description="id of the open incident")
    last_fired_at: str | None = Field(description="in the schedule's zone")
    next_fires: list[str] = Field(description="the next ten, in the schedule's zone")
    last_runs: list[RUN.model] = Field(description="the last ten that were due, newest first")  # type: ignore[name-defined]
    chain: CHAIN.model = Field(description="whether its next fire is in the agenda")  # type: ignore[name-defined]


class Fires(BaseModel):
    """Fires of a schedule."""

    items: list[str] = Field(description="in its zone, the next first")


class Count(BaseModel):
    """A count."""

    count: int


class Frozen(BaseModel):
    """The freeze of a tenant."""

    until: str | None = Field(description="UTC; null: there is no freeze")


class ItemAnswer(BaseModel):
    """What became of one item of a batch."""

    number: int = Field(description="its place among the items, from 1")
    run_id: str | None = Field(description="of its run; null: it was refused")
    url_id: str | None = Field(description="the same as a segment of an address")
    problem: Problem | None = Field(description="why it was refused; null: it has a run")


class BatchAnswer(BaseModel):
    """What became of a batch."""

    id: str = Field(description="the Idempotency-Key, or a new one: the same items with it are submitted once")
    items: list[ItemAnswer] = Field(description="in their order")
    refused: int = Field(description="the number of items without a run")
    on_end: str | None = Field(description="id of the run that starts when the last of them has ended")


def items_model(of: type[BaseModel]) -> type[BaseModel]:
    """The schema of a list that has no pages."""
    items: Any = GenericAlias(list, (of,))
    made: type[BaseModel] = create_model(f"{of.__name__}List", items=(items, ...))
    return made


_LATER = "all later entries were read; null: this is the end"
RUNS = page_model(
    RUN.model,
    searched_to=(str | None, Field(description="all runs that ended later were read; null: not a search")),
)
LOG_LINES = page_model(
    LOG_LINE.model,
    searched_to=(str | None, Field(description="all earlier lines were read")),
    sources=(list[str], Field(description="names of the existing logs")),
    missing=(
        str | None,
        Field(description="why lines may be missing, with a remedy; null: none is known to be missing"),
    ),
)
SCHEDULES = page_model(
    LISTED.model,
    searched_name=(
        str | None,
        Field(description="all schedules up to this name were read; null: this is the end"),
    ),
    unreadable=(list[str], Field(description="names of schedules that this release cannot read")),
)
BACKFILLS = page_model(BACKFILL.model)
DEAD_RUNS = page_model(DEAD_RUN.model, searched_to=(str | None, Field(description=_LATER)))
WORKERS = page_model(WORKER.model)
AUDIT = page_model(AUDIT_ENTRY.model, searched_to=(str | None, Field(description=_LATER)))


def page_document(page: Page, **more: Any) -> Mapping[str, Any]:
    """A page of the SDK."""
    return {"items": as_json(page.items), "cursor": cursor_in_url(page.cursor), **as_json(more)}
