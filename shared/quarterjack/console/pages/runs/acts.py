"""Acts on one run: cancel, retry, reschedule, replay, redrive and dismiss. Each is shown before it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen, new_token, run_of
from quarterjack.console.inputs import json_typed, time_typed
from quarterjack.console.pages.runs.payload import payload_of
from quarterjack.console.words import pretty
from quarterjack.domain.run import FAILED, RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.views import Run
from quarterjack.web.urls import run_in_url, run_of_url

_WAIT = (RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED)
_ENDED = (*FAILED, RunState.CANCELLED, RunState.SUCCEEDED)
Given = Mapping[str, Any]  # fields of the form as keyword arguments of the SDK
# Run id, token of the form, keyword arguments; returns the id of the run that is shown next.
Do = Callable[[Scheduler, str, str, Given], str]


@dataclass(frozen=True)
class RunAct:
    """What can be done to a run."""

    title: str  # of its button
    effect: str  # in a sentence
    states: tuple[RunState, ...]  # in which it is offered; the SDK decides
    verb: Verb  # that it needs
    do: Do
    asks: str | None = None  # for a "payload", or a time "at"
    one_off: bool = False  # offered for one-offs alone
    danger: bool = False


def _redrive(scheduler: Scheduler, run_id: str, given: Given) -> str:
    done = scheduler.redrive(run_id, allow_repeat=True, **given).runs[0]  # the page has said what a LOST run is
    return done.redriven_as or run_id


def _dismiss(scheduler: Scheduler, run_id: str) -> str:
    scheduler.purge(run_id)
    return run_id


RUN_ACTS: Mapping[str, RunAct] = {
    "cancel": RunAct(
        "Cancel",
        "If it waits, it never starts. If it runs, its job is told at the next heartbeat and may end in order.",
        (*_WAIT, RunState.RUNNING),
        Verb.CANCEL,
        lambda scheduler, run_id, token, given: scheduler.cancel_run(run_id).id,
        danger=True,
    ),
    "retry": RunAct(
        "Retry now",
        "Its next attempt starts now instead of at the end of its pause.",
        (RunState.RETRYING,),
        Verb.RETRY,
        lambda scheduler, run_id, token, given: scheduler.retry_run(run_id).id,
    ),
    "reschedule": RunAct(
        "Reschedule",
        "It starts at another time; its deadline moves with it. Only a run that has not begun can be moved.",
        (RunState.QUEUED,),
        Verb.RESCHEDULE,
        lambda scheduler, run_id, token, given: scheduler.reschedule(run_id, **given).id,
        asks="at",
        one_off=True,
    ),
    "redrive": RunAct(
        "Redrive",
        "A new run does its work again, once however often this is asked for, and this run leaves the list of dead runs.",
        tuple(FAILED),
        Verb.REDRIVE,
        lambda scheduler, run_id, token, given: _redrive(scheduler, run_id, given),
        asks="payload",
    ),
    "replay": RunAct(
        "Replay",
        "A new run does the same work again. This run stays as it is, also on the list of dead runs.",
        _ENDED,
        Verb.REPLAY,
        lambda scheduler, run_id, token, given: scheduler.replay_run(run_id, idempotency_key=token, **given).id,
        asks="payload",
    ),
    "dismiss": RunAct(
        "Dismiss",
        "This run leaves the list of dead runs and is not repeated. It stays in the history.",
        tuple(FAILED),
        Verb.PURGE,
        lambda scheduler, run_id, token, given: _dismiss(scheduler, run_id),
        danger=True,
    ),
}


def acts_of(call: PageCall, run: Run) -> Mapping[str, RunAct]:
    """What is offered for a run as it is, to who may do it."""
    if run.skipped is not None:
        return {}
    return {
        word: act
        for word, act in RUN_ACTS.items()
        if run.state in act.states and not (act.one_off and run.schedule) and call.may(act.verb, run.job)
    }


def preview_run_act(call: PageCall) -> Response:
    """What an act would do to a run, and the form that does it."""
    word = chosen(call.param("do"), RUN_ACTS, "do")
    return _form(call, word, {"token": new_token()}, None)


def act_on_run(call: PageCall) -> Response:
    """Do it, and show the run. What was typed and cannot be used is shown with its fault."""
    word = chosen(call.form.get("do"), RUN_ACTS, "do")
    run_id, token = run_of_url(run_of(call)), call.form.get("token") or new_token()
    try:
        given = _changed(call, run_id, _typed(RUN_ACTS[word], call.form))
        shown = RUN_ACTS[word].do(call.acting(), run_id, token, given)
    except InvalidInput as problem:
        return _form(call, word, call.form, problem)
    return call.go(call.address("run", run_in_url(shown), done=word))


def _form(call: PageCall, word: str, form: Mapping[str, str], fault: InvalidInput | None) -> Response:
    run = call.scheduler.get_run(run_of_url(run_of(call)))
    call.require(RUN_ACTS[word].verb, run.job)
    own = payload_of(call, run) if RUN_ACTS[word].asks == "payload" else None
    return call.render(
        "runs/act_run.html",
        200 if fault is None else 422,
        act=RUN_ACTS[word],
        word=word,
        run=run,
        given={"payload": pretty(own.value) if own else "", "at": "", "token": "", "reason": "", **form},
        fault=fault,
        now=call.now,
    )


def _changed(call: PageCall, run_id: str, given: Given) -> Given:
    """Without a payload that is the run's own: it need not be stored again, and a redrive finds the one before."""
    own = payload_of(call, call.scheduler.get_run(run_id)) if "payload" in given else None
    return {} if own is not None and given["payload"] == own.value else given


def _typed(act: RunAct, form: Mapping[str, str]) -> Given:
    """What was typed as keywords; nothing stands for what the run has itself."""
    text = form.get(act.asks or "", "").strip()
    if act.asks == "at":
        return {"at": time_typed(text, "at")}
    return {"payload": json_typed(text)} if text else {}
