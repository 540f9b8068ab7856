"""The installation and the tenant as a whole: queues, workers, jobs, audit, statistics, freeze."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.domain.audit import AuditAct
from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.fields import NAME, QUEUE, RUN_ID, ApiBody, ApiQuery, Moment, PageQuery, VersionName, VersionPath
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.urls import run_of_url

router = routes_of("installation")


class WorkersQuery(PageQuery):
    """Conditions on workers."""

    queue: str | None = Field(None, pattern=QUEUE, description="a queue that the worker serves")
    job: str | None = Field(None, pattern=NAME, description="a job that the worker knows, or may know")
    stopped: bool = Field(False, description="include workers that have stopped")


class AuditQuery(PageQuery):
    """Conditions on audit entries."""

    schedule: str | None = Field(None, pattern=NAME)
    actor: str | None = Field(None, description="as the application gives it, or as an entry shows it")
    act: AuditAct | None = None
    run: str | None = Field(None, description="the `url_id` of a run", json_schema_extra=RUN_ID)
    call: str | None = Field(None, description="id of the call that made the entries")
    since: Moment | None = Field(None, description="left out: the last 30 days")
    until: Moment | None = None


class TenantStatsQuery(ApiQuery):
    """The unit and the days of the statistics."""

    by: Literal["job", "schedule", "version"] = "job"
    job: str | None = Field(None, pattern=NAME)
    schedule: str | None = Field(None, pattern=NAME)
    version: VersionName | None = None
    since: Moment | None = Field(None, description="left out: six days ago")
    until: Moment | None = Field(None, description="left out: today")


class OutcomesQuery(ApiQuery):
    """The span of the outcomes."""

    hours: int = Field(24, ge=1, le=168, description="number of hours up to now, with the present one")


def _soon(schema: dict[str, Any]) -> None:
    """The example is the next midnight: a fixed one would be refused some day."""
    schema["examples"] = [(datetime.now(UTC).date() + timedelta(days=1)).isoformat() + "T00:00:00Z"]


class FreezeRequest(ApiBody):
    """The end and the reason of a freeze."""

    until: Moment = Field(description="at most 400 days ahead", json_schema_extra=_soon)
    reason: str | None = None
    job: str | None = Field(None, pattern=NAME, description="only the runs of this job")
    queue: str | None = Field(None, pattern=QUEUE, description="only the runs in this queue")
    flow: str | None = Field(None, pattern=NAME, description="with key: the name of the flow")
    key: str | None = Field(None, description="with job or flow: only the runs with this key of the flow")


class ThawQuery(ApiQuery):
    """What is not frozen any more."""

    job: str | None = Field(None, pattern=NAME, description="the runs of this job")
    queue: str | None = Field(None, pattern=QUEUE, description="the runs in this queue")
    flow: str | None = Field(None, pattern=NAME, description="with key: the name of the flow")
    key: str | None = Field(None, description="with job or flow: the runs with this key of the flow")
    per_minute: int = Field(6_000, ge=1, le=6_000, description="starts of those that waited")


class RetireRequest(ApiBody):
    """The application version that takes the runs of another one."""

    to: VersionName


class LatestVersionRequest(ApiBody):
    """An application version, and its share of the runs."""

    name: VersionName
    share: float = Field(1.0, ge=0, le=1, description="of the new runs; the version before it gets the others")


@router.get("/queues", responses=answers(views.items_model(views.QUEUE.model)))
def list_queues(call: Call) -> Response:
    """The queues, with the number of messages in each, and whether the ticker holds them back."""
    return call.answer({"items": call.scheduler.queues()})


@router.get("/workers", responses=answers(views.WORKERS))
def list_workers(call: Call, query: Annotated[WorkersQuery, InQuery()]) -> Response:
    """The worker processes and functions, each with the tenant's runs that it has at hand."""
    return call.answer(views.page_document(call.scheduler.workers(**query.arguments())))


@router.get("/jobs", responses=answers(views.items_model(views.JOB.model)))
def list_jobs(call: Call) -> Response:
    """The jobs that workers know, with their policies and the schema of their payloads."""
    return call.answer({"items": call.scheduler.jobs()})


@router.get("/versions", responses=answers(views.items_model(views.APP_VERSION.model)))
def list_versions(call: Call) -> Response:
    """The application versions that workers have registered, the latest first."""
    return call.answer({"items": call.scheduler.list_application_versions()})


@router.get("/versions/latest", responses=answers(views.APP_VERSION.model))
def get_latest_version(call: Call) -> Response:
    """The application version that new runs are assigned to."""
    return call.answer(call.scheduler.get_latest_application_version())


@router.put("/versions/latest", responses=answers(views.APP_VERSION.model))
def set_latest_version(call: Call, body: LatestVersionRequest) -> Response:
    """Assign new runs to an application version. Concerns all tenants; runs that were sent before keep their version."""
    return call.answer(call.scheduler.set_latest_application_version(**body.given()))


@router.post("/versions/{version}/retire", responses=answers(views.APP_VERSION.model))
def retire_version(call: Call, version: VersionPath, body: RetireRequest) -> Response:
    """Let another application version start the waiting runs of this one, which gets no new runs. Concerns all tenants."""
    return call.answer(call.scheduler.retire_application_version(version, **body.given()))


@router.get("/audit", responses=answers(views.AUDIT))
def list_audit(call: Call, query: Annotated[AuditQuery, InQuery()]) -> Response:
    """Audit entries, newest first. A page may be short, or empty, and not the last."""
    given = query.arguments()
    if given.get("run") is not None:
        given["run"] = run_of_url(given["run"])
    given = {"run_id" if name == "run" else name: value for name, value in given.items()}
    page = call.scheduler.audit(**given)
    return call.answer(views.page_document(page, searched_to=page.searched_to))


@router.get("/stats", responses=answers(views.items_model(views.DAY_STATS.model)))
def get_stats(call: Call, query: Annotated[TenantStatsQuery, InQuery()]) -> Response:
    """Counts and times of ended runs by job, schedule or application version, day by day, the latest first."""
    return call.answer({"items": call.scheduler.stats(**query.given())})


@router.get("/outcomes", responses=answers(views.HOURLY.model))
def get_outcomes(call: Call, query: Annotated[OutcomesQuery, InQuery()]) -> Response:
    """The outcomes of the runs that ended in the latest hours, and in the last 60 minutes."""
    return call.answer(call.scheduler.hourly_outcomes(query.hours))


@router.get("/ticker", responses=answers(views.TICKER.model))
def get_ticker(call: Call) -> Response:
    """Whether the ticker of the installation runs and keeps up."""
    return call.answer(call.scheduler.ticker())


@router.get("/holds", responses=answers(views.HOLDS.model))
def get_holds(call: Call) -> Response:
    """The reasons why no run of the tenant starts: freeze, suspension, backpressure."""
    return call.answer(call.scheduler.holds())


@router.get("/freeze", responses=answers(views.Frozen))
def get_freeze(call: Call) -> Response:
    """The end of the freeze, if there is one."""
    return call.answer({"until": call.scheduler.frozen()})


@router.put("/freeze", responses=answers(views.Frozen))
def freeze(call: Call, body: FreezeRequest) -> Response:
    """Start no run of this tenant, or of a part of it, before a time. Running attempts continue; due runs start afterwards."""
    call.scheduler.freeze(body.until, reason=body.reason, job=body.job, queue=body.queue, flow=body.flow, key=body.key)
    return call.answer({"until": body.until.astimezone(UTC)})


@router.delete("/freeze", status_code=204, response_class=Response)
def thaw(call: Call, query: Annotated[ThawQuery, InQuery()]) -> Response:
    """End the freeze of the tenant, or of a part of it, now."""
    call.scheduler.thaw(job=query.job, queue=query.queue, flow=query.flow, key=query.key, per_minute=query.per_minute)
    return Response(status_code=204)
