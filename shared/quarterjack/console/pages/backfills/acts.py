"""Acts on one backfill: pause, resume, cancel. Each is shown with numbers before it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response

from quarterjack.console.calls import PageCall, chosen, schedule_of
from quarterjack.domain.tenants.access import Verb
from quarterjack.sdk.backfills import Backfill
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.state.backfill import BackfillState
from quarterjack.web.urls import name_of_url


@dataclass(frozen=True)
class BackfillAct:
    """What can be done to a backfill."""

    title: str  # of its button
    effect: str  # in a sentence
    states: tuple[BackfillState, ...]  # in which it is offered; the SDK decides
    verb: Verb  # that it needs
    do: Callable[[Scheduler, str, str], Backfill]  # schedule, id
    danger: bool = False


BACKFILL_ACTS: Mapping[str, BackfillAct] = {
    "pause": BackfillAct(
        "Pause",
        "No further run of it starts until it is resumed. Runs that have started go on, with their retries.",
        (BackfillState.RUNNING,),
        Verb.PAUSE,
        lambda scheduler, name, identity: scheduler.pause_backfill(name, identity),
    ),
    "resume": BackfillAct(
        "Resume",
        "It goes on with its next fires.",
        (BackfillState.PAUSED,),
        Verb.RESUME,
        lambda scheduler, name, identity: scheduler.resume_backfill(name, identity),
    ),
    "cancel": BackfillAct(
        "Cancel",
        "No run and no further attempt of it starts. Running attempts go on to their end. It cannot be undone; "
        "another backfill of the same span runs the rest.",
        (BackfillState.RUNNING, BackfillState.PAUSED),
        Verb.CANCEL,
        lambda scheduler, name, identity: scheduler.cancel_backfill(name, identity),
        danger=True,
    ),
}


def preview(call: PageCall) -> Response:
    """What an act would do to a backfill, and the form that does it."""
    word = chosen(call.param("do"), BACKFILL_ACTS, "do")
    found = call.scheduler.get_backfill(schedule_of(call), backfill_of(call))
    call.require(BACKFILL_ACTS[word].verb, some=True)
    return call.render("backfills/act.html", act=BACKFILL_ACTS[word], word=word, backfill=found)


def act(call: PageCall) -> Response:
    """Do it, and show the backfill. A second time it changes nothing."""
    word, name, identity = chosen(call.form.get("do"), BACKFILL_ACTS, "do"), schedule_of(call), backfill_of(call)
    BACKFILL_ACTS[word].do(call.acting(), name, identity)
    return call.go(call.of_schedule(name, "backfills", identity))


def backfill_of(call: PageCall) -> str:
    """The id of the backfill that the address names."""
    return name_of_url(call.request.path_params["backfill"])
