"""Runs of one schedule, and its backfills."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.domain.policies import Priority
from quarterjack.state.backfill import BackfillOrder, BackfillStateWord
from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.etags import IfMatch
from quarterjack.web.fields import (
    ApiBody,
    BackfillId,
    Flag,
    IdempotencyKey,
    Limit,
    Moment,
    PageQuery,
    Payload,
    RunTags,
    ScheduleName,
    Whole,
)
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.routes.schedules import if_matching
from quarterjack.web.urls import name_in_url, run_in_url

router = routes_of("runs of a schedule")


class TriggerRequest(ApiBody):
    """The payload and the priority of the run."""

    payload: Payload = Field(None, description="instead of the schedule's own", examples=[{"region": "us"}])
    priority: Priority | None = Field(None, description="likewise")
    tags: RunTags | None = Field(None, description="beside those of the schedule")


class ScheduleRunsQuery(PageQuery):
    """Conditions on fires, sorted by time."""

    after: Moment | None = None
    before: Moment | None = None
    newest_first: bool = True
    upcoming: bool = Field(False, description="include runs that are not due yet")


class BackfillsQuery(PageQuery):
    """Conditions on backfills, the newest first."""

    limit: Limit = 50
    state: BackfillStateWord | None = Field(None, description="left out: any")


class CancelRequest(ApiBody):
    """A span of fires: (after, upto]."""

    after: Moment = Field(examples=["2026-12-24T00:00:00Z"])
    upto: Moment = Field(examples=["2026-12-25T00:00:00Z"])
    dry_run: Flag = False


class BackfillRequest(ApiBody):
    """A span of fires, and how they run."""

    start: Moment = Field(description="inclusive", examples=["2026-05-01T00:00:00Z"])
    end: Moment = Field(description="exclusive, and past", examples=["2026-05-03T00:00:00Z"])
    order: BackfillOrder = Field(BackfillOrder.OLDEST, description="which fires come first")
    concurrency: Whole = Field(10, ge=1, le=100, description="most runs at a time")
    payload: Payload = Field(None, description="instead of their own")
    current: Flag = Field(False, description="all fires with the current definition")
    allow_repeat: Flag = Field(False, description="also fires older than the ledger's retention")
    tags: RunTags | None = Field(None, description="of each run, beside those of the schedule")
    dry_run: Flag = Field(False, description="only count its fires")


@router.post("/schedules/{name}/runs", status_code=201, responses=answers(views.RUN.model, 201, "submitted"))
def trigger(
    call: Call,
    name: ScheduleName,
    body: TriggerRequest | None = None,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Response:
    """Run a schedule now, independent of its expression."""
    given = {} if body is None else body.given()
    run = if_matching(call, name, if_match, call.scheduler.trigger, **given, idempotency_key=key)
    return call.answer(run, 201, Location=call.address("runs", run_in_url(run.id)))


@router.get("/schedules/{name}/runs", responses=answers(views.RUNS))
def list_schedule_runs(call: Call, name: ScheduleName, query: Annotated[ScheduleRunsQuery, InQuery()]) -> Response:
    """The runs of a schedule by their fires, from the ledger; also of a deleted schedule."""
    given: dict[str, Any] = {"newest_first": query.newest_first, "upcoming": query.upcoming}
    page = call.scheduler.list_runs(name, **given | query.arguments())
    return call.answer(views.page_document(page, searched_to=page.searched_to))


@router.post("/schedules/{name}/runs/cancel", responses=answers(views.Count))
def cancel_schedule_runs(call: Call, name: ScheduleName, body: CancelRequest) -> Response:
    """Cancel the runs with fires in (after, upto] that have not ended. Repeat the request if it used up its time."""
    with call.in_time() as stop:
        count = call.scheduler.cancel_runs(name, between=(body.after, body.upto), dry_run=body.dry_run, stop=stop)
    return call.answer({"count": count})


@router.post(
    "/schedules/{name}/backfills",
    status_code=202,
    responses=answers(views.BACKFILL.model, 202, "begun", s200="a dry run"),
)
def start_backfill(
    call: Call, name: ScheduleName, body: BackfillRequest, if_match: IfMatch = None, key: IdempotencyKey = None
) -> Response:
    """Run the fires of an interval that have no run yet. Workers run it; the answer's Location has its progress."""
    given: dict[str, Any] = {"dry_run": False} | body.given()

    found = if_matching(call, name, if_match, call.scheduler.backfill, **given, client_token=key)
    if found.id is None:
        return call.answer(found)
    return call.answer(found, 202, Location=call.address("schedules", name_in_url(name), "backfills", found.id))


@router.get("/schedules/{name}/backfills", responses=answers(views.items_model(views.BACKFILL.model)))
def list_backfills(call: Call, name: ScheduleName) -> Response:
    """Its backfills, oldest first; also of a deleted schedule."""
    return call.answer({"items": call.scheduler.list_backfills(name)})


@router.get("/backfills", responses=answers(views.BACKFILLS))
def list_all_backfills(call: Call, query: Annotated[BackfillsQuery, InQuery()]) -> Response:
    """The backfills of all schedules, the newest first. A page may be short, even empty, and not the last."""
    return call.answer(views.page_document(call.scheduler.backfills(**query.arguments())))


@router.get("/schedules/{name}/backfills/{backfill}", responses=answers(views.BACKFILL.model))
def get_backfill(call: Call, name: ScheduleName, backfill: BackfillId) -> Response:
    """A backfill and its progress."""
    return call.answer(call.scheduler.get_backfill(name, backfill))


@router.get("/schedules/{name}/backfills/{backfill}/runs", responses=answers(views.RUNS))
def list_backfill_runs(
    call: Call, name: ScheduleName, backfill: BackfillId, query: Annotated[PageQuery, InQuery()]
) -> Response:
    """The runs of a backfill, sorted by time. A page may be short and not the last."""
    page = call.scheduler.backfill_runs(name, backfill, **query.arguments())
    return call.answer(views.page_document(page, searched_to=page.searched_to))


@router.post("/schedules/{name}/backfills/{backfill}/pause", responses=answers(views.BACKFILL.model))
def pause_backfill(call: Call, name: ScheduleName, backfill: BackfillId) -> Response:
    """Pause a backfill. After the answer none of its waiting runs starts."""
    return call.answer(call.scheduler.pause_backfill(name, backfill))


@router.post("/schedules/{name}/backfills/{backfill}/resume", responses=answers(views.BACKFILL.model))
def resume_backfill(call: Call, name: ScheduleName, backfill: BackfillId) -> Response:
    """Resume a paused backfill."""
    return call.answer(call.scheduler.resume_backfill(name, backfill))


@router.post("/schedules/{name}/backfills/{backfill}/cancel", responses=answers(views.BACKFILL.model))
def cancel_backfill(call: Call, name: ScheduleName, backfill: BackfillId) -> Response:
    """Cancel a backfill. After the answer no run and no further attempt of it starts."""
    return call.answer(call.scheduler.cancel_backfill(name, backfill))
