"""Dead runs, and changes of many schedules or runs. Each takes a filter; one that takes longer than a request continues by cursor."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query as InQuery
from pydantic import ConfigDict, Field
from starlette.responses import Response

from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.policies import Priority
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.fields import (
    NAME,
    OPAQUE,
    QUEUE,
    RUN_ID,
    ApiBody,
    Flag,
    IdempotencyKey,
    Moment,
    PageQuery,
    Payload,
    Seconds,
    SoMany,
    VersionName,
    tag_of,
)
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.urls import cursor_of_url, run_of_url

router = routes_of("many")


class DeadQuery(PageQuery):
    """Conditions, all of which must hold."""

    job: str | None = Field(None, pattern=NAME)
    schedule: str | None = Field(None, pattern=NAME)
    since: Moment | None = Field(None, description="earliest end; left out: 24 hours before until")
    until: Moment | None = None
    error_type: str | None = Field(None, description="class of the exception")
    include_redriven: bool = False


_CONDITIONS = ("job", "schedule", "since", "until", "error_type")
_ANY_OF: dict[str, Any] = {
    "anyOf": [{"required": [name], "properties": {name: {"type": "string"}}} for name in ("run", *_CONDITIONS)]
}


class DeadFilter(ApiBody):
    """Which dead runs: one, by its `url_id`, or all that meet the conditions, of which at least one is needed."""

    model_config = ConfigDict(json_schema_extra=_ANY_OF)

    run: str | None = Field(None, description="the `url_id` of one run", json_schema_extra=RUN_ID)
    job: str | None = Field(None, pattern=NAME)
    schedule: str | None = Field(None, pattern=NAME, examples=["reports/nightly"])
    since: Moment | None = None
    until: Moment | None = None
    error_type: str | None = None
    limit: SoMany | None = Field(None, description="most runs")
    dry_run: Flag = False


class RedriveRequest(DeadFilter):
    """Which dead runs to repeat, and how."""

    payload: Payload = Field(None, description="instead of their own")
    allow_repeat: Flag = Field(False, description="also LOST runs, which may have done their work")
    as_it_was: Flag = Field(False, description="keep the application versions of the originals")
    cursor: str | None = Field(None, description="cursor of the previous answer", json_schema_extra=OPAQUE)


class PurgeRequest(DeadFilter):
    """Which dead runs to remove from the list."""


def _filtered(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in schema["properties"]
    ]


class ScheduleFilter(ApiBody):
    """Conditions on schedules, all of which must hold; at least one is needed."""

    model_config = ConfigDict(json_schema_extra=_filtered)

    prefix: str | None = Field(None, pattern=NAME)
    contains: str | None = Field(None, pattern=NAME, description="part of the name")
    state: ScheduleState | None = None
    job: str | None = Field(None, pattern=NAME)
    tag: str | None = Field(None, description="`key=value`, or `key` for any value", examples=["team=billing"])
    failing: Flag | None = None
    managed_by: str | None = Field(None, pattern=NAME)
    names: list[Annotated[str, Field(pattern=NAME)]] | None = Field(
        None, min_length=1, max_length=1_000, description="only these, as far as they exist"
    )


class RunFilter(ApiBody):
    """Conditions on runs, all of which must hold; at least one is needed."""

    model_config = ConfigDict(json_schema_extra=_filtered)

    schedule: str | None = Field(None, pattern=NAME)
    state: list[RunState] | None = Field(
        None, min_length=1, description="one or several; left out: all that the action concerns"
    )
    job: str | None = Field(None, pattern=NAME)
    prefix: str | None = Field(None, pattern=NAME, description="of the schedule's name")
    tag: str | None = Field(
        None, description="of the run or its schedule: `key=value`, or `key` for any value", examples=["customer=42"]
    )
    error_type: str | None = Field(None, description="class of the exception")
    kind: list[RunKind] | None = Field(None, min_length=1, description="one or several")
    queue: str | None = Field(None, pattern=QUEUE, description="of runs that have not ended")
    since: Moment | None = Field(None, description="of the end of ended runs; of others, when they are due")
    until: Moment | None = Field(None, description="likewise")


class BulkRunsRequest(ApiBody):
    """The act on every run that meets the conditions."""

    action: Literal["cancel", "redrive", "replay", "hasten", "requeue", "reassign"] = Field(examples=["cancel"])
    filter: RunFilter = Field(examples=[{"tag": "customer=42"}])
    to_queue: str | None = Field(None, pattern=QUEUE, description="for requeue")
    to_priority: Priority | None = Field(None, description="for requeue")
    version: VersionName | None = Field(None, description="for reassign")
    allow_repeat: Flag = Field(False, description="for redrive: also LOST runs, which may have done their work")
    as_it_was: Flag = Field(False, description="for redrive and replay: keep the application versions of the originals")
    rate: Seconds = Field(50.0, gt=0, le=1_000, description="most runs a second")
    dry_run: Flag = False
    cursor: str | None = Field(None, description="cursor of the previous answer", json_schema_extra=OPAQUE)


class BulkRequest(ApiBody):
    """The change of every schedule that meets the conditions."""

    action: Literal["pause", "resume", "delete", "retag", "trigger"] = Field(examples=["pause"])
    filter: ScheduleFilter = Field(examples=[{"tag": "team=billing"}])
    reason: str | None = Field(None, description="for pause")
    until: Moment | None = Field(None, description="for pause")
    drain: Flag = Field(False, description="for pause and delete: runs that are already due still start")
    tags: dict[str, str | None] | None = Field(None, description="for retag: null removes a tag")
    payload: Payload = Field(None, description="for trigger")
    dry_run: Flag = False
    cursor: str | None = Field(None, description="cursor of the previous answer", json_schema_extra=OPAQUE)


@router.get("/dead", responses=answers(views.DEAD_RUNS))
def list_dead(call: Call, query: Annotated[DeadQuery, InQuery()]) -> Response:
    """Runs that failed for good (DEAD, LOST, EXPIRED), newest first."""
    page = call.scheduler.list_dead(**query.arguments())
    return call.answer(views.page_document(page, searched_to=page.searched_to))


@router.post("/dead/redrive", responses=answers(views.REDRIVEN.model))
def redrive(call: Call, body: RedriveRequest) -> Response:
    """Repeat dead runs. While the answer has a cursor, send the request again with it: no run is repeated twice."""
    given = body.given()
    run, given["cursor"] = given.pop("run", None), cursor_of_url(given.get("cursor"))
    with call.in_time() as stop:
        done = call.scheduler.redrive(None if run is None else run_of_url(run), stop=stop, **given)
    return call.answer(done)


@router.post("/dead/purge", responses=answers(views.Count))
def purge(call: Call, body: PurgeRequest) -> Response:
    """Remove dead runs from the list, also redriven ones. The runs stay in the ledger. Repeat the request until the count is 0."""
    given = body.given()
    run = given.pop("run", None)
    with call.in_time() as stop:
        count = call.scheduler.purge(None if run is None else run_of_url(run), stop=stop, **given)
    return call.answer({"count": count})


@router.post("/bulk", responses=answers(views.BULK.model))
def bulk(call: Call, body: BulkRequest, key: IdempotencyKey = None) -> Response:
    """Pause, resume, delete, retag or trigger many schedules. While the answer has a cursor, send the request again with it."""
    given: dict[str, Any] = body.given() | body.filter.given()
    del given["filter"]
    given["cursor"] = cursor_of_url(given.get("cursor"))
    if given.get("tag") is not None:
        given["tag"] = tag_of(given["tag"])
    given = {name: value for name, value in given.items() if value is not None or name not in ("prefix", "contains")}
    token: dict[str, Any] = {"client_token": key} if key is not None else {}
    with call.in_time() as stop:
        return call.answer(call.scheduler.bulk(stop=stop, **given, **token))


@router.post("/runs/bulk", responses=answers(views.BULK_RUNS.model))
def bulk_runs(call: Call, body: BulkRunsRequest, key: IdempotencyKey = None) -> Response:
    """Cancel, redrive, replay, hasten, requeue or reassign many runs. While the answer has a cursor, send the request again with it.

    With an `Idempotency-Key` the same request goes on where the last one ended, also without its cursor.
    """
    given: dict[str, Any] = body.given() | body.filter.given()
    del given["filter"]
    given["cursor"] = cursor_of_url(given.get("cursor"))
    if given.get("tag") is not None:
        given["tag"] = tag_of(given["tag"])
    token: dict[str, Any] = {"client_token": key} if key is not None else {}
    with call.in_time() as stop:
        return call.answer(call.scheduler.bulk_runs(stop=stop, **given, **token))
