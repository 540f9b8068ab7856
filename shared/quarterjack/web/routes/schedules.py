"""Schedules as resources: list, forecast, create, read, replace, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from fastapi import Query as InQuery
from pydantic import Field
from starlette.responses import Response

from quarterjack.apply.fields import read_words
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import Forbidden, InvalidInput, NotFound
from quarterjack.sdk.schedule_views import Schedule, Upserted
from quarterjack.sdk.schedules.forecast_views import LOOKED_AT, MOST_LISTED, MOST_SCHEDULES
from quarterjack.web import views
from quarterjack.web.calls import ApiCall, Call
from quarterjack.web.etags import Done, IfMatch, IfNoneMatch, OnlyCreates, as_seen, etag_of, has_tag, match, persist
from quarterjack.web.fields import (
    NAME,
    PATCH,
    ZONE,
    ApiQuery,
    Definition,
    IdempotencyKey,
    Moment,
    NamedDefinition,
    PageQuery,
    Patch,
    ScheduleName,
    definition_arguments,
    merged,
)
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.urls import name_in_url

router = routes_of("schedules")
router = routes_of("schedules")


class ScheduleConditions(PageQuery):
    """Conditions on schedules, all of which must hold."""

    prefix: str | None = Field(None, pattern=NAME, description="prefix of the name")
    contains: str | None = Field(None, pattern=NAME, description="part of the name")
    job: str | None = Field(None, pattern=NAME)
    tag: str | None = Field(None, description="`key=value`, or `key` for any value")
    failing: bool | None = Field(None, description="whether an incident is open")
    managed_by: str | None = Field(None, pattern=NAME, description="the package or file that declares it")


class ScheduleQuery(ScheduleConditions):
    """Conditions, all of which must hold."""

    state: ScheduleState | None = Field(None, description="left out: any but DELETED")
    next_fires: int = Field(0, ge=0, le=10, description="number of next fires that are listed with each schedule")


class ForecastQuery(ScheduleConditions):
    """Which schedules, in which span of time."""

    since: Moment | None = Field(None, description="left out, or past: now")
    until: Moment | None = Field(None, description="excluded; left out: 24 hours after since")
    by: Literal["minute", "hour", "day"] = Field("hour", description="length of a span, by the clock of the timezone")
    timezone: str = Field("UTC", pattern=ZONE, description="an IANA name", examples=["Europe/Berlin"])
    listed: int = Field(100, ge=0, le=MOST_LISTED, description="most firing schedules that are listed")
    limit: int = Field(LOOKED_AT, ge=1, le=MOST_SCHEDULES, description="most schedules that are read")


class DeleteQuery(ApiQuery):
    """How to delete."""

    drain: bool = Field(False, description="runs that are already due still start")


@router.get("/schedules", responses=answers(views.SCHEDULES))
def list_schedules(call: Call, query: Annotated[ScheduleQuery, InQuery()]) -> Response:
    """Schedules that meet all conditions, sorted by name. A page may be short, even empty, and not the last."""
    page = call.scheduler.list_schedules(**query.arguments())
    return call.answer(views.page_document(page, searched_name=page.searched_name, unreadable=page.unreadable))


@router.get("/forecast", responses=answers(views.FORECAST.model))
def get_forecast(call: Call, query: Annotated[ForecastQuery, InQuery()]) -> Response:
    """How many fires are due when, and which schedules fire. A `cursor` continues behind the schedules that were read."""
    return call.answer(call.scheduler.forecast(**query.arguments()))


@router.post("/schedules", status_code=201, responses=answers(views.ScheduleDocument, 201, "created"))
def create_schedule(call: Call, body: NamedDefinition, key: IdempotencyKey = None) -> Response:
    """Create a schedule. Its first fire may be due a few seconds from now."""
    words = dict(body)
    name = words.pop("name", None)
    if name is None:
        raise InvalidInput("name", name, "is missing", "give the schedule a name")
    made = call.scheduler.create_schedule(name, **_arguments(name, words), client_token=key)
    return as_it_is(call, made, 201)


@router.get("/schedules/{name}", responses=answers(views.ScheduleDocument))
def get_schedule(
    call: Call,
    name: ScheduleName,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A schedule with its definition. Its fires, runs and incidents are in its status."""
    document = _document(call, name)
    tag = etag_of(document)
    if if_none_match is not None and has_tag(if_none_match, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return call.answer(document, ETag=tag)


@router.put("/schedules/{name}", responses=answers(views.ScheduleDocument, s201="created"))
def put_schedule(
    call: Call,
    name: ScheduleName,
    body: Definition,
    if_match: IfMatch = None,
    if_none_match: OnlyCreates = None,
    key: IdempotencyKey = None,
) -> Response:
    """Create a schedule, or give it this definition: missing fields have their defaults. A paused schedule stays paused."""
    arguments = _arguments(name, body)
    if if_none_match is not None:
        _check_only_creates(if_none_match, if_match)
        return as_it_is(call, call.scheduler.create_schedule(name, **arguments, client_token=key), 201)
    done = if_matching(call, name, if_match, call.scheduler.upsert_schedule, **arguments, client_token=key)
    return as_it_is(call, done.schedule, 201 if done.change == "created" else 200)


def _check_only_creates(if_none_match: str, if_match: str | None) -> None:
    """Raises RefusedRequest for another guard than `*`, and for one that contradicts it."""
    if if_none_match != "*":
        remedy = "send *, to create it only if there is none; to change what you saw, send its ETag as If-Match"
        raise RefusedRequest(400, "of tags it is not read in a PUT", remedy, field="If-None-Match", value=if_none_match)
    if if_match is not None:
        remedy = "send If-None-Match to create it, or If-Match to change it"
        raise RefusedRequest(400, "If-Match and If-None-Match: * exclude each other", remedy, field="If-Match")


@router.patch(
    "/schedules/{name}",
    responses=answers(views.ScheduleDocument),
    openapi_extra={
        "requestBody": {
            "content": {
                "application/merge-patch+json": {
                    "schema": PATCH | {"title": "ScheduleMergePatch", "examples": [{"payload": {"region": "us"}}]}
                }
            }
        }
    },
)
def patch_schedule(call: Call, name: ScheduleName, body: Patch, if_match: IfMatch = None) -> Response:
    """Change the definition by a JSON merge patch (RFC 7396): null removes a field, which then has its default.

    Without `If-Match` it is merged into whichever definition is current.
    """

    def merge(present: Schedule) -> Upserted:
        _check_mergeable(present, body)
        arguments = _arguments(name, merged(views.schedule_document(present)["definition"], body))
        return call.scheduler.upsert_schedule(name, **arguments, expected_revision=present)

    def begin(name: str, expected_revision: int | Schedule | None) -> Upserted:
        if isinstance(expected_revision, Schedule):
            return merge(expected_revision)
        return persist(lambda: as_seen(expected_revision, call.scheduler.get_schedule(name)), merge)

    return as_it_is(call, if_matching(call, name, if_match, begin).schedule)


@router.delete("/schedules/{name}", status_code=204, response_class=Response)
def delete_schedule(
    call: Call,
    name: ScheduleName,
    query: Annotated[DeleteQuery, InQuery()],
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Response:
    """Delete a schedule; its runs stay readable. After the answer none of its runs starts."""
    if_matching(call, name, if_match, call.scheduler.delete_schedule, drain=query.drain, client_token=key)
    return Response(status_code=204)


def _arguments(name: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """The words of a definition as keywords of create and upsert. Raises InvalidInput with the path of the word."""
    if "paused" in words:
        raise InvalidInput(
            "paused", words["paused"], "is not a word of a definition here", "POST to …/pause or …/resume"
        )
    return definition_arguments(read_words(name, words, "the body"))


def _document(call: ApiCall, name: str) -> dict[str, Any]:
    return views.schedule_document(call.scheduler.get_schedule(name))


def _check_mergeable(present: Schedule, patch: Any) -> None:
    """Raises Forbidden if a patch would have to be merged into a payload that the caller may not see."""
    given = patch.get("payload", {}) if isinstance(patch, Mapping) else None
    keeps_tasks = "tasks" in present.definition and isinstance(patch, Mapping) and patch.get("tasks", {}) is not None
    if present.masked and (isinstance(given, Mapping) or keeps_tasks):
        remedy = "ask for read-payloads, or PUT the whole definition"
        what = "the values of its tasks, so they" if keeps_tasks else "its payload, so it"
        problem = f"name={present.name!r}: you may not read {what} cannot be kept; {remedy}"
        raise Forbidden(problem, verb=Verb.READ_PAYLOADS, tenant=present.tenant, job=present.job)


def as_it_is(call: ApiCall, done: Schedule, status: int = 200) -> Response:
    """The answer to a change: the schedule as it is now, or what the change returned to a caller who may not read schedules."""
    where = {"Location": call.address("schedules", name_in_url(done.name))} if status == 201 else {}
    try:
        # A question, which is not audited: nobody asked to read it.
        may_read = call.scheduler.session.may(call.scheduler.tenant, Verb.READ_SCHEDULES, done.job)
        document = _document(call, done.name) if may_read else views.schedule_document(done)
    except NotFound:  # deleted meanwhile: the change was made
        return call.answer(views.schedule_document(done), status)
    return call.answer(document, status, ETag=etag_of(document), **where)


def if_matching(call: ApiCall, name: str, if_match: str | None, act: Callable[..., Done], **given: Any) -> Done:
    """Carry out a change of the schedule that ``If-Match`` names: ``act(name, expected_revision=…, **given)``. Raises as ``match``."""
    return match(
        if_match, lambda: call.scheduler.get_schedule(name), lambda seen: act(name, **given, expected_revision=seen)
    )
