"""What answers runs that wait: signals, links for people without an account, and the callbacks of outside systems."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Depends, Request
from pydantic import Field
from starlette.responses import Response

from quarterjack.web import views
from quarterjack.web.calls import Call
from quarterjack.web.fields import NAME, ApiBody, CallbackToken, LinkId, Payload, RunId, Seconds, SignalName
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.routes.routing import answers, routes_of

router = routes_of("runs")

AnswerBody = Annotated[Any, Body(description="any JSON value up to 64 KB", examples=[{"ok": True}])]


class LinkRequest(ApiBody):
    """A link to make."""

    name: str = Field(pattern=NAME, description="of the signal", examples=["approval"])
    payload: Payload = Field(None, description="the answer that it gives", examples=[{"ok": True}])
    to: str = Field(
        min_length=1,
        description="for whom it is, e.g. a mail address",
        examples=["ada@acme.example"],
        json_schema_extra={"pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"},
    )
    base: str = Field(
        description="URL of the console",
        examples=["https://jobs.example.com/console"],
        json_schema_extra={"pattern": r"^https?://[^/?#\s]+[^?#\s]*$"},
    )
    expires_in: Seconds = Field(604_800.0, ge=1, le=31_622_400, description="seconds, at most 366 days")


async def _check_answer(request: Request) -> None:
    """Raises RefusedRequest 400 for an empty body of a declared form: a client lost its content, and an answer is for good."""
    kind = request.headers.get("content-type")
    if kind is not None and not await request.body():
        remedy = "send the answer as JSON, e.g. null; or neither a body nor a Content-Type, for null"
        raise RefusedRequest(400, f"the body is empty, and declared as {kind[:80]!r}", remedy, field="body")


_ANSWER = [Depends(_check_answer)]


class FailRequest(ApiBody):
    """Why an outside system failed."""

    error: str = Field(min_length=1, max_length=1_000, pattern=r"\S", examples=["the card was declined"])


@router.post("/runs/{run}/signals/{name}", dependencies=_ANSWER, responses=answers(views.SIGNAL.model))
def signal(call: Call, run: RunId, name: SignalName, body: AnswerBody = None) -> Response:
    """Answer a run that waits for a signal, also before it does. The body is the answer.

    Without a body and Content-Type the answer is null, as far as the schema of the wait takes that.
    The first answer counts: a later request changes nothing, and `outcome` says what came first.
    """
    return call.answer(call.scheduler.signal(run, name, body))


@router.post(
    "/runs/{run}/links",
    status_code=201,
    responses=answers(views.SIGNAL_LINK.model, 201, "made; only this answer has `url`"),
)
def make_link(call: Call, run: RunId, body: LinkRequest) -> Response:
    """Make a link by which a person without an account answers a run that waits. Whoever has its `url` may give the answer."""
    return call.answer(call.scheduler.signal_link(run, **body.given()), 201)


@router.get("/runs/{run}/links", responses=answers(views.items_model(views.RUN_LINK.model)))
def list_links(call: Call, run: RunId) -> Response:
    """The links of a run, oldest first, without their addresses."""
    return call.answer({"items": call.scheduler.list_links(run)})


@router.delete("/runs/{run}/links/{link}", responses=answers(views.RUN_LINK.model))
def revoke_link(call: Call, run: RunId, link: LinkId) -> Response:
    """Revoke a link: it gives no answer any more. One that it gave before stays."""
    return call.answer(call.scheduler.revoke_link(run, link))


@router.post("/callbacks/{token}/complete", dependencies=_ANSWER, responses=answers(views.SIGNAL.model))
def complete(call: Call, token: CallbackToken, body: AnswerBody = None) -> Response:
    """Complete what a run waits for, by its callback token. The body is the result, as that of a signal."""
    return call.answer(call.scheduler.complete(token, body))


@router.post("/callbacks/{token}/fail", responses=answers(views.SIGNAL.model))
def fail(call: Call, token: CallbackToken, body: FailRequest) -> Response:
    """Fail what a run waits for, by its callback token: the wait raises CallbackFailed in the job."""
    return call.answer(call.scheduler.fail(token, body.error))


@router.post("/callbacks/{token}/heartbeat", responses=answers(views.RUN.model))
def heartbeat(call: Call, token: CallbackToken) -> Response:
    """Say that what a run waits for goes on, by its callback token. `wake_at` of the run is the new end of its wait."""
    return call.answer(call.scheduler.heartbeat(token))
