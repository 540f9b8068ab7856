"""Actions on one run: cancel, retry, reschedule, requeue, reassign, replay, redrive and dismiss; of a pipeline also: retry, skip a task.

Each is shown before it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, post, run_of
from quarterjack.console.forms import chosen, json_typed, new_token, time_typed
from quarterjack.console.pages.pipelines.tasks import failed, is_pipeline, unstarted
from quarterjack.console.words import pretty
from quarterjack.domain.history.entry import RunKind
from quarterjack.domain.run import FAILED, RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.views import Run

_WAIT = (RunState.QUEUED, RunState.RETRYING, RunState.CONTINUED, RunState.PARKED)
_SKIPS = "skip."  # before the name of a task, in the names of its box
_ENDED = (*FAILED, RunState.CANCELLED, RunState.SUCCEEDED)
Given = Mapping[str, Any]  # fields of the form as keyword arguments of the SDK
# Run id, token of the form, keyword arguments; returns the id of the run that is shown next.
Do = Callable[[Scheduler, str, str, Given], str]


@dataclass(frozen=True)
class RunAction:
    """An action on a run."""

    title: str  # of its button
    effect: str  # in a sentence
    states: tuple[RunState, ...]  # in which it is offered; the SDK decides
    verb: Verb  # that it needs
    do: Do
    asks: str | None = (
        None  # for a "payload", a time "at", a "queue" and a priority, a "version", a "task", or tasks to "skip"
    )
    one_off: bool = False  # offered for one-offs alone
    pipeline: bool = False  # offered for runs of pipelines alone
    danger: bool = False


def _redrive(scheduler: Scheduler, run_id: str, given: Given) -> str:
    done = scheduler.redrive(run_id, allow_repeat=True, **given).runs[0]  # the page has said what a LOST run is
    return done.redriven_as or run_id


def _dismiss(scheduler: Scheduler, run_id: str) -> str:
    scheduler.purge(run_id)
    return run_id


RUN_ACTIONS: Mapping[str, RunAction] = {
    "cancel": RunAction(
        "Cancel",
        "A waiting run never starts. A running job is told at its next heartbeat and can end in order.",
        (*_WAIT, RunState.RUNNING),
        Verb.CANCEL,
        lambda scheduler, run_id, token, given: scheduler.cancel_run(run_id).id,
        danger=True,
    ),
    "retry": RunAction(
        "Retry now",
        "Its next attempt starts now instead of at the end of its pause.",
        (RunState.RETRYING,),
        Verb.RETRY,
        lambda scheduler, run_id, token, given: scheduler.retry_run(run_id).id,
    ),
    "reschedule": RunAction(
        "Reschedule",
        "It starts at another time; its deadline moves with it. Only a run that has not started can be moved.",
        (RunState.QUEUED,),
        Verb.RESCHEDULE,
        lambda scheduler, run_id, token, given: scheduler.reschedule(run_id, **given).id,
        asks="at",
        one_off=True,
    ),
    "requeue": RunAction(
        "Requeue",
        "It waits in another queue, or with another priority. Its time stays. Only a run that has not started can be moved.",
        (RunState.QUEUED,),
        Verb.RESCHEDULE,
        lambda scheduler, run_id, token, given: scheduler.requeue(run_id, **given).id,
        asks="queue",
        one_off=True,
    ),
    "reassign": RunAction(
        "Reassign",
        "It is assigned to another application version, whose workers start it within a minute.",
        _WAIT,
        Verb.RETRY,
        lambda scheduler, run_id, token, given: scheduler.reassign_run(run_id, **given).id,
        asks="version",
    ),
    "repeat": RunAction(
        "Retry what failed",
        "A new run of the same revision repeats the tasks that did not succeed. Results of the others are kept. This run stays as it is.",
        (*FAILED, RunState.CANCELLED),
        Verb.REPLAY,
        lambda scheduler, run_id, token, given: scheduler.retry_pipeline(run_id, idempotency_key=token, **given).id,
        asks="skip",
        pipeline=True,
    ),
    "skip": RunAction(
        "Skip a task",
        "A task that has not begun is skipped. The tasks after it go on, and have null as its result.",
        (*_WAIT, RunState.RUNNING),
        Verb.SKIP,
        lambda scheduler, run_id, token, given: scheduler.skip_task(run_id, **given).run.id,
        asks="task",
        pipeline=True,
    ),
    "redrive": RunAction(
        "Redrive",
        "A new run repeats its work, once even if this is asked for several times, and this run leaves the list of dead runs.",
        tuple(FAILED),
        Verb.REDRIVE,
        lambda scheduler, run_id, token, given: _redrive(scheduler, run_id, given),
        asks="payload",
    ),
    "replay": RunAction(
        "Replay",
        "A new run repeats its work. This run stays as it is, also on the list of dead runs.",
        _ENDED,
        Verb.REPLAY,
        lambda scheduler, run_id, token, given: scheduler.replay_run(run_id, idempotency_key=token, **given).id,
        asks="payload",
    ),
    "dismiss": RunAction(
        "Dismiss",
        "This run leaves the list of dead runs and is not repeated. It stays in the history.",
        tuple(FAILED),
        Verb.PURGE,
        lambda scheduler, run_id, token, given: _dismiss(scheduler, run_id),
        danger=True,
    ),
}


@dataclass(frozen=True)
class KnownPayload:
    """A payload that may be shown."""

    value: Any


def payload_of(call: PageCall, run: Run) -> KnownPayload | None:
    """The payload of a run: its own, or that of its schedule's current revision if the run is a fire of it.

    None: the payload is hidden, belongs to an earlier revision, or is deleted.
    """
    if run.masked:
        return None
    if run.payload is not None:
        return KnownPayload(run.payload)
    if run.schedule is None or run.kind is not RunKind.FIRE:
        return None
    try:
        schedule = call.scheduler.get_schedule(run.schedule)
    except QuarterjackError:  # it is deleted, or may not be read
        return None
    known = schedule.revision == run.revision and not schedule.masked
    return KnownPayload(schedule.payload) if known else None


def actions_of(call: PageCall, run: Run) -> Mapping[str, RunAction]:
    """The actions that make sense in the run's state and that the actor may do."""
    if run.skipped is not None:
        return {}
    return {
        word: one
        for word, one in RUN_ACTIONS.items()
        if run.state in one.states and _is_for(call, one, run) and call.may(one.verb, run.job)
    }


def _is_for(call: PageCall, action: RunAction, run: Run) -> bool:
    if action.asks == "version" and (run.app_version is None or not call.may(Verb.READ_INSTALLATION, some=True)):
        return False
    return not (action.one_off and run.schedule) and (is_pipeline(run) or not action.pipeline)


def preview_action(call: PageCall) -> Response:
    """What an action would do to a run, and the form that does it."""
    word = chosen(call.param("do"), RUN_ACTIONS, "do")
    return _form(call, word, {"token": new_token(), "task": call.param("task") or ""}, None)


def act(call: PageCall) -> Response:
    """Do it, and show the run. Input that cannot be used is shown again with its fault."""
    word = chosen(call.form.get("do"), RUN_ACTIONS, "do")
    run_id, token = run_of(call), call.form.get("token") or new_token()
    try:
        given = _changed(call, run_id, _typed(RUN_ACTIONS[word], call.form))
        shown = RUN_ACTIONS[word].do(call.acting(), run_id, token, given)
    except InvalidInput as problem:
        return _form(call, word, call.form, problem)
    return call.go(call.of_run(shown, done=word))


def _form(call: PageCall, word: str, form: Mapping[str, str], fault: InvalidInput | None) -> Response:
    run = call.scheduler.get_run(run_of(call))
    call.require(RUN_ACTIONS[word].verb, run.job)
    own = payload_of(call, run) if RUN_ACTIONS[word].asks == "payload" else None
    return call.render(
        "runs/act_run.html",
        action=RUN_ACTIONS[word],
        word=word,
        run=run,
        choices=_choices(call, RUN_ACTIONS[word], run),
        given={
            "payload": pretty(own.value) if own else "",
            "at": "",
            "token": "",
            "reason": "",
            "task": "",
            "version": "",
            "queue": "",
            "priority": "",
            "as_it_was": "",
            **form,
        },
        fault=fault,
    )


def _choices(call: PageCall, action: RunAction, run: Run) -> Sequence[str]:
    """Names of the tasks, or of the application versions, that the form offers."""
    if action.asks == "version":
        versions = call.scheduler.list_application_versions()
        return [one.version_name for one in versions if one.moved_to is None and one.version_name != run.app_version]
    if not action.pipeline:
        return ()
    seen = call.scheduler.pipeline_run(run.id)
    return [task.name for task in (unstarted(seen) if action.asks == "task" else failed(seen))]


def _changed(call: PageCall, run_id: str, given: Given) -> Given:
    """The keywords without a payload that equals the run's own: it need not be stored again, and a redrive finds it."""
    own = payload_of(call, call.scheduler.get_run(run_id)) if "payload" in given else None
    is_own = own is not None and given["payload"] == own.value
    return {field: value for field, value in given.items() if field != "payload" or not is_own}


def _typed(action: RunAction, form: Mapping[str, str]) -> Given:
    """The typed field as a keyword of the SDK; an empty field means the run's own value."""
    text = form.get(action.asks or "", "").strip()
    if action.asks == "at":
        return {"at": time_typed(text, "at")}
    if action.asks in ("task", "version"):
        return {action.asks: text}
    if action.asks == "queue":
        return {name: form[name].strip() for name in ("queue", "priority") if form.get(name, "").strip()}
    if action.asks == "skip":
        return {"skip": [name.removeprefix(_SKIPS) for name in form if name.startswith(_SKIPS)]}
    payload = {"payload": json_typed(text)} if text else {}
    return payload | ({"as_it_was": True} if form.get("as_it_was") and action.asks == "payload" else {})


ROUTES = (
    get("/run/{run}/act", preview_action),
    post("/run/{run}/act", act),
)
