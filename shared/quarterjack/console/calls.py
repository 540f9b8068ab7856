"""One request for a page: its actor, its tenant, and the scheduler that acts in that name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from quarterjack.console.checkups import Checkups
from quarterjack.console.rendering import ROOT, rendered
from quarterjack.console.sign_in import ConsoleSession, check_same_site
from quarterjack.domain.tenants.access import Verb
from quarterjack.domain.tenants.caller import Via
from quarterjack.errors import Forbidden, InvalidInput, QuarterjackError
from quarterjack.owner.access import asked_beside
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.web.authentication import Actor
from quarterjack.web.calls import FrontDoor, count_request, find_actor, set_after
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.urls import cursor_in_url, cursor_of_url, name_in_url, name_of_url, run_in_url, run_of_url

_FIELDS = 200  # of a form


@dataclass(frozen=True, kw_only=True)
class Console:
    """The parameters of a console."""

    front: FrontDoor  # of the API beside it
    tenant: str  # of an actor who names none
    session: ConsoleSession | None = None  # None: the host application signs people in
    checkups: Checkups = field(default_factory=Checkups)  # of the doctor


@dataclass(frozen=True, kw_only=True)
class PageCall:
    """A request for a page of a tenant."""

    request: Request
    tenant: str
    actor: Actor
    scheduler: Scheduler  # of the tenant; its acts are the actor's
    form: Mapping[str, str]  # of a POST
    longest: float  # seconds of work on many

    @property
    def now(self) -> datetime:
        """UTC, by the scheduler's clock."""
        return datetime.fromtimestamp(self.scheduler.session.clock() / 1000, UTC)

    def may(self, verb: str, job: str | None = None, *, some: bool = False, holder: str | None = None) -> bool:
        """Whether the actor may do this, so that a page offers nothing that would be refused. The action itself checks again.

        For a ``job``, for ``some`` job, or for all jobs; for this tenant, unless another ``holder`` is given. Nothing is audited.
        """
        session, tenant, asked = self.scheduler.session, holder or self.scheduler.tenant, Verb(verb)
        try:
            return session.may_some(tenant, asked) if some else session.may(tenant, asked, job)
        except QuarterjackError:  # it is not known who asks: the act says so
            return False

    def require(self, verb: str, job: str | None = None, *, some: bool = False, holder: str | None = None) -> None:
        """Raises RefusedRequest 403 unless the actor may send the form of this page. Nothing is audited: nothing was done."""
        if not self.may(verb, job, some=some, holder=holder):
            detail = f"you may not {verb} here, so the page that would do it is not shown"
            raise RefusedRequest(403, detail, "ask somebody who may give you a grant for it")

    @property
    def console(self) -> Console:
        """The parameters of the console."""
        return _console(self.request)

    @property
    def operates(self) -> bool:
        """Whether the actor may ask about all tenants; ``may`` says about what."""
        return self.actor.operator and self.console.front.tenants is not None

    def param(self, name: str) -> str | None:
        """A word of the query; None if it is missing or empty."""
        return self.request.query_params.get(name, "").strip() or None

    def address(self, *segments: str, **query: object) -> str:
        """The address of a page of this tenant, with the words of a query that are not None."""
        base = "/".join([self.request.scope[ROOT], "t", name_in_url(self.tenant), *segments])
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return f"{base}?{urlencode(given)}" if given else base

    def of_schedule(self, name: str, *more: str, **query: object) -> str:
        """The address of a schedule's page."""
        return self.address("schedule", name_in_url(name), *more, **query)

    def of_run(self, run_id: str, *more: str, **query: object) -> str:
        """The address of a run's page."""
        return self.address("run", run_in_url(run_id), *more, **query)

    def params(self, *names: str) -> dict[str, str]:
        """These words of the query, without missing and empty ones."""
        return {name: value for name in names if (value := self.param(name)) is not None}

    @property
    def cursor(self) -> str | None:
        """The cursor in the address, as the SDK takes it. Raises InvalidInput."""
        return cursor_of_url(self.param("cursor"))

    def further(self, cursor: str | None, *segments: str, **query: object) -> str | None:
        """The address of the next page of a listing, by the cursor that the SDK returned; None: there is none."""
        return None if cursor is None else self.address(*segments, **query, cursor=cursor_in_url(cursor))

    def render(self, template: str, status: int | None = None, **values: Any) -> Response:
        """A page. A ``fault`` among its values makes the status 422 for invalid input, and else 409."""
        fault = values.get("fault")
        status = status or (200 if fault is None else 422 if isinstance(fault, InvalidInput) else 409)
        return rendered(self.request, template, status, **{"call": self, "now": self.now, **values})

    def go(self, address: str) -> Response:
        """An answer to a form that was carried out: the page to look at, so that reloading repeats nothing."""
        return RedirectResponse(address, 303)

    @property
    def reason(self) -> str | None:
        """Why, as the form says."""
        return self.form.get("reason", "").strip() or None

    def acting(self) -> Scheduler:
        """The scheduler, with the reason that the form gives. Raises InvalidInput."""
        return self.scheduler.acting_as(reason=self.reason)

    def operating(self) -> Tenants:
        """The tenants, for an operator; what is changed through them has the form's reason. Raises RefusedRequest 403."""
        return self.console.front.tenants_for(self.actor, self.reason, Via.CONSOLE)

    def in_time(self) -> AbstractContextManager[threading.Event]:
        """An event that is set when the request has taken long enough."""
        return set_after(self.longest)


@dataclass(frozen=True)
class Part:
    """The answer to one question of a page: a value, or why there is none."""

    value: Any = None
    problem: str | None = None


def part(ask: Callable[[], Any]) -> Part:
    """The answer to a question of a page. A refusal, or a table that does not answer, leaves the other parts.

    A refusal makes no audit entry: the page has asked, not its reader.
    """
    try:
        with asked_beside():
            return Part(ask())
    except Forbidden:
        return Part(problem="You have no grant to see this.")
    except QuarterjackError as problem:
        return Part(problem=str(problem))


PageFunction = Callable[[PageCall], Response]


def get(path: str, function: PageFunction) -> Route:
    """The route of a page. Its function runs in a thread."""
    return Route(path, _endpoint(function), methods=["GET"])


def post(path: str, function: PageFunction) -> Route:
    """The route of a form that does something. Only the console's own pages may send it."""
    return Route(path, _endpoint(function), methods=["POST"])


def _endpoint(function: PageFunction) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        form = await form_of(request) if request.method == "POST" else {}
        request.state.call = call = await _call(request, form)
        return await run_in_threadpool(function, call)

    return endpoint


async def call_of(request: Request, *, is_unknown: bool) -> PageCall | None:
    """The call of a request that failed, so that its page has the navigation; None: the actor or the tenant is unknown.

    ``is_unknown``: no page has the address, so that nothing has found that out yet.
    """
    found: PageCall | None = getattr(request.state, "call", None)
    if found is not None or not is_unknown or "tenant" not in request.path_params:
        return found
    try:
        return await _call(request, {})
    except (RefusedRequest, QuarterjackError):
        return None


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form; of a field that is there twice, the last. Raises RefusedRequest for a form of another site."""
    check_same_site(request)
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError as problem:
        raise RefusedRequest(400, f"the form cannot be read: {problem}", "send it from the console's page") from None
    return dict(pairs)


async def _call(request: Request, form: Mapping[str, str]) -> PageCall:
    console = _console(request)
    actor = await find_actor(console.front, request)
    count_request(console.front, actor, request)
    tenant = name_of_url(request.path_params["tenant"])
    scheduler = console.front.scheduler_for(actor, tenant, None, Via.CONSOLE)
    return PageCall(
        request=request, tenant=tenant, actor=actor, scheduler=scheduler, form=form, longest=console.front.longest
    )


async def home(request: Request) -> Response:
    """The overview of the actor's tenant."""
    console = _console(request)
    actor = await find_actor(console.front, request)
    tenant = console.tenant if actor.may_name(console.tenant) else min(actor.tenants or [console.tenant])
    return RedirectResponse(f"{request.scope[ROOT]}/t/{name_in_url(tenant)}/", 303)


def _console(request: Request) -> Console:
    found: Console = request.app.state.console
    return found


def run_of(call: PageCall) -> str:
    """The id of the run that the address names. Raises InvalidInput."""
    return run_of_url(str(call.request.path_params["run"]))


def schedule_of(call: PageCall) -> str:
    """The schedule that the address names."""
    return name_of_url(call.request.path_params["name"])
