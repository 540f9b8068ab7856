"""For operators: the profiles of tenants and their grants, and the doctor."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import Path
from fastapi import Query as InQuery
from pydantic import BaseModel, Field, StrictFloat, StrictInt, StrictStr
from starlette.responses import Response

from quarterjack.domain.tenants.profile import Grant
from quarterjack.errors import Conflict
from quarterjack.sdk.tenants.access import KeyView, NewKey
from quarterjack.sdk.tenants.base import Tenant
from quarterjack.sdk.tenants.figures import BreakerView, TenantFigures
from quarterjack.web import views
from quarterjack.web.calls import LetIn, Operation, OperatorCall
from quarterjack.web.etags import NO_VERSION, IfMatch, expected_tag, no_tag
from quarterjack.web.fields import NAME, ApiBody, ApiQuery, Holder, Moment
from quarterjack.web.problems import RefusedRequest
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.shapes import shape
from quarterjack.web.urls import name_in_url

router = routes_of("operators", "/v1")
TENANT = shape(Tenant)
GRANT = shape(Grant)
BREAKER = shape(BreakerView)
FIGURES = shape(TenantFigures)
KEY, NEW_KEY = shape(KeyView), shape(NewKey)
_TAG = re.compile(r'"v([0-9]{1,15})"')
_JOBS: Any = Field(
    None, description="names and patterns of jobs; null: those of the installation", examples=[["report.*"]]
)


class ProfileRequest(ApiBody):
    """The profile of a tenant."""

    jobs: list[str] | None = _JOBS
    tier: str | None = Field(
        None, pattern=NAME, description="tier whose jobs, queue and limits apply where the profile has none"
    )
    queue: str | None = Field(
        None, pattern=NAME, description="default queue, for runs without a queue of their job or caller"
    )
    description: str | None = Field(None, description="e.g. the owner of the tenant")
    limits: dict[str, StrictInt | StrictFloat | StrictStr | None] = Field(
        {},
        description="numbers by name, for highest_priority a word; null: the installation's",
        examples=[{"runs_per_second": 10}],
    )


class NewTenant(ProfileRequest):
    """A tenant with its profile."""

    tenant: str = Field(examples=["acme"])


class ProfileChange(ProfileRequest):
    """The changes of a profile: missing fields stay, and null restores the installation's default."""

    add_jobs: list[str] = Field([], description="jobs to add, instead of jobs")
    remove_jobs: list[str] = Field([], description="jobs to remove, instead of jobs")


class FiguresQuery(ApiQuery):
    """The span of the figures."""

    minutes: int = Field(5, ge=1, le=60, description="length of the span")


class SuspendRequest(ApiBody):
    """The reason of a suspension."""

    reason: str | None = Field(None, description="shown with waiting runs", examples=["unpaid since March"])


class GrantRequest(ApiBody):
    """A grant."""

    to: str = Field(description="a principal or a pattern of principals", examples=["app:alice@acme"])
    can: list[str] = Field(description="roles and verbs", examples=[["operator"]])
    jobs: list[str] = Field(["*"], description="names and patterns of the jobs that it is limited to")


class RevokeRequest(ApiBody):
    """The grants to revoke."""

    to: str = Field(description="as it was granted", examples=["app:alice@acme"])
    can: list[str] | None = Field(None, description="left out: all")
    jobs: list[str] | None = Field(None, description="left out: with any jobs")


@router.get("/tenants", responses=answers(views.items_model(TENANT.model)))
def list_tenants(call: Operation) -> Response:
    """All profiles by name, first the installation's and the tiers'. A tenant without a profile is not listed."""
    return call.answer({"items": call.tenants.list()})


@router.post("/tenants", status_code=201, responses=answers(TENANT.model, 201, "created"))
def create_tenant(call: Operation, body: NewTenant) -> Response:
    """Give a tenant a profile."""
    given = body.given()
    made = call.tenants.create(given.pop("tenant"), **given)
    return _answer(call, made, 201, Location=f"{call.request.url.path}/{name_in_url(made.name)}")


@router.get("/tenants/{tenant}", responses=answers(TENANT.model))
def get_tenant(call: Operation, tenant: Holder) -> Response:
    """The profile of a tenant."""
    return _answer(call, call.tenants.get(tenant))


@router.get("/tenants/{tenant}/figures", responses=answers(FIGURES.model))
def tenant_figures(call: Operation, tenant: Holder, query: Annotated[FiguresQuery, InQuery()]) -> Response:
    """Rate, lateness, failures and backlog of the last minutes, and the rest of the limits. Writes nothing."""
    return call.answer(call.tenants.figures(tenant, minutes=query.minutes))


@router.patch("/tenants/{tenant}", responses=answers(TENANT.model))
def set_tenant(call: Operation, tenant: Holder, body: ProfileChange, if_match: IfMatch = None) -> Response:
    """Change a profile; a tenant without one gets one."""
    expected = _expected(call, tenant, if_match)
    try:
        return _answer(call, call.tenants.set(tenant, **body.given(), expected_version=expected))
    except Conflict:
        if if_match is not None and expected == NO_VERSION:
            raise no_tag("tenant", if_match) from None
        raise


@router.post("/tenants/{tenant}/suspend", responses=answers(TENANT.model))
def suspend_tenant(call: Operation, tenant: Holder, body: SuspendRequest | None = None) -> Response:
    """Accept and start no work of a tenant. Running attempts continue; runs that become due wait."""
    return _answer(call, call.tenants.suspend(tenant, reason=None if body is None else body.reason))


@router.post("/tenants/{tenant}/resume", responses=answers(TENANT.model))
def resume_tenant(call: Operation, tenant: Holder) -> Response:
    """End the suspension of a tenant."""
    return _answer(call, call.tenants.resume(tenant))


@router.post("/tenants/{tenant}/grants", responses=answers(TENANT.model))
def grant(call: Operation, tenant: Holder, body: GrantRequest) -> Response:
    """Grant a principal roles or verbs for a tenant, or for every tenant."""
    return _answer(call, call.tenants.grant(tenant, body.to, body.can, jobs=body.jobs))


@router.post("/tenants/{tenant}/grants/revoke", responses=answers(TENANT.model))
def revoke(call: Operation, tenant: Holder, body: RevokeRequest) -> Response:
    """Revoke grants of a principal."""
    return _answer(call, call.tenants.revoke(tenant, body.to, can=body.can, jobs=body.jobs))


class NewKeyRequest(ApiBody):
    """A new API key and its grant."""

    name: str = Field(description="the program that uses it; its actor in the audit is `key:<name>`", examples=["crm"])
    can: list[str] = Field(description="roles and verbs", examples=[["submit"]])
    jobs: list[str] = Field(["*"], description="names and patterns of the jobs that it is limited to")
    expires_at: Moment | None = Field(None, description="left out: it does not expire")


@router.get("/tenants/{tenant}/keys", responses=answers(views.items_model(KEY.model)))
def list_keys(call: Operation, tenant: Holder) -> Response:
    """The API keys of a tenant, by name, without their texts."""
    return call.answer({"items": call.tenants.keys(tenant)})


@router.post("/tenants/{tenant}/keys", status_code=201, responses=answers(NEW_KEY.model, 201, "created"))
def create_key(call: Operation, tenant: Holder, body: NewKeyRequest) -> Response:
    """Create an API key. The answer has its text, which is stored nowhere."""
    given = body.given()
    return call.answer(call.tenants.create_key(tenant, given.pop("name"), given.pop("can"), **given), 201)


@router.delete("/tenants/{tenant}/keys/{key}", responses=answers(KEY.model))
def revoke_key(
    call: Operation, tenant: Holder, key: Annotated[str, Path(description="the `id` of the key", examples=["crm.1"])]
) -> Response:
    """Remove an API key. After 5 s no process accepts it."""
    return call.answer(call.tenants.revoke_key(tenant, key))


class ResetRequest(ApiBody):
    """The breakers to close."""

    job: str | None = Field(None, description="left out: all of the tenant", examples=["report.daily"])


class ClosedBreakers(BaseModel):
    """The jobs whose breakers were open."""

    items: list[str]


@router.get("/tenants/{tenant}/breakers", responses=answers(views.items_model(BREAKER.model)))
def list_breakers(call: Operation, tenant: Holder) -> Response:
    """The circuit breakers of a tenant that are open or count failures, by job."""
    return call.answer({"items": call.tenants.breakers(tenant)})


@router.post("/tenants/{tenant}/breakers/reset", responses=answers(ClosedBreakers))
def reset_breaker(call: Operation, tenant: Holder, body: ResetRequest | None = None) -> Response:
    """Close the breaker of a job, or all breakers of a tenant. Waiting runs start within three minutes."""
    return call.answer({"items": list(call.tenants.reset_breaker(tenant, None if body is None else body.job))})


class DoctorFinding(BaseModel):
    """The finding of one check."""

    check: str
    verdict: Literal["ok", "warn", "fail"]
    what: str
    remedy: str | None = Field(description="null if it is ok")


class Findings(BaseModel):
    """The findings of the doctor."""

    items: list[DoctorFinding]


@router.get("/doctor", responses=answers(Findings))
def doctor(call: Operation) -> Response:
    """Check the installation, from the server: each problem with its remedy. Writes nothing."""
    call.tenants.check_operator()
    if call.settings is None:
        remedy = "ask the server's operator to pass settings= to create_app"
        raise RefusedRequest(404, "this server was not told the settings of its installation", remedy)
    from quarterjack.doctor import run_checks  # noqa: PLC0415 (it loads boto3)

    return call.answer({"items": list(run_checks(call.settings))})


def _answer(call: LetIn, tenant: Tenant, status: int = 200, **headers: str) -> Response:
    return call.answer(tenant, status, ETag=_tag(tenant), **headers)


def _tag(tenant: Tenant) -> str:
    return f'"v{tenant.version}"'


def _expected(call: OperatorCall, tenant: str, if_match: str | None) -> int | None:
    """The version that a change is for; None: whichever is current; NO_VERSION: the header has no tag of a profile."""
    given = expected_tag(if_match, lambda: [_tag(call.tenants.get(tenant))])
    found = None if given is None else _TAG.fullmatch(given)
    return None if given is None else NO_VERSION if found is None else int(found[1])
