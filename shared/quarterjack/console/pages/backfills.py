"""Backfills: the list, one of them, a new one, and the actions on one. Each is shown with numbers before it is done.

The times in the form of a new backfill are read in the schedule's zone. A dry run counts its fires, and those that have a run already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post, schedule_of
from quarterjack.console.forms import chosen, in_form, json_typed, new_token, number_typed, time_typed
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import AlreadyExists, Conflict, InvalidInput, QuarterjackError
from quarterjack.sdk.backfills import Backfill
from quarterjack.sdk.schedule_views import Schedule
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.state.backfill import BackfillOrder, BackfillState
from quarterjack.timing import zone
from quarterjack.web.urls import name_in_url, name_of_url

_ROWS = 50  # backfills, and runs of one, on a page
STATES = tuple(str(state) for state in BackfillState if state is not BackfillState.PLANNED)
_TEXTS = ("start", "end", "order", "concurrency", "payload", "token", "revision", "reason")
_FLAGS = ("current", "allow_repeat")
_REFUSED = (InvalidInput, AlreadyExists, Conflict)  # that are shown beside the form
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class BackfillAction:
    """An action on a backfill."""

    title: str  # of its button
    effect: str  # in a sentence
    states: tuple[BackfillState, ...]  # in which it is offered; the SDK decides
    verb: Verb  # that it needs
    do: Callable[[Scheduler, str, str], Backfill]  # schedule, id
    danger: bool = False


BACKFILL_ACTIONS: Mapping[str, BackfillAction] = {
    "pause": BackfillAction(
        "Pause",
        "No further run of it starts until it is resumed. Started runs continue, with their retries.",
        (BackfillState.RUNNING,),
        Verb.PAUSE,
        Scheduler.pause_backfill,
    ),
    "resume": BackfillAction(
        "Resume",
        "It continues with its next fires.",
        (BackfillState.PAUSED,),
        Verb.RESUME,
        Scheduler.resume_backfill,
    ),
    "cancel": BackfillAction(
        "Cancel",
        "No run and no further attempt of it starts. Running attempts continue to their end. It cannot be undone; "
        "another backfill of the same span runs the rest.",
        (BackfillState.RUNNING, BackfillState.PAUSED),
        Verb.CANCEL,
        Scheduler.cancel_backfill,
        danger=True,
    ),
}


def show_backfills(call: PageCall) -> Response:
    """The list, newest first."""
    state: Any = call.param("state")  # the SDK refuses another word
    found = call.scheduler.backfills(state=state, limit=_ROWS, cursor=call.cursor)
    more = call.further(found.cursor, "backfills", state=state)
    return call.render("backfills/index.html", state=state or "", states=STATES, page=found, more=more)


def show_backfill(call: PageCall) -> Response:
    """One backfill: its progress, its runs, and the actions on it."""
    name, identity = schedule_of(call), _backfill_of(call)
    found = call.scheduler.get_backfill(name, identity)
    cursor = call.cursor
    runs = part(lambda: call.scheduler.backfill_runs(name, identity, limit=_ROWS, cursor=cursor))
    offered = {word: one for word, one in BACKFILL_ACTIONS.items() if found.state in one.states}
    return call.render(
        "backfills/detail.html",
        backfill=found,
        runs=runs,
        actions={word: one for word, one in offered.items() if call.may(one.verb, some=True)},
        more=None
        if runs.value is None
        else call.further(runs.value.cursor, "schedule", name_in_url(name), "backfills", identity),
    )


def begin_form(call: PageCall) -> Response:
    """The empty form: the last 24 hours. Its span may stand in the address."""
    schedule = call.scheduler.get_schedule(schedule_of(call))
    call.require(Verb.BACKFILL, schedule.job)
    end = call.now.astimezone(zone(schedule.timezone)).replace(second=0, microsecond=0)
    given = {name: call.param(name) or "" for name in (*_TEXTS, *_FLAGS)}
    given |= {"start": given["start"] or in_form(end - _DAY), "end": given["end"] or in_form(end)}
    given |= {"order": given["order"] or "oldest", "concurrency": given["concurrency"] or "10"}
    return _form(call, schedule, {**given, "token": new_token(), "revision": str(schedule.revision)})


def begin(call: PageCall) -> Response:
    """Show what the form would run, or begin."""
    name = schedule_of(call)
    schedule = call.scheduler.get_schedule(name)
    given = {word: call.form.get(word, "").strip() for word in (*_TEXTS, *_FLAGS)}
    begins = call.form.get("do") == "begin"
    try:
        arguments = _arguments(given, schedule)
        if begins:
            arguments["client_token"] = given["token"] or new_token()
        found = call.acting().backfill(name, **arguments, dry_run=not begins)
    except _REFUSED as problem:
        return _form(call, schedule, given, fault=problem)
    if found.id is None:
        return _form(call, schedule, given, planned=found)
    return call.go(call.of_schedule(name, "backfills", found.id))


def _arguments(given: Mapping[str, str], schedule: Schedule) -> dict[str, Any]:
    """The fields of the form as keywords of the SDK. Raises InvalidInput."""
    concurrency, local = number_typed(given["concurrency"]), zone(schedule.timezone)
    if concurrency is None:
        raise InvalidInput("concurrency", given["concurrency"], "is not a whole number", "write 1 to 100")
    payload = {"payload": json_typed(given["payload"])} if given["payload"] else {}
    return {
        "start": time_typed(given["start"], "start", local),
        "end": time_typed(given["end"], "end", local),
        "order": given["order"],
        "concurrency": concurrency,
        **{flag: given[flag] == "yes" for flag in _FLAGS},
        "expected_revision": number_typed(given["revision"]),
        **payload,
    }


def _form(
    call: PageCall,
    schedule: Schedule,
    given: Mapping[str, str],
    *,
    planned: Backfill | None = None,
    fault: QuarterjackError | None = None,
) -> Response:
    return call.render(
        "backfills/begin.html",
        schedule=schedule,
        given=given,
        orders=[str(order) for order in BackfillOrder],
        planned=planned,
        missing=None if planned is None else planned.total - (planned.there or 0),
        fault=fault,
        zone=zone(schedule.timezone),
    )


def preview_action(call: PageCall) -> Response:
    """What an action would do to a backfill, and the form that does it."""
    word = chosen(call.param("do"), BACKFILL_ACTIONS, "do")
    found = call.scheduler.get_backfill(schedule_of(call), _backfill_of(call))
    call.require(BACKFILL_ACTIONS[word].verb, some=True)
    return call.render("backfills/act.html", action=BACKFILL_ACTIONS[word], word=word, backfill=found)


def act(call: PageCall) -> Response:
    """Do it, and show the backfill. A second time it changes nothing."""
    word, name, identity = chosen(call.form.get("do"), BACKFILL_ACTIONS, "do"), schedule_of(call), _backfill_of(call)
    BACKFILL_ACTIONS[word].do(call.acting(), name, identity)
    return call.go(call.of_schedule(name, "backfills", identity))


def _backfill_of(call: PageCall) -> str:
    """The id of the backfill that the address names."""
    return name_of_url(call.request.path_params["backfill"])


ROUTES = (
    get("/backfills", show_backfills),
    get("/schedule/{name}/backfill", begin_form),
    post("/schedule/{name}/backfill", begin),
    get("/schedule/{name}/backfills/{backfill}", show_backfill),
    get("/schedule/{name}/backfills/{backfill}/act", preview_action),
    post("/schedule/{name}/backfills/{backfill}/act", act),
)
