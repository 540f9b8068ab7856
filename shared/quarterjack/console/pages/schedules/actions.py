"""Actions on schedules: each is shown with numbers before it is done, takes a reason, and is done by one call of the SDK.

A form holds the token of its page, so that a form that is sent twice acts once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post, schedule_of
from quarterjack.console.forms import chosen, new_token, number_typed
from quarterjack.console.pages.schedules.search import conditions
from quarterjack.domain.run import WAITING, RunState
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.schedules.reading import MOST_FIRES
from quarterjack.web.urls import cursor_in_url, cursor_of_url

_SHOWN = 100  # names of a preview


@dataclass(frozen=True)
class ScheduleAction:
    """An action on a schedule."""

    title: str  # of its button
    verb: Verb  # that it needs
    effect: str  # in a sentence, for one schedule
    do: Callable[[Scheduler, str, int | None, str, str | None], object]  # name, expected revision, token, reason
    done: str  # afterwards
    danger: bool = False


ONE: Mapping[str, ScheduleAction] = {
    "pause": ScheduleAction(
        "Pause",
        Verb.PAUSE,
        "No further run of it starts until it is resumed. A running attempt continues.",
        lambda scheduler, name, revision, token, reason: scheduler.pause_schedule(
            name, reason=reason, expected_revision=revision, client_token=token
        ),
        "Paused: no further run of it starts.",
    ),
    "resume": ScheduleAction(
        "Resume",
        Verb.RESUME,
        "Its fires begin again with the next one. Its option catch-up decides which missed fires run.",
        lambda scheduler, name, revision, token, reason: scheduler.resume_schedule(
            name, expected_revision=revision, client_token=token
        ),
        "Resumed.",
    ),
    "trigger": ScheduleAction(
        "Trigger now",
        Verb.TRIGGER,
        "One run of its job starts now, with its payload, in addition to its fires.",
        lambda scheduler, name, revision, token, reason: scheduler.trigger(
            name, expected_revision=revision, idempotency_key=token
        ),
        "Triggered: its run is listed as soon as it has started.",
    ),
    "skip": ScheduleAction(
        "Skip next",
        Verb.SKIP,
        "Its next fire does not run. The one after it does.",
        lambda scheduler, name, revision, token, reason: scheduler.skip_next(
            name, expected_revision=revision, client_token=token
        ),
        "The next fire is skipped.",
    ),
    "delete": ScheduleAction(
        "Delete",
        Verb.DELETE,
        "No further run of it starts. A running attempt continues, and its runs stay readable. It cannot be undone.",
        lambda scheduler, name, revision, token, reason: scheduler.delete_schedule(
            name, expected_revision=revision, client_token=token
        ),
        "Deleted: no further run of it starts.",
        danger=True,
    ),
}
MANY = {"pause": "Pause", "resume": "Resume", "trigger": "Trigger", "delete": "Delete"}


def preview_one(call: PageCall) -> Response:
    """What an action would do to a schedule, and the form that does it."""
    word, name = chosen(call.param("do"), ONE, "do"), schedule_of(call)
    schedule = call.scheduler.get_schedule(name)
    call.require(ONE[word].verb, schedule.job)
    return call.render(
        "schedules/act_one.html",
        action=ONE[word],
        word=word,
        schedule=schedule,
        coming=part(lambda: _within_a_day(call, name)),
        under_way=part(lambda: _under_way(call, name)),
        most=MOST_FIRES,
        token=new_token(),
    )


def _within_a_day(call: PageCall, name: str) -> int:
    """How many fires the next 24 hours have."""
    end = call.now + timedelta(days=1)
    return sum(1 for fire in call.scheduler.preview(name, MOST_FIRES) if fire <= end)


def _under_way(call: PageCall, name: str) -> Mapping[str, int]:
    """How many of its last runs wait and run."""
    runs = call.scheduler.list_runs(name, newest_first=True, upcoming=False, limit=_SHOWN).items
    states = [run.state for run in runs]
    running = states.count(RunState.RUNNING)
    return {"running": running, "waiting": sum(1 for state in states if state in WAITING)}


def act_on_one(call: PageCall) -> Response:
    """Do the action, to the revision that was shown."""
    word, name, form = chosen(call.form.get("do"), ONE, "do"), schedule_of(call), call.form
    revision, token = number_typed(form.get("revision")), form.get("token") or new_token()
    ONE[word].do(call.acting(), name, revision, token, call.reason)
    if word == "delete":  # a deleted schedule has no page
        return call.go(call.address("schedules", deleted=name))
    return call.go(call.of_schedule(name, done=word))


def preview_many(call: PageCall) -> Response:
    """What an action would do to all schedules that a search finds: a dry run."""
    word, text = chosen(call.param("do"), MANY, "do"), call.param("q")
    names = " ".join(call.request.query_params.getlist("name"))
    call.require(ONE[word].verb, conditions(text).get("job"), some=bool(names))
    with call.in_time() as stop:
        found = call.scheduler.bulk(word, **_which(text, names), dry_run=True, stop=stop)  # type: ignore[arg-type]
    return call.render(
        "schedules/act_many.html",
        title=MANY[word],
        word=word,
        q=text or "",
        names=names,
        found=found,
        shown=found.done[:_SHOWN],
        token=new_token(),
    )


def many_for(call: PageCall, job: str | None, *, some: bool) -> Mapping[str, str]:
    """The actions on many schedules that the actor may do: on those of a job, of all jobs, or with ``some`` on named ones."""
    return {word: title for word, title in MANY.items() if call.may(ONE[word].verb, job, some=some)}


def _which(text: str | None, names: str) -> dict[str, Any]:
    """The schedules that a search finds, or those that were ticked, as conditions of ``bulk``. Raises InvalidInput."""
    if names:
        return {"names": names.split()}
    if not text:
        raise InvalidInput("name", None, "names no schedule", "tick some in the list, or search for them first")
    return conditions(text)


def act_on_many(call: PageCall) -> Response:
    """Do the action for as long as a request may take; the answer has a button that continues."""
    form = call.form
    word, text, token = chosen(form.get("do"), MANY, "do"), form.get("q"), form.get("token") or new_token()
    of_act: Mapping[str, dict[str, Any]] = {"pause": {"reason": call.reason}, "trigger": {"client_token": token}}
    with call.in_time() as stop:
        done = call.acting().bulk(
            word,  # type: ignore[arg-type]
            **_which(text, form.get("names", "")),
            **of_act.get(word, {}),
            cursor=cursor_of_url(form.get("cursor") or None),
            stop=stop,
        )
    return call.render(
        "schedules/acted_many.html",
        title=MANY[word],
        word=word,
        q=text or "",
        names=form.get("names", ""),
        done=done,
        total=done.count + (number_typed(form.get("before")) or 0),
        cursor=cursor_in_url(done.cursor),
        token=token,
        reason=form.get("reason", ""),
    )


ROUTES = (
    get("/schedules/act", preview_many),
    post("/schedules/act", act_on_many),
    get("/schedule/{name}/act", preview_one),
    post("/schedule/{name}/act", act_on_one),
)
