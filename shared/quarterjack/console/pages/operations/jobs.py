"""Jobs: the catalogue that workers publish, one of them, and running it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from quarterjack.console.calls import PageCall, new_token
from quarterjack.console.inputs import json_typed, time_typed
from quarterjack.console.pages.operations.schema import beginning_of, fields_of
from quarterjack.console.pages.tenants.detail import found
from quarterjack.console.pages.tenants.operators import is_operator
from quarterjack.console.parts import part
from quarterjack.console.words import pretty
from quarterjack.domain.tenants.access import Verb, verbs_of
from quarterjack.domain.tenants.profile import INSTALLATION, Grant, TenantProfile
from quarterjack.errors import InvalidInput, NotFound
from quarterjack.sdk.history.worker_views import JobView
from quarterjack.sdk.views import Run
from quarterjack.web.urls import name_of_url

_SCHEDULES = 20  # of a job that are shown


def show(call: PageCall) -> Response:
    """The catalogue; ``q`` is a part of the names that are shown."""
    q = call.param("q") or ""
    known = call.scheduler.jobs()
    return call.render(
        "operations/jobs.html", jobs=[one for one in known if q in one.name], known=len(known), q=q, now=call.now
    )


def show_one(call: PageCall) -> Response:
    """One job: its policies, what its payload has to be, its schedules."""
    job = _job(call)
    return call.render(
        "operations/job.html",
        job=job,
        fields=fields_of(job.payload_schema or {}),
        who=part(lambda: _who(call, job)),
        schedules=part(lambda: call.scheduler.list_schedules(job=job.name, limit=_SCHEDULES, next_fires=1)),
        now=call.now,
    )


@dataclass(frozen=True)
class _Who:
    """Who may run a job for the tenant."""

    allowed: bool  # whether the tenant may run it at all
    patterns: Sequence[str] | None  # the jobs that its profile names; None: all
    grants: Sequence[Grant]  # those that let somebody submit it
    open: bool  # nobody needs a grant


def _who(call: PageCall, job: JobView) -> _Who | None:
    """None for whom is no operator: profiles are theirs to see."""
    if not is_operator(call):
        return None
    own, default = found(call, call.tenant), found(call, INSTALLATION)
    patterns = next((each.jobs for each in (own, default) if each is not None and each.jobs is not None), None)
    profile = TenantProfile(tenant=call.tenant, jobs=None if patterns is None else tuple(patterns))
    grants = [grant for each in (own, default) if each is not None for grant in each.grants]
    submitting = [grant for grant in grants if Verb.SUBMIT in verbs_of(grant.can) and grant.covers(job.name)]
    return _Who(profile.may_run(job.name, by_name=job.by_name), patterns, submitting, open=not grants)


def submit_form(call: PageCall) -> Response:
    """The form that runs it once."""
    job = _job(call)
    call.require(Verb.SUBMIT, job.name)
    begin = beginning_of(job.payload_schema)
    return _form(call, job, {"payload": "" if begin is None else pretty(begin), "token": new_token()}, None)


def submit(call: PageCall) -> Response:
    """Run it once, and show the run. A payload that does not fit is shown with its fault, as it was typed."""
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
        200 if fault is None else 422,
        job=job,
        fields=fields_of(job.payload_schema or {}),
        given=given,
        fault=fault,
        now=call.now,
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
