"""Jobs: the catalogue that workers publish, one of them with its payload's schema as a table, and a form that runs it once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from quarterjack.console.calls import PageCall, get, part, post
from quarterjack.console.forms import json_typed, new_token, time_typed
from quarterjack.console.pages.tenants import find_profile
from quarterjack.console.words import pretty
from quarterjack.domain.tenants.access import Verb, verbs_of
from quarterjack.domain.tenants.profile import INSTALLATION, Grant, TenantProfile
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.history.views import JobView
from quarterjack.sdk.views import Run
from quarterjack.web.urls import name_of_url

_SCHEDULES = 20  # of a job that are shown
_DEEP = 5  # levels of a payload to begin with
_MOST = 100  # fields that are listed
_EMPTY: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}


def show_jobs(call: PageCall) -> Response:
    """The catalogue; ``q`` is a part of the names that are shown."""
    q = call.param("q") or ""
    known = call.scheduler.jobs()
    return call.render("operations/jobs.html", jobs=[one for one in known if q in one.name], known=len(known), q=q)


def show_job(call: PageCall) -> Response:
    """One job: its policies, its payload's schema, its schedules."""
    job = _job(call)
    return call.render(
        "operations/job.html",
        job=job,
        fields=fields_of(job.payload_schema or {}),
        access=part(lambda: _access(call, job)),
        schedules=part(lambda: call.scheduler.list_schedules(job=job.name, limit=_SCHEDULES, next_fires=1)),
    )


@dataclass(frozen=True)
class _JobAccess:
    """Who may run a job for the tenant."""

    allowed: bool  # whether the tenant may run it at all
    patterns: Sequence[str] | None  # the jobs that its profile names; None: all
    grants: Sequence[Grant]  # those that let somebody submit it
    open: bool  # nobody needs a grant


def _access(call: PageCall, job: JobView) -> _JobAccess | None:
    """Who may run the job; None unless the actor is an operator, since only operators see profiles."""
    if not call.operates:
        return None
    own, default = find_profile(call, call.tenant), find_profile(call, INSTALLATION)
    patterns = next((each.jobs for each in (own, default) if each is not None and each.jobs is not None), None)
    profile = TenantProfile(tenant=call.tenant, jobs=None if patterns is None else tuple(patterns))
    grants = [grant for each in (own, default) if each is not None for grant in each.grants]
    submitting = [grant for grant in grants if Verb.SUBMIT in verbs_of(grant.can) and grant.covers(job.name)]
    return _JobAccess(profile.may_run(job.name, by_name=job.by_name), patterns, submitting, open=not grants)


def submit_form(call: PageCall) -> Response:
    """The form that runs the job once."""
    job = _job(call)
    call.require(Verb.SUBMIT, job.name)
    begin = beginning_of(job.payload_schema)
    return _form(call, job, {"payload": "" if begin is None else pretty(begin), "token": new_token()}, None)


def submit(call: PageCall) -> Response:
    """Run the job once, and show the run. A payload that does not fit the schema is shown again with its fault."""
    job = _job(call)
    try:
        run = _submitted(call, job.name)
    except InvalidInput as problem:
        return _form(call, job, call.form, problem)
    return call.go(call.of_run(run.id))


def _job(call: PageCall) -> JobView:
    """The job that the address names. Raises NotFound."""
    name = name_of_url(call.request.path_params["job"])
    for one in call.scheduler.jobs():
        if one.name == name:
            return one
    raise NotFound(f"job={name!r}: no worker has published a job of that name that you may see")


def _form(call: PageCall, job: JobView, form: Mapping[str, str], fault: InvalidInput | None) -> Response:
    given = {word: form.get(word, "") for word in ("payload", "run_at", "queue", "token")}
    return call.render(
        "operations/submit.html",
        job=job,
        fields=fields_of(job.payload_schema or {}),
        given=given,
        fault=fault,
    )


def _submitted(call: PageCall, job: str) -> Run:
    form = call.form
    return call.scheduler.submit(
        job,
        json_typed(text) if (text := form.get("payload", "")).strip() else None,
        run_at=time_typed(at, "run_at") if (at := form.get("run_at", "").strip()) else None,
        queue=form.get("queue", "").strip() or None,
        idempotency_key=form.get("token") or new_token(),
    )


@dataclass(frozen=True)
class SchemaField:
    """One field of an object."""

    name: str
    type: str  # in words
    required: bool
    about: str  # its description, bounds and default


def fields_of(schema: Mapping[str, Any]) -> list[SchemaField]:
    """The fields of the object that a schema describes; none for another one."""
    top = _resolved(schema, schema)
    properties = top.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = top.get("required") if isinstance(top.get("required"), list) else []
    found = []
    for name, given in list(properties.items())[:_MOST]:
        one = _resolved(given, schema)
        found.append(SchemaField(str(name), _type(one, schema), name in (required or []), "; ".join(_about(one))))
    return found


def beginning_of(schema: Mapping[str, Any] | None) -> Any:
    """A payload that fits the schema: examples, defaults and empty values of the required fields. None: there is no schema."""
    return None if schema is None else _value(schema, schema, _DEEP)


def _value(given: Any, schema: Mapping[str, Any], deep: int) -> Any:
    one = _resolved(given, schema)
    for word in ("example", "default", "const"):
        if word in one:
            return one[word]
    for word in ("examples", "enum"):
        if isinstance(one.get(word), list) and one[word]:
            return one[word][0]
    for word in ("anyOf", "oneOf"):
        if isinstance(one.get(word), list) and one[word] and deep:
            return _value(one[word][0], schema, deep - 1)
    kind = one.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in one:
        properties, required = one.get("properties"), one.get("required")
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not deep:
            return {}
        return {name: _value(properties[name], schema, deep - 1) for name in required if name in properties}
    return _EMPTY.get(str(kind))


def _resolved(given: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema, with its reference within the document followed."""
    one = given if isinstance(given, Mapping) else {}
    for _ in range(_DEEP):
        ref = one.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            break
        found: Any = schema
        for step in ref[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
        one = found if isinstance(found, Mapping) else {}
    return one


def _type(one: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "const" in one:
        return f"always {one['const']!r}"
    if isinstance(one.get("enum"), list):
        return "one of " + ", ".join(map(str, one["enum"][:8])) + (" …" if len(one["enum"]) > 8 else "")
    for word in ("anyOf", "oneOf"):
        if isinstance(one.get(word), list):
            return " or ".join(dict.fromkeys(_type(_resolved(each, schema), schema) for each in one[word][:8]))
    kind = one.get("type", "anything")
    named = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    if kind == "array" and "items" in one:
        return f"list of {_resolved(one['items'], schema).get('type', 'anything')}"
    return f"{named} ({one['format']})" if isinstance(one.get("format"), str) else named


def _about(one: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(one.get("description"), str):
        yield one["description"]
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
        "minLength": "characters, at least",
        "maxLength": "characters, at most",
        "pattern": "like",
    }
    yield from (f"{said} {one[word]}" for word, said in words.items() if word in one)
    if "default" in one:
        yield f"left out: {one['default']!r}"


ROUTES = (
    get("/jobs", show_jobs),
    get("/job/{job}", show_job),
    get("/job/{job}/submit", submit_form),
    post("/job/{job}/submit", submit),
)
