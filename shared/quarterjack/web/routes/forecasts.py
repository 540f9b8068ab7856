"""What will fire when, of all schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.sdk.forecasts.forecast import LOOKED_AT, MOST_LISTED, MOST_SCHEDULES
from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.fields import NAME, ZONE, Moment, PageQuery
from quarterjack.web.routes.routing import answers, routes_of

router = routes_of("schedules")


class ForecastQuery(PageQuery):
    """Of which time and which schedules."""

    since: Moment | None = Field(None, description="left out, or past: now")
    until: Moment | None = Field(None, description="excluded; left out: 24 hours after since")
    by: Literal["minute", "hour", "day"] = Field("hour", description="the spans, by the clock of the timezone")
    timezone: str = Field("UTC", pattern=ZONE, description="an IANA name", examples=["Europe/Berlin"])
    prefix: str | None = Field(None, pattern=NAME, description="of the schedules' names")
    contains: str | None = Field(None, pattern=NAME, description="part of their names")
    job: str | None = Field(None, pattern=NAME)
    tag: str | None = Field(None, description="`key=value`, or `key` for any value")
    failing: bool | None = Field(None, description="whether an incident is open")
    managed_by: str | None = Field(None, pattern=NAME, description="the package or file that declares them")
    listed: int = Field(100, ge=0, le=MOST_LISTED, description="how many of the schedules that fire are told")
    limit: int = Field(LOOKED_AT, ge=1, le=MOST_SCHEDULES, description="most schedules that are looked at")


@router.get("/forecast", responses=answers(views.FORECAST.model))
def get_forecast(call: Call, query: Annotated[ForecastQuery, InQuery()]) -> Response:
    """How many fires are due when, and which schedules fire. With a `cursor` it goes on behind the schedules that it looked at."""
    return call.answer(call.scheduler.forecast(**query.arguments()))
