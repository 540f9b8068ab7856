"""One schedule: its status, history, fires, statistics and explanation; pause, resume, skip."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.etags import IfMatch
from quarterjack.web.fields import ApiBody, ApiQuery, Flag, IdempotencyKey, Moment, ScheduleName
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.routes.schedules import as_it_is, if_matching
from quarterjack.web.shapes import as_json

router = routes_of("schedules")


class PauseRequest(ApiBody):
    """How to pause."""

    reason: str | None = Field(None, description="why", examples=["the warehouse moves"])
    until: Moment | None = Field(None, description="when it resumes by itself")
    drain: Flag = Field(False, description="runs that are already due still start")


class FiresQuery(ApiQuery):
    """The number of fires, and the time after which they are."""

    count: int = Field(10, ge=1, le=1_000)
    after: Moment | None = Field(None, description="fires later than it; left out, or in the past: later than now")


class StatsQuery(ApiQuery):
    """The days of the statistics, in UTC."""

    since: Moment | None = Field(None, description="left out: six days ago")
    until: Moment | None = Field(None, description="left out: today")


class WhyQuery(ApiQuery):
    """The due time of a fire."""

    at: Moment


@router.get("/schedules/{name}/status", responses=answers(views.ScheduleStatus))
def get_schedule_status(call: Call, name: ScheduleName) -> Response:
    """Its incident, next fires, last runs, and the health of its chain. Costs about eight reads."""
    found = call.scheduler.describe_schedule(name)
    schedule = found.schedule
    names = ("state", "revision", "failing", "failed_at", "failed_run", "incident", "last_fired_at")
    said = {word: getattr(schedule, word) for word in names}
    return call.answer({**said, "next_fires": found.next_fires, "last_runs": found.last_runs, "chain": found.chain})


@router.get("/schedules/{name}/history", responses=answers(views.items_model(views.REVISION.model)))
def get_schedule_history(call: Call, name: ScheduleName) -> Response:
    """Its revisions, newest first, at most twenty, with their differences, times and actors."""
    return call.answer({"items": call.scheduler.describe_schedule(name).revisions})


@router.get("/schedules/{name}/fires", responses=answers(views.Fires))
def get_schedule_fires(call: Call, name: ScheduleName, query: Annotated[FiresQuery, InQuery()]) -> Response:
    """Its next fires; none unless it is ACTIVE."""
    return call.answer({"items": call.scheduler.preview(name, query.count, after=query.after)})


@router.get("/schedules/{name}/stats", responses=answers(views.items_model(views.DAY_STATS.model)))
def get_schedule_stats(call: Call, name: ScheduleName, query: Annotated[StatsQuery, InQuery()]) -> Response:
    """Counts and times of its ended runs, by day, the latest first."""
    return call.answer({"items": call.scheduler.stats(schedule=name, **query.given())})


@router.get("/schedules/{name}/why", responses=answers(views.ANSWER.model))
def why_schedule(call: Call, name: ScheduleName, query: Annotated[WhyQuery, InQuery()]) -> Response:
    """Why its fire at a moment ran, ran late, did not run, or was none."""
    return call.answer(as_json(call.scheduler.why(name, query.at)))


@router.post("/schedules/{name}/pause", responses=answers(views.ScheduleDocument))
def pause_schedule(
    call: Call,
    name: ScheduleName,
    body: PauseRequest | None = None,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Response:
    """Pause a schedule. After the answer none of its runs starts; with `drain`, runs that are already due still do."""
    given = {} if body is None else body.given()
    done = if_matching(call, name, if_match, call.scheduler.pause_schedule, **given, client_token=key)
    return as_it_is(call, done)


@router.post("/schedules/{name}/resume", responses=answers(views.ScheduleDocument))
def resume_schedule(call: Call, name: ScheduleName, if_match: IfMatch = None, key: IdempotencyKey = None) -> Response:
    """Resume a paused schedule from now on; an active one stays as it is."""
    done = if_matching(call, name, if_match, call.scheduler.resume_schedule, client_token=key)
    return as_it_is(call, done)


@router.post("/schedules/{name}/skip-next", responses=answers(views.RUN.model))
def skip_next(call: Call, name: ScheduleName, if_match: IfMatch = None, key: IdempotencyKey = None) -> Response:
    """Skip the next fire that has not started; a second request, without the same key, skips the fire after it."""
    run = if_matching(call, name, if_match, call.scheduler.skip_next, client_token=key)
    return call.answer(run)
