"""Errors as answers: problem details (RFC 9457) with the error's field, value and remedy."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from quarterjack import errors
from quarterjack.errors import InvalidInput, QuarterjackError
from quarterjack.web.error_kinds import KINDS, MEMBERS, PRECONDITION, REFUSALS, UNEXPECTED, ErrorKind, kind_of
from quarterjack.web.limits import add_tenant_rate
from quarterjack.web.shapes import json_bytes
from quarterjack.web.wording import field_of, place_of, said_by, shown, text_of, wanted, written

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_RETRY = 2  # seconds after which the same request may be sent again
_OTHERS = 20  # further faults of a request that are listed


class RefusedRequest(Exception):
    """A request that the API itself refuses, before the SDK is asked."""

    def __init__(
        self,
        status: int,
        detail: str,
        remedy: str,
        *,
        field: str | None = None,
        value: object = None,
        kind: ErrorKind | None = None,
        **headers: str,
    ) -> None:
        """``kind``: another one than the status has by itself. ``headers`` of the answer have ``_`` for ``-``."""
        super().__init__(detail)
        self.kind = kind or REFUSALS[status]
        self.status, self.detail, self.remedy = status, detail, remedy
        self.field, self.value = field, value
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:quarterjack:problem:invalid-expression",
                    "title": "An expression or its time zone is invalid",
                    "status": 422,
                    "code": "invalid-expression",
                    "detail": "timezone='Europe/Berlim': not a time zone; did you mean 'Europe/Berlin'?",
                    "field": "timezone",
                    "value": "Europe/Berlim",
                    "remedy": "did you mean 'Europe/Berlin'?",
                }
            ]
        }
    )

    type: str = Field(description="an address for the code")
    title: str = Field(description="the same for every problem of this code")
    status: int
    code: str = Field(description="stable, for programs")
    detail: str = Field(description="what is wrong here, in a sentence")
    field: str | None = Field(None, description="the argument that is wrong")
    value: Any = Field(None, description="its value, cut to 80 characters")
    remedy: str | None = Field(None, description="what to do")
    position: int | None = Field(None, description="of the fault in an expression, from 0")
    principal: str | None = Field(None, description="who lacks a grant")
    verb: str | None = Field(None, description="what the grant would have to allow")
    tenant: str | None = Field(None, description="for which tenant")
    job: str | None = Field(None, description="for which job; left out: for all, or it is not said")
    limit: str | None = Field(None, description="which limit throttles")
    seconds: float | None = Field(None, description="after which the same request is accepted, unless others are first")
    most: int | None = Field(None, description="what the limit allows")
    errors: list[dict[str, Any]] | None = Field(None, description="further faults: field and remedy")


@dataclass
class _Answered:
    """The members of a problem beside those of its kind."""

    detail: str
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def problem_response(kind: ErrorKind, detail: str, more: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    content = json_bytes(_document(kind, detail, more))
    return Response(content, kind.status, headers=dict(headers), media_type=MEDIA_TYPE)


def _document(kind: ErrorKind, detail: str, more: Mapping[str, Any]) -> dict[str, Any]:
    said = {
        "type": f"urn:quarterjack:problem:{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "code": kind.code,
        "detail": detail,
    }
    return said | {name: value for name, value in more.items() if value is not None}


def refused(request: Request, refusal: RefusedRequest) -> Response:
    del request
    more = {"field": refusal.field, "value": shown(refusal.value), "remedy": refusal.remedy}
    return problem_response(refusal.kind, refusal.detail, more, refusal.headers)


def problem_document(problem: QuarterjackError, request: Request) -> dict[str, Any]:
    """The problem of a part of a request, of which other parts were done."""
    kind = kind_of(problem)
    answered = _answered(problem, kind, request)
    _log_ours(problem, kind, request)
    return _document(kind, answered.detail, answered.more)


def explained(request: Request, problem: QuarterjackError) -> Response:
    """The answer to an error of the SDK."""
    kind = kind_of(problem)
    if isinstance(problem, errors.Conflict) and "if-match" in request.headers:
        kind = PRECONDITION
    if isinstance(problem, errors.AlreadyExists) and kind.status == 409 and "if-none-match" in request.headers:
        kind = PRECONDITION
    answered = _answered(problem, kind, request)
    if isinstance(problem, errors.Throttled):
        answered.headers["Retry-After"] = add_tenant_rate(problem, request.state.answer_headers)
    if kind.status == 503:
        answered.headers["Retry-After"] = str(_RETRY)
    _log_ours(problem, kind, request)
    return problem_response(kind, answered.detail, answered.more, answered.headers)


def _log_ours(problem: QuarterjackError, kind: ErrorKind, request: Request) -> None:
    if kind.ours:
        log.error("api.error", extra={"path": request.url.path, "error": str(problem), "code": kind.code})


def _answered(problem: QuarterjackError, kind: ErrorKind, request: Request) -> _Answered:
    answered = _of_argument(problem) if isinstance(problem, InvalidInput) else _of_other(problem, kind, request)
    for cls, names in MEMBERS.items():
        if isinstance(problem, cls):
            answered.more |= {name: getattr(problem, name) for name in names}
    if isinstance(problem, errors.LimitExceeded):
        answered.more |= {"field": problem.limit, "value": problem.value, "remedy": problem.remedy}
    return answered


def _of_argument(problem: InvalidInput) -> _Answered:
    name, value, remedy = field_of(problem.field), shown(problem.value), text_of(problem.remedy)
    more = {"field": name, "value": value, "remedy": remedy, "position": getattr(problem, "position", None)}
    return _Answered(f"{name}={written(value)}: {text_of(problem.problem)}; {remedy}", more)


def _of_other(problem: QuarterjackError, kind: ErrorKind, request: Request) -> _Answered:
    said, detail = said_by(str(problem)), text_of(str(problem))
    remedy = kind.remedy if said.remedy is None else text_of(said.remedy)
    if said.field is None:
        return _Answered(detail, {"remedy": remedy})
    name = field_of(said.field)
    if name != said.field:
        detail = name + detail.removeprefix(said.field)
    return _Answered(detail, {"field": name, "value": shown(said.value or request.headers.get(name)), "remedy": remedy})


def _invalid(request: Request, problem: RequestValidationError) -> Response:
    """The answer to a request that is not as its schema says."""
    del request
    faults = [_fault(list(same)) for _, same in groupby(problem.errors(), place_of)]
    first = faults[0]
    others = [{"field": one.more["field"], "remedy": one.more["remedy"]} for one in faults[1 : 1 + _OTHERS]]
    return problem_response(KINDS[InvalidInput], first.detail, {**first.more, "errors": others or None}, {})


def _fault(faults: Sequence[Mapping[str, Any]]) -> _Answered:
    """The fault of a field; a field of several types has several faults."""
    fault, name = faults[0], place_of(faults[0])
    if fault["type"] == "missing":
        return _Answered(f"{name}: is missing", {"field": name, "remedy": "give it"})
    if fault["type"] == "extra_forbidden":  # without its value, which may be a payload at the wrong depth
        remedy = "leave it out, or correct its name: /openapi.json has the names"
        return _Answered(f"{name}: is not known here; {remedy}", {"field": name, "remedy": remedy})
    value, remedy = shown(fault.get("input")), f"give {' or '.join(dict.fromkeys(map(wanted, faults)))}"
    return _Answered(f"{name}={written(value)}: {remedy}", {"field": name, "value": value, "remedy": remedy})


def _http(request: Request, problem: HTTPException) -> Response:
    """The answer to a request that no route takes."""
    kind = REFUSALS.get(problem.status_code, ErrorKind(problem.status_code, "http", "Refused"))
    more: dict[str, Any] = {"remedy": "see /openapi.json"}
    headers, detail = dict(problem.headers or {}), str(problem.detail)
    if problem.status_code == 400:
        more = {"field": "body", "remedy": "send valid JSON"}
    if problem.status_code == 404:
        more = {"field": "path", "value": shown(request.url.path), "remedy": "see /openapi.json for the addresses"}
    if problem.status_code == 405:
        headers["Allow"] = ", ".join(methods := _methods_of(request))
        more = {"field": "method", "value": request.method, "remedy": f"use {' or '.join(methods)}"}
    if problem.status_code in (404, 405):
        detail = f"{request.method} {request.url.path}: {detail}"
    return problem_response(kind, detail, more, headers)


def _methods_of(request: Request) -> list[str]:
    """The methods that an address takes, of all of its routes."""
    found = set[str]()
    for route in request.app.router.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _unexpected(request: Request, problem: Exception) -> Response:
    log.error("api.failed", extra={"path": request.url.path, "error": type(problem).__name__}, exc_info=problem)
    remedy = "ask the operators: the log of the server has the error"
    return problem_response(UNEXPECTED, "the server failed; its log has the error", {"remedy": remedy}, {})


def add_handlers(app: FastAPI) -> None:
    """Let an application answer every error as a problem."""
    handlers: Mapping[Any, Any] = {
        QuarterjackError: explained,
        RefusedRequest: refused,
        RequestValidationError: _invalid,
        HTTPException: _http,
        Exception: _unexpected,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
