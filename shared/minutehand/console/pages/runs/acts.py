"""Acts on runs: cancel, retry and replay one; redrive the dead runs that a filter finds. Each is shown before it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response

from minutehand.console.calls import PageCall, chosen, new_token, run_of
from minutehand.console.pages.runs.dead import dead_filter
from minutehand.domain.run import RunState
from minutehand.sdk.scheduler import Scheduler
from minutehand.sdk.views import Run
from minutehand.web.urls import cursor_in_url, cursor_of_url, run_of_url

_SHOWN = 100  # runs of a preview
_READ = 1_000  # dead runs that a preview counts
_WAIT = (RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED)
_FAILED = (RunState.DEAD, RunState.LOST, RunState.EXPIRED, RunState.CANCELLED, RunState.SUCCEEDED)


@dataclass(frozen=True)
class RunAct:
    """What can be done to a run."""

    title: str  # of its button
    effect: str  # in a sentence
    states: tuple[RunState, ...]  # in which it is offered; the SDK decides
    do: Callable[[Scheduler, str, str], Run]  # id, token; the run to look at then


RUN_ACTS: Mapping[str, RunAct] = {
    "cancel": RunAct(
        "Cancel",
        "If it waits, it never starts. If it runs, its job is told at the next heartbeat and may end in order.",
        (*_WAIT, RunState.RUNNING),
        lambda scheduler, run_id, token: scheduler.cancel_run(run_id),
    ),
    "retry": RunAct(
        "Retry now",
        "Its next attempt starts now instead of at the end of its pause.",
        (RunState.RETRYING,),
        lambda scheduler, run_id, token: scheduler.retry_run(run_id),
    ),
    "replay": RunAct(
        "Replay",
        "A new run does the same work again with the same payload. This run stays as it is.",
        _FAILED,
        lambda scheduler, run_id, token: scheduler.replay_run(run_id, idempotency_key=token),
    ),
}


def preview_run_act(call: PageCall) -> Response:
    """What an act would do to a run, and the form that does it."""
    word = chosen(call.param("do"), RUN_ACTS, "do")
    run = call.scheduler.get_run(run_of_url(run_of(call)))
    return call.render("runs/act_run.html", act=RUN_ACTS[word], word=word, run=run, token=new_token(), now=call.now)


def act_on_run(call: PageCall) -> Response:
    """Do it, and show the run."""
    word = chosen(call.form.get("do"), RUN_ACTS, "do")
    run_id, token = run_of_url(run_of(call)), call.form.get("token") or new_token()
    return call.go(call.of_run(RUN_ACTS[word].do(call.acting(), run_id, token).id))


def preview_redrive(call: PageCall) -> Response:
    """How many dead runs a filter finds, and which."""
    given, conditions = dead_filter(call, call.request.query_params)
    with call.in_time() as stop:
        found = call.scheduler.redrive(**conditions, dry_run=True, limit=_READ, stop=stop)
    return call.render("runs/redrive.html", given=given, found=found, shown=found.runs[:_SHOWN], now=call.now)


def redrive(call: PageCall) -> Response:
    """Repeat them for as long as a request may take; the answer has a button that goes on."""
    given, conditions = dead_filter(call, call.form)
    before = call.form.get("before", "")
    with call.in_time() as stop:
        cursor = cursor_of_url(call.form.get("cursor") or None)
        done = call.acting().redrive(**conditions, cursor=cursor, stop=stop)
    return call.render(
        "runs/redriven.html",
        given=given,
        done=done,
        total=done.count + (int(before) if before.isdigit() else 0),
        cursor=cursor_in_url(done.cursor),
        reason=call.form.get("reason", ""),
    )
