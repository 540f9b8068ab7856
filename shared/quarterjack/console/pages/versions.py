"""Application versions: which there are, and the actions on one: make it the latest, retire it, reassign its waiting runs.

Each is shown before it is done. The first two concern all tenants; the third concerns runs of this tenant, one call for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post
from quarterjack.console.forms import chosen, number_typed
from quarterjack.domain.run import WAITING
from quarterjack.domain.tenants.access import Verb
from quarterjack.errors import Conflict, InvalidInput, NotFound
from quarterjack.sdk.history.versions import ApplicationVersion
from quarterjack.sdk.views import Page
from quarterjack.web.urls import cursor_in_url, cursor_of_url, name_in_url, name_of_url

_READ = 200  # runs of a preview
_AT_ONCE = 50  # runs that are read before the time of the request is looked at
_SHOWN = 100  # runs that a page names


@dataclass(frozen=True)
class VersionAction:
    """An action on an application version."""

    title: str  # of its button
    effect: str  # in a sentence
    verbs: tuple[Verb, ...]  # that it needs
    asks_to: bool  # for the version that takes the runs
    done: str = ""  # afterwards
    danger: bool = False


VERSION_ACTIONS: Mapping[str, VersionAction] = {
    "latest": VersionAction(
        "Make latest",
        "New runs are assigned to it, in all tenants and within 5 s. Runs that were sent before keep their version.",
        (Verb.SET_VERSION,),
        asks_to=False,
        done="It is the latest version: new runs are assigned to it, or the share of them that it has.",
    ),
    "retire": VersionAction(
        "Retire",
        "It gets no new runs, and another version starts the runs that wait for it: of all tenants, within 5 s. "
        "To make it the latest again ends that.",
        (Verb.SET_VERSION,),
        asks_to=True,
        done="Retired: another version starts its runs.",
        danger=True,
    ),
    "reassign": VersionAction(
        "Reassign runs",
        "Its waiting runs of this tenant are assigned to another version, whose workers start them within a minute.",
        (Verb.RETRY, Verb.READ_RUNS),
        asks_to=True,
    ),
}


def show(call: PageCall) -> Response:
    """All versions, the latest first, and what may be done to each."""
    versions = part(call.scheduler.list_application_versions)
    found = versions.value or ()
    return call.render(
        "operations/versions.html",
        versions=versions,
        actions={one.version_name: _actions_of(call, one, found) for one in found},
        attempts=part(lambda: _attempts(call)) if call.param("attempts") == "yes" else None,
        done=VERSION_ACTIONS.get(call.param("done") or ""),
        in_url=name_in_url,
    )


def _attempts(call: PageCall) -> dict[str, tuple[int, int]]:
    """The attempts of seven days by application version: begun, and failed."""
    found = dict[str, tuple[int, int]]()
    for day in call.scheduler.stats(by="version"):
        begun, failed = found.get(day.version or "", (0, 0))
        found[day.version or ""] = begun + day.attempts, failed + day.failed_attempts
    return found


def _actions_of(call: PageCall, version: ApplicationVersion, versions: Any) -> Mapping[str, VersionAction]:
    """The actions that make sense for a version and that the actor may do."""
    return {
        word: one
        for word, one in VERSION_ACTIONS.items()
        if all(map(call.may, one.verbs)) and not (one.asks_to and (version.moved_to or len(versions) < 2))
    }


def preview_action(call: PageCall) -> Response:
    """What an action would do to a version, and the form that does it."""
    word = chosen(call.param("do"), VERSION_ACTIONS, "do")
    return _form(call, word, {"schedule": call.param("schedule") or ""}, None)


def act(call: PageCall) -> Response:
    """Do it. Input that cannot be used is shown again with its fault."""
    word, form, scheduler = chosen(call.form.get("do"), VERSION_ACTIONS, "do"), call.form, call.acting()
    name = _named(call)
    try:
        if word == "latest":
            scheduler.set_latest_application_version(name, share=_share(form.get("share", "")))
        elif word == "retire":
            scheduler.retire_application_version(name, to=form.get("to", ""))
        else:
            return _reassign(call, name, _taker(call, name, form.get("to")))
    except InvalidInput as problem:
        return _form(call, word, form, problem)
    return call.go(call.address("versions", done=word))


def _form(call: PageCall, word: str, form: Mapping[str, str], fault: InvalidInput | None) -> Response:
    action, name = VERSION_ACTIONS[word], _named(call)
    for verb in action.verbs:
        call.require(verb)
    call.require(Verb.READ_INSTALLATION, some=True)
    versions = call.scheduler.list_application_versions()
    version = next((one for one in versions if one.version_name == name), None)
    if version is None:
        raise NotFound(f"version={name!r} was never registered: a worker of it has to start first")
    given = {"to": "", "share": f"{version.share:g}", "reason": "", "schedule": "", **form}
    try:
        found = _waiting(call, name, given["schedule"], None, _READ) if word == "reassign" else None
    except InvalidInput as problem:  # of the filter
        found, fault = Page(items=[]), problem
    return call.render(
        "operations/act_version.html",
        action=action,
        word=word,
        version=version,
        latest=next((one for one in versions if one.is_latest), None),
        others=[one.version_name for one in versions if one.version_name != name and one.moved_to is None],
        found=found,
        shown=() if found is None else found.items[:_SHOWN],
        address=call.address("version", name_in_url(name), "act"),
        given=given,
        fault=fault,
    )


def _named(call: PageCall) -> str:
    """The version that the address names."""
    return name_of_url(str(call.request.path_params["version"]))


def _share(text: str) -> Any:
    """The share that was typed; a text that is no number as it is: the SDK says what is wrong with it."""
    try:
        return float(text)
    except ValueError:
        return text


def _taker(call: PageCall, name: str, to: str | None) -> str:
    """The version that runs are reassigned to. Raises InvalidInput, before any run is."""
    versions = call.scheduler.list_application_versions()
    return chosen(to, {one.version_name: one for one in versions if one.version_name != name}, "to")


def _waiting(call: PageCall, version: str, schedule: str, cursor: str | None, limit: int) -> Page:
    """A page of the tenant's runs that wait, without runs of other versions."""
    page = call.scheduler.list_runs(schedule or None, state=sorted(WAITING), limit=limit, cursor=cursor)
    return Page(items=[run for run in page.items if run.app_version == version], cursor=page.cursor)


def _reassign(call: PageCall, version: str, to: str) -> Response:
    """Reassign waiting runs for as long as a request may take; the answer has a button that continues."""
    form, scheduler = call.form, call.acting()
    schedule, cursor = form.get("schedule", "").strip(), cursor_of_url(form.get("cursor") or None)
    done, failed = list[Any](), dict[str, str]()
    with call.in_time() as stop:
        while True:
            page = _waiting(call, version, schedule, cursor, _AT_ONCE)
            for run in page.items:
                try:
                    done.append(scheduler.reassign_run(run.id, to))
                except (Conflict, NotFound) as problem:  # it has started meanwhile
                    failed[run.id] = str(problem)
            cursor = page.cursor
            if cursor is None or stop.is_set():
                break
    return call.render(
        "operations/reassigned.html",
        version=version,
        to=to,
        done=done,
        failed=failed,
        shown=done[:_SHOWN],
        total=len(done) + (number_typed(form.get("before")) or 0),
        cursor=cursor_in_url(cursor),
        address=call.address("version", name_in_url(version), "act"),
        schedule=schedule,
        reason=form.get("reason", ""),
    )


ROUTES = (
    get("/versions", show),
    get("/version/{version}/act", preview_action),
    post("/version/{version}/act", act),
)
