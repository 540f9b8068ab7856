"""Runs: submit one or many, find, read, wait; cancel, retry, replay, reschedule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Query as InQuery
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.policies import Delivery, OnDuplicate, Priority, Start
from quarterjack.domain.run import RunState
from quarterjack.errors import Forbidden, NotFinished, Throttled, Unavailable
from quarterjack.sdk.runs import pauses_until_ended
from quarterjack.sdk.submissions.documents import flow_of, retry_of, submit_documents
from quarterjack.sdk.submissions.many import MAX_ITEMS, SubmittedBatch, SubmittedItem
from quarterjack.web import views
from quarterjack.web.calls import ApiCall, Call
from quarterjack.web.fields import (
    DEFINITION,
    LONGEST_DELAY,
    MOST_SECONDS,
    NAME,
    QUEUE,
    ApiBody,
    ApiQuery,
    Flag,
    IdempotencyKey,
    Moment,
    PageQuery,
    Payload,
    RunId,
    RunTags,
    Seconds,
    VersionName,
    one_of_these,
)
from quarterjack.web.problems import problem_document
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.urls import run_in_url

router = routes_of("runs")
_NEXT = 3.0  # seconds between two looks of a long poll, at most
_CLIENT_LEFT = 499  # as nginx writes it into its log; nobody reads the answer

_KINDS: dict[str, Any] = {"run_at": {"type": "string"}, "delay": {"type": "number"}}


class SubmitRequest(ApiBody):
    """A run to submit: its job, time and policies."""

    model_config = ConfigDict(json_schema_extra={"not": {"required": [*_KINDS], "properties": _KINDS}})

    job: str = Field(pattern=NAME, examples=["reports.nightly"])
    payload: Payload = Field(None, examples=[{"region": "eu"}])
    run_at: Moment | None = Field(None, description="left out: now")
    delay: Seconds | None = Field(None, ge=0, le=LONGEST_DELAY, description="seconds from now, instead of run_at")
    delivery: Delivery | None = None
    start: Start | None = None
    priority: Priority | None = Field(None, description="left out: the job's")
    retry: dict[str, Any] | None = Field(None, json_schema_extra={**DEFINITION["properties"]["retry"]})
    flow: dict[str, Any] | None = Field(None, json_schema_extra={**DEFINITION["properties"]["flow"]})
    timeout: Seconds | None = Field(None, ge=0.001, le=MOST_SECONDS, description="seconds of one attempt")
    deadline: Seconds | None = Field(
        None, ge=0.001, le=MOST_SECONDS, description="seconds after the due time; then no attempt starts"
    )
    queue: str | None = Field(None, pattern=QUEUE, description="left out: the job's")
    tags: RunTags | None = Field(None, examples=[{"customer": "42"}])
    unique: str | None = Field(
        None, pattern=NAME, description="unique key: at most one run of the job has it until that run has ended"
    )
    unique_for: Seconds | None = Field(
        None, gt=0, description="seconds from its submission for which a run has the key"
    )
    on_duplicate: OnDuplicate | None = Field(None, description="if a run has the key; left out: return")


class BatchRequest(ApiBody):
    """Runs to submit."""

    items: list[Any] = Field(
        min_length=1,
        max_length=MAX_ITEMS,
        description="each as the body of `POST /runs`, without `unique`; it may have an `idempotency_key`, but not with `on_end`",
        json_schema_extra={"items": {"type": "object"}},
        examples=[[{"job": "mails.send", "payload": "Ada"}, {"job": "mails.send", "payload": "Bob", "delay": 60}]],
    )
    on_end: str | None = Field(
        None, pattern=NAME, description="job of one run that starts when the last item has ended, with the counts"
    )


class RunsQuery(PageQuery):
    """Conditions, all of which must hold."""

    state: list[RunState] | None = Field(None, description="one or several")
    failed: bool = Field(False, description="DEAD, LOST and EXPIRED ones")
    job: str | None = Field(None, pattern=NAME)
    prefix: str | None = Field(None, pattern=NAME, description="of the schedule's name")
    tag: str | None = Field(None, description="of the run or its schedule: `key=value`, or `key` for any value")
    error_type: str | None = Field(None, description="class of the exception")
    kind: list[RunKind] | None = Field(None, description="one or several")
    since: Moment | None = Field(None, description="of the end of ended runs; of others, when they are due")
    until: Moment | None = Field(None, description="likewise")


class WaitQuery(ApiQuery):
    """Whether to wait."""

    wait: float = Field(0, ge=0, le=20, description="seconds to wait for the run's end")


class WhyRunQuery(ApiQuery):
    """What is explained."""

    task: str | None = Field(None, pattern=NAME, description="name of a task of a pipeline's run; left out: the run")


class ReplayRequest(ApiBody):
    """The payload and the application version of the repeat."""

    payload: Payload = Field(None, description="instead of the original's", examples=[{"region": "us"}])
    tags: RunTags | None = Field(None, description="beside those of the original")
    as_it_was: Flag = Field(False, description="keep the application version of the original")


class ReassignRequest(ApiBody):
    """The application version that is to start a run."""

    version: VersionName


class RequeueRequest(ApiBody):
    """The new queue, the new priority, or both."""

    queue: str | None = Field(None, pattern=QUEUE)
    priority: Priority | None = Field(None, examples=["low"])


class RescheduleRequest(ApiBody):
    """The new start time."""

    model_config = ConfigDict(json_schema_extra=one_of_these(at="string", delay="number"))

    at: Moment | None = Field(None, examples=["2030-12-24T18:00:00Z"])
    delay: Seconds | None = Field(None, ge=0, le=LONGEST_DELAY, description="seconds from now, instead of at")


@router.post("/runs", status_code=201, responses=answers(views.RUN.model, 201, "submitted, or found by its key"))
def submit(call: Call, body: SubmitRequest, key: IdempotencyKey = None) -> Response:
    """Run a job once: now, at a time, or after a delay."""
    given = body.given()
    if given.get("retry") is not None:
        given["retry"] = retry_of(given["retry"])
    if given.get("flow") is not None:
        given["flow"] = flow_of(given["flow"])
    run = call.scheduler.submit(**given, idempotency_key=key)
    return call.answer(run, 201, Location=call.address("runs", run_in_url(run.id)))


@router.post("/batches", responses=answers(views.BatchAnswer))
def submit_batch(call: Call, body: BatchRequest, key: IdempotencyKey = None) -> Response:
    """Submit up to 10,000 runs in one request. Each item is answered: with its run, or with the problem for which it was refused.

    A body has at most 1 MiB. The same request with the same Idempotency-Key submits nothing twice: send it again if its answer was lost,
    or if items were refused as `throttled` or `unavailable`. If all were refused as that, or as `forbidden`, so is the request.
    """
    done = submit_documents(call.scheduler, body.items, idempotency_key=key, on_end=body.on_end)
    _raise_if_none(done)
    return call.answer(
        {
            "id": done.id,
            "items": [_item_answer(item, call) for item in done.items],
            "refused": len(done.refused),
            "on_end": done.on_end,
        }
    )


def _item_answer(item: SubmittedItem, call: ApiCall) -> dict[str, Any]:
    return {
        "number": item.number,
        "run_id": item.run_id,
        "url_id": None if item.run_id is None else run_in_url(item.run_id),
        "problem": None if item.error is None else problem_document(item.error, call.request),
    }


def _raise_if_none(done: SubmittedBatch) -> None:
    """Raise the error of the first item if each was refused, and for what is no matter of an item."""
    problems = [item.error for item in done.items]
    if problems[0] is not None and all(isinstance(each, (Forbidden, Throttled, Unavailable)) for each in problems):
        raise problems[0]


@router.get("/runs", responses=answers(views.RUNS))
def list_runs(call: Call, query: Annotated[RunsQuery, InQuery()]) -> Response:
    """Runs of all schedules and one-offs: first the open ones, then the ended ones, newest first.

    Their payloads, results, error texts, actors, progress, workers and the times of their leases are null here: ask for the run.

    A page ends after its limit or some read units, so it may be short, even empty, and not the last.
    """
    page = call.scheduler.list_runs(**query.arguments())
    return call.answer(views.page_document(page, searched_to=page.searched_to))


@router.get("/runs/{run}", responses=answers(views.RUN.model))
async def get_run(call: Call, run: RunId, query: Annotated[WaitQuery, InQuery()]) -> Response:
    """A run. With `wait`, as soon as it has ended, or as it is after so many seconds. Waiting takes no thread."""
    seconds = min(query.wait, call.longest)
    if seconds and not await _ended(call, run, seconds):
        return Response(status_code=_CLIENT_LEFT)
    return call.answer(await run_in_threadpool(call.scheduler.get_run, run))


@router.get("/runs/{run}/transitions", responses=answers(views.items_model(views.TRANSITION.model)))
def list_transitions(call: Call, run: RunId) -> Response:
    """Its transitions, oldest first, from the archive."""
    return call.answer({"items": call.scheduler.transitions(run)})


@router.get("/runs/{run}/logs", responses=answers(views.LOG_LINES))
def list_run_logs(call: Call, run: RunId, query: Annotated[PageQuery, InQuery()]) -> Response:
    """Its log lines, oldest first: of its job's loggers, and Quarterjack's own about it.

    A page ends after its limit, a megabyte or some requests, so it may be short, even empty, and not the last.
    """
    page = call.scheduler.run_logs(run, **query.arguments())
    more = {"searched_to": page.searched_to, "sources": page.sources, "missing": page.missing}
    return call.answer(views.page_document(page, **more))


@router.get("/runs/{run}/why", responses=answers(views.ANSWER.model))
def why_run(call: Call, run: RunId, query: Annotated[WhyRunQuery, InQuery()]) -> Response:
    """Why it ran, ran late, or did not run."""
    return call.answer(call.scheduler.why_run(run, task=query.task))


@router.post("/runs/{run}/cancel", responses=answers(views.RUN.model))
def cancel_run(call: Call, run: RunId) -> Response:
    """Cancel a run: one that waits never starts, a running job sees it at its worker's next heartbeat."""
    return call.answer(call.scheduler.cancel_run(run))


@router.post("/runs/{run}/retry", responses=answers(views.RUN.model))
def retry_run(call: Call, run: RunId) -> Response:
    """Start the next attempt of a waiting run now."""
    return call.answer(call.scheduler.retry_run(run))


@router.post("/runs/{run}/replay", status_code=201, responses=answers(views.RUN.model, 201, "submitted"))
def replay_run(call: Call, run: RunId, body: ReplayRequest | None = None, key: IdempotencyKey = None) -> Response:
    """Repeat an ended run as a new one-off."""
    given = {} if body is None else body.given()
    done = call.scheduler.replay_run(run, **given, idempotency_key=key)
    return call.answer(done, 201, Location=call.address("runs", run_in_url(done.id)))


@router.post("/runs/{run}/reschedule", responses=answers(views.RUN.model))
def reschedule_run(call: Call, run: RunId, body: RescheduleRequest) -> Response:
    """Move a one-off that has not begun to another time."""
    return call.answer(call.scheduler.reschedule(run, **body.given()))


@router.post("/runs/{run}/requeue", responses=answers(views.RUN.model))
def requeue_run(call: Call, run: RunId, body: RequeueRequest) -> Response:
    """Move a one-off that has not begun to another queue, or give it another priority."""
    return call.answer(call.scheduler.requeue(run, **body.given()))


@router.post("/runs/{run}/reassign", responses=answers(views.RUN.model))
def reassign_run(call: Call, run: RunId, body: ReassignRequest) -> Response:
    """Assign a waiting run to another application version, whose workers start it within a minute."""
    return call.answer(call.scheduler.reassign_run(run, **body.given()))


async def _ended(call: ApiCall, run: str, seconds: float) -> bool:
    """Wait until a run has ended, or so many seconds; False as soon as the client is gone, for whom nothing is read any more.

    Raises NotFound.
    """
    pauses = pauses_until_ended(call.scheduler.session, call.scheduler.tenant, run, seconds)
    with suppress(NotFinished):
        async for pause in _in_threads(pauses):
            if await call.request.is_disconnected():
                return False
            await asyncio.sleep(min(pause, _NEXT))
    return True


async def _in_threads(items: Iterator[float]) -> AsyncIterator[float]:
    while (item := await run_in_threadpool(next, items, None)) is not None:
        yield item
