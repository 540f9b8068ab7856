"""One request: its sender, its tenant, the SDK's scheduler that acts in that name, and the form of the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from starlette.responses import Response

from quarterjack.domain.tenants.caller import Via
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.session import over
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.settings import Settings
from quarterjack.values import replace
from quarterjack.web.authentication import Access, Actor, bearer_of, found_by
from quarterjack.web.error_kinds import INVALID_CREDENTIALS
from quarterjack.web.limits import RequestLimit
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.routes.routing import check_request
from quarterjack.web.shapes import as_json, json_bytes
from quarterjack.web.urls import TENANT_PATTERN, name_of_url

WARNING = "Quarterjack-Warning"


@dataclass(frozen=True, kw_only=True)
class FrontDoor:
    """The parameters of an application."""

    scheduler_of: Callable[[str], Scheduler]  # by tenant
    access: Access
    limit: RequestLimit | None = None
    longest: float = 20.0  # seconds of one request: of a long poll, and of work on many schedules or runs
    tenants: Tenants | None = None  # None: operators are not served
    settings: Settings | None = None  # of the installation, for the doctor; None: it is not asked

    def scheduler_for(self, actor: Actor, tenant: str, reason: str | None, via: Via) -> Scheduler:
        """The scheduler of a tenant; its changes are the actor's. It does not wait when AWS throttles: the client is told when to repeat.

        Raises RefusedRequest 403 for a tenant that the actor may not name.
        """
        if not actor.may_name(tenant):
            raise RefusedRequest(
                403,
                "you may not act for this tenant",
                "ask for another tenant, or an operator for access",
                field="tenant",
            )
        scheduler = actor.acting(self.scheduler_of(tenant), reason, via)
        return over(scheduler, replace(scheduler.session, patience=0.0))

    def tenants_for(self, actor: Actor, reason: str | None, via: Via) -> Tenants:
        """The tenants of the installation; changes are the actor's. Raises RefusedRequest 403 unless the actor is an operator."""
        if not actor.operator or self.tenants is None:
            raise RefusedRequest(403, "this is for operators of the installation", "ask one of them")
        return actor.acting(self.tenants, reason, via)


@dataclass(frozen=True, kw_only=True)
class LetIn:
    """A request that was let in, and its answer."""

    request: Request
    warnings: list[str] = field(default_factory=list)  # of the SDK: a job that no worker knows

    def answer(self, content: Any, status: int = 200, **headers: str) -> Response:
        """Views or JSON values as an answer."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.warnings:
            given[WARNING] = " ".join("; ".join(self.warnings).split()).encode("ascii", "replace").decode()
        return Response(json_bytes(as_json(content)), status, headers=given, media_type="application/json")

    def address(self, *segments: str) -> str:
        """The path of something of this tenant, below where the application is mounted."""
        parts = self.request.url.path.removeprefix(root := self.request.scope.get("root_path", "")).split("/")
        return "/".join([root.rstrip("/"), *parts[1:4], *segments])


@contextmanager
def set_after(seconds: float) -> Iterator[threading.Event]:
    """An event that a timer sets after ``seconds``, unless the block has ended before."""
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()


@dataclass(frozen=True, kw_only=True)
class ApiCall(LetIn):
    """A request about the schedules and runs of a tenant."""

    scheduler: Scheduler  # of the tenant in the address; its acts are the actor's
    longest: float  # seconds

    def in_time(self) -> AbstractContextManager[threading.Event]:
        """An event that is set when the request has taken long enough: work on many ends then, with a cursor."""
        return set_after(self.longest)


async def caller(request: Request) -> Actor:
    """The sender of a request. Raises RefusedRequest: 401, or 429 beyond the limit; InvalidInput as ``check_request``."""
    front: FrontDoor = request.app.state.front
    actor = await find_actor(front, request)
    count_request(front, actor, request)
    await check_request(request)
    return actor


async def find_actor(front: FrontDoor, request: Request) -> Actor:
    """The sender of a request. Raises RefusedRequest: 401."""
    actor = await found_by(front.access, request)
    if actor is None:
        raise _not_let_in(request)
    return actor


def _not_let_in(request: Request) -> RefusedRequest:
    """The refusal of a request without a valid key or token. RFC 6750 tells an invalid one from a missing one."""
    if bearer_of(request):
        return RefusedRequest(
            401,
            "the key or token in the request is not valid: it is wrong, was revoked, or has expired",
            "send a valid one, the whole of it, or ask for a new one where you got it",
            field="Authorization",
            kind=INVALID_CREDENTIALS,
            WWW_Authenticate='Bearer realm="quarterjack", error="invalid_token", '
            'error_description="wrong, revoked or expired"',
        )
    return RefusedRequest(
        401,
        "the request does not say who sends it",
        "send `Authorization: Bearer KEY`, or what the server's operator takes: access= of create_app says it",
        field="Authorization",
        WWW_Authenticate='Bearer realm="quarterjack"',
    )


def count_request(front: FrontDoor, actor: Actor, request: Request) -> None:
    """Count a request of an actor. Raises RefusedRequest: 429 beyond the limit."""
    limit = front.limit
    if limit is None:
        return
    allowance = limit.take(actor.label)
    headers: dict[str, str] = request.state.answer_headers
    headers["RateLimit-Policy"] = limit.policy
    headers["RateLimit"] = f'"requests";r={allowance.left};t={allowance.wait}'
    if not allowance.taken:
        remedy = f"wait {allowance.wait} s, and send at most {limit.rate:g} requests a second"
        raise RefusedRequest(
            429, "more requests than this process takes of one caller", remedy, Retry_After=str(allowance.wait)
        )


Reason = Annotated[
    str | None, Header(alias="Quarterjack-Reason", description="reason of the change, recorded in the audit")
]


def _reason_of(header: str | None) -> str | None:
    """The reason in a header: its bytes are UTF-8, or else Latin-1, as which the server has read them."""
    if header is None:
        return None
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


@contextmanager
def _reason_named() -> Iterator[None]:
    """InvalidInput about the reason names its header, since bodies have a field of that name, too."""
    try:
        yield
    except InvalidInput as problem:
        raise problem.about("Quarterjack-Reason") if problem.field == "reason" else problem from None


TenantSegment = Annotated[
    str, Path(pattern=TENANT_PATTERN, description="the tenant; `.` and `..` are written `!.` and `!..`")
]


async def api_call(
    request: Request, tenant: TenantSegment, actor: Annotated[Actor, Depends(caller)], reason: Reason = None
) -> ApiCall:
    """The call of a request about a tenant. Raises RefusedRequest."""
    front: FrontDoor = request.app.state.front
    warnings = list[str]()
    with _reason_named():
        scheduler = front.scheduler_for(actor, name_of_url(tenant), _reason_of(reason), Via.API)
    scheduler = over(
        scheduler, replace(scheduler.session, on_unknown=warnings.append)
    )  # the client is told, not the log
    return ApiCall(scheduler=scheduler, request=request, longest=front.longest, warnings=warnings)


Call = Annotated[ApiCall, Depends(api_call)]


@dataclass(frozen=True, kw_only=True)
class OperatorCall(LetIn):
    """A request about the installation."""

    tenants: Tenants  # its acts are the actor's
    settings: Settings | None


async def operator_call(
    request: Request, actor: Annotated[Actor, Depends(caller)], reason: Reason = None
) -> OperatorCall:
    """The call of a request of an operator. Raises RefusedRequest."""
    front: FrontDoor = request.app.state.front
    with _reason_named():
        tenants = front.tenants_for(actor, _reason_of(reason), Via.API)
    return OperatorCall(request=request, tenants=tenants, settings=front.settings)


Operation = Annotated[OperatorCall, Depends(operator_call)]
