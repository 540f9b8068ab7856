"""One request: who sends it, for which tenant, and the SDK's scheduler that acts in that name. And the answer's form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from starlette.responses import Response

from quarterjack.domain.tenants.profile import SHARED
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.session import over
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.settings import Settings
from quarterjack.web.actors import Access, Actor, bearer_of, found_by
from quarterjack.web.etags import TAGS_PATTERN, guard_of
from quarterjack.web.limits import RequestLimit
from quarterjack.web.problems import INVALID_CREDENTIALS, RefusedRequest
from quarterjack.web.routes.routing import check_request
from quarterjack.web.shapes import as_json, json_bytes
from quarterjack.web.urls import HOLDER_PATTERN, NAME_PATTERN, RUN_PATTERN, TENANT_PATTERN, name_of_url, run_of_url

WARNING = "Quarterjack-Warning"
_KEY = "[A-Za-z0-9._:@/-]{1,200}"
_KEY_PATTERN = f'^({_KEY}|"{_KEY}")$'
_TAGS = {"anyOf": [{"type": "string", "pattern": TAGS_PATTERN}, {"type": "null"}]}


@dataclass(frozen=True, kw_only=True)
class FrontDoor:
    """What an application is made with."""

    scheduler_of: Callable[[str], Scheduler]  # by tenant
    access: Access
    limit: RequestLimit | None = None
    longest: float = 20.0  # seconds of one request: of a long poll, and of work on many schedules or runs
    tenants: Tenants | None = None  # None: operators are not served
    settings: Settings | None = None  # of the installation, for the doctor; None: it is not asked


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
    """Who sends a request. Raises RefusedRequest: 401, or 429 beyond the limit; InvalidInput as ``check_request``."""
    front: FrontDoor = request.app.state.front
    actor = await find_actor(front, request)
    count_request(front, actor, request)
    await check_request(request)
    return actor


async def find_actor(front: FrontDoor, request: Request) -> Actor:
    """Who sends a request. Raises RefusedRequest: 401."""
    actor = await found_by(front.access, request)
    if actor is None:
        raise _not_let_in(request)
    return actor


def _not_let_in(request: Request) -> RefusedRequest:
    """A token that is not valid is told apart from none (RFC 6750): a client with one has to get another one."""
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
    str | None, Header(alias="Quarterjack-Reason", description="why the request changes something: in the audit")
]


def reason_of(header: str | None) -> str | None:
    """The reason in a header: its bytes are UTF-8, or else Latin-1, as which the server has read them."""
    if header is None:
        return None
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


TenantSegment = Annotated[
    str, Path(pattern=TENANT_PATTERN, description="the tenant; `.` and `..` are written `!.` and `!..`")
]


async def api_call(
    request: Request, tenant: TenantSegment, actor: Annotated[Actor, Depends(caller)], reason: Reason = None
) -> ApiCall:
    """The call of a request about a tenant. Raises RefusedRequest."""
    front: FrontDoor = request.app.state.front
    name, warnings = name_of_url(tenant), list[str]()
    if not actor.may_name(name):
        raise RefusedRequest(
            403,
            "you may not act for this tenant",
            "ask for another tenant, or an operator for the access",
            field="tenant",
        )
    with header_named("reason", "Quarterjack-Reason"):
        scheduler = actor.acting(front.scheduler_of(name), reason_of(reason))
    # Whoever asked is told, not this process's log; and waits by itself, not in a thread of the server.
    scheduler = over(scheduler, replace(scheduler.session, on_unknown=warnings.append, patience=0.0))
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
    if not actor.operator or front.tenants is None:
        raise RefusedRequest(403, "this is for operators of the installation", "ask one of them")
    with header_named("reason", "Quarterjack-Reason"):
        tenants = actor.acting(front.tenants, reason_of(reason))
    return OperatorCall(request=request, tenants=tenants, settings=front.settings)


Operation = Annotated[OperatorCall, Depends(operator_call)]

# Parts of addresses and headers.


def _holder(
    tenant: Annotated[
        str,
        Path(
            pattern=HOLDER_PATTERN,
            description="a tenant, `~gold` for the tier `gold`, or `~installation` for the defaults of all",
        ),
    ],
) -> str:
    return tenant if tenant.startswith(SHARED) else name_of_url(tenant)


def _name(name: Annotated[str, Path(pattern=NAME_PATTERN, description="of the schedule, with `~` for `/`")]) -> str:
    return name_of_url(name)


def _run(run: Annotated[str, Path(pattern=RUN_PATTERN, description="the `url_id` of the run")]) -> str:
    return run_of_url(run)


def _backfill(backfill: Annotated[str, Path(pattern=NAME_PATTERN, description="the `id` of the backfill")]) -> str:
    return name_of_url(backfill)


def _key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="the same key again, with the same request: the answer of the first, and nothing done twice. "
            "1 to 200 of `A-Z a-z 0-9 . _ : @ / -`, alone or in quotes",
            json_schema_extra={"anyOf": [{"type": "string", "pattern": _KEY_PATTERN}, {"type": "null"}]},
        ),
    ] = None,
) -> str | None:
    if key is not None and len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return key


Holder = Annotated[str, Depends(_holder)]
ScheduleName = Annotated[str, Depends(_name)]
RunId = Annotated[str, Depends(_run)]
BackfillId = Annotated[str, Depends(_backfill)]
IdempotencyKey = Annotated[str | None, Depends(_key)]


def _if_match(
    request: Request,
    if_match: Annotated[  # noqa: ARG001 (for the document; several lines are one list of tags)
        str | None,
        Header(
            alias="If-Match",
            description='the ETag that you saw: "r5" is for revision 5, whatever its tags',
            json_schema_extra=_TAGS,
        ),
    ] = None,
) -> str | None:
    return guard_of(request.headers.getlist("if-match"), "If-Match")


def _if_none_match(
    request: Request,
    if_none_match: Annotated[  # noqa: ARG001 (as above)
        str | None,
        Header(
            alias="If-None-Match", description="the ETag that you have: 304 if it is current", json_schema_extra=_TAGS
        ),
    ] = None,
) -> str | None:
    return guard_of(request.headers.getlist("if-none-match"), "If-None-Match")


def _only_creates(
    request: Request,
    if_none_match: Annotated[  # noqa: ARG001 (as above)
        str | None,
        Header(
            alias="If-None-Match",
            description="`*`: only create it; 412 if there is one",
            json_schema_extra={"pattern": r"^\*$"},
        ),
    ] = None,
) -> str | None:
    return guard_of(request.headers.getlist("if-none-match"), "If-None-Match")


IfMatch = Annotated[str | None, Depends(_if_match)]
IfNoneMatch = Annotated[str | None, Depends(_if_none_match)]
OnlyCreates = Annotated[str | None, Depends(_only_creates)]


@contextmanager
def header_named(field_name: str, header: str) -> Iterator[None]:
    """InvalidInput about an argument of the SDK names the header that it came in."""
    try:
        yield
    except InvalidInput as problem:
        raise problem.about(header) if problem.field == field_name else problem from None
