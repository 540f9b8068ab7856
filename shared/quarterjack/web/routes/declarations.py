"""Declarations, as in a file of ``quarterjack apply``: read, compare, apply; and the preview of an expression."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query as InQuery
from pydantic import BaseModel, Field
from starlette.responses import Response

from quarterjack.apply.fields import read_words
from quarterjack.apply.plan import ApplyAction, ApplyPlan, PlannedChange
from quarterjack.errors import InvalidInput
from quarterjack.timing import explain
from quarterjack.web import views
from quarterjack.web.calls import ApiCall, Call
from quarterjack.web.fields import DEFINITION, EXAMPLE, NAME, ZONE, ApiBody, ApiQuery, Flag, Moment, Whole
from quarterjack.web.routes.routing import answers, routes_of
from quarterjack.web.shapes import as_json

router = routes_of("declarations")


class ExportQuery(ApiQuery):
    """Which schedules."""

    prefix: str = Field("", pattern=r"^[A-Za-z0-9._:@/-]{0,200}$", description="of the name")


_PAUSED = {"type": "boolean", "description": "true: paused; false: not paused; left out: unchanged"}
_DECLARED = {**DEFINITION, "properties": {**DEFINITION["properties"], "paused": _PAUSED}}


class DeclarationsRequest(ApiBody):
    """A document of declarations, as a file of `quarterjack apply` has it."""

    schedules: dict[str, dict[str, Any]] = Field(
        json_schema_extra={
            "propertyNames": {"pattern": NAME},
            "additionalProperties": _DECLARED,
            "examples": [{"reports/nightly": dict(EXAMPLE)}],
        },
        description="definitions by name",
    )
    managed_by: str | None = Field(None, pattern=NAME, description="their owner; apply changes no others")
    adopt: Flag = Field(False, description="take schedules without an owner over")


class DeclarationsDocument(BaseModel):
    """The schedules of one owner."""

    managed_by: str | None
    schedules: dict[str, dict[str, Any]] = Field(description="definitions by name")


class Declarations(BaseModel):
    """All schedules, by owner."""

    items: list[DeclarationsDocument]


class ApplyRequest(DeclarationsRequest):
    """A document of declarations to carry out."""

    prune: Flag = Field(False, description="delete owned schedules that are not declared any more")


class Difference(BaseModel):
    """A word that differs."""

    current: Any = Field(description="the stored value; null: none")
    declared: Any = Field(description="the declared value; null: the default")


class Change(BaseModel):
    """The planned change of one schedule."""

    name: str
    action: str = Field(description=", ".join(f"`{act}`" for act in ApplyAction))
    job: str
    fields: dict[str, Difference] = Field(description="by the word that differs")
    why: str = Field(description="why it is refused or not owned")
    revision: int | None = Field(description="that was compared; null: it does not exist")
    warnings: list[str]


class Plan(BaseModel):
    """The planned changes."""

    managed_by: str | None
    changes: list[Change] = Field(description="by name")


class Applied(Plan):
    """The planned changes, and their results."""

    done: int = Field(description="schedules that were created, updated or deleted")
    failed: dict[str, str] = Field(description="errors by name; the same request again continues")
    complete: bool = Field(description="false: the time of the request was over; the same request again continues")


_EXPRESSION: dict[str, Any] = {"anyOf": DEFINITION["properties"]["expression"]["anyOf"]}


class PreviewRequest(ApiBody):
    """An expression, or a rule."""

    expression: str | list[str] = Field(examples=["30 2 * * *"], json_schema_extra=_EXPRESSION)
    timezone: str = Field("UTC", pattern=ZONE, examples=["Europe/Berlin"])
    rule: dict[str, Any] | None = Field(None, json_schema_extra={**DEFINITION["properties"]["rule"]})
    after: Moment | None = Field(None, description="left out: now")
    count: Whole = Field(10, ge=1, le=1_000)
    name: str | None = Field(None, pattern=NAME, description="of the schedule: it determines the value of H")


class Preview(BaseModel):
    """An expression in words, with its next fires."""

    words: str
    timezone: str
    items: list[views.FIRE.model] = Field(description="fires, and changes of the clocks")  # type: ignore[name-defined]


class _TimeIsOverError(Exception):
    pass


@router.get("/declarations", responses=answers(Declarations))
def export_declarations(call: Call, query: Annotated[ExportQuery, InQuery()]) -> Response:
    """All schedules as declarations: a list of documents, one for each owner, that `apply` accepts."""
    found = call.scheduler.export_declared(prefix=query.prefix)
    items = [{"managed_by": owner, "schedules": as_json(words)} for owner, words in found.items()]
    return call.answer({"items": items})


@router.post("/declarations/plan", responses=answers(Plan))
def plan_declarations(call: Call, body: DeclarationsRequest) -> Response:
    """The changes that applying these declarations would make. Writes nothing."""
    return call.answer(_plan_document(_compare(call, body)))


@router.post("/declarations/apply", responses=answers(Applied))
def apply_declarations(call: Call, body: ApplyRequest) -> Response:
    """Create and update schedules as declared. Only differences are written; the same request again continues."""
    plan, begun, end = _compare(call, body), list[str](), time.monotonic() + call.longest

    def before(change: PlannedChange) -> None:
        if time.monotonic() >= end:
            raise _TimeIsOverError
        begun.append(change.name)

    try:
        result = call.scheduler.carry_out(plan, prune=body.prune, on_change=before)
        done, failed, complete = result.done, result.failed, True
    except _TimeIsOverError:
        done, failed, complete = len(begun), {}, False
    return call.answer({**_plan_document(plan), "done": done, "failed": failed, "complete": complete})


@router.post("/preview", responses=answers(Preview))
def preview(call: Call, body: PreviewRequest) -> Response:
    """An expression in words, with its next fires and the clock changes between them."""
    words = {"job": "preview", "expression": body.expression, "timezone": body.timezone, "rule": body.rule}
    rule = read_words("preview", words, "the body").rule
    policies = {name: getattr(rule, name) for name in rule.as_dict() if name not in ("expression", "timezone")}
    key = None if body.name is None else f"{call.scheduler.tenant}/{body.name}"
    after = body.after or datetime.now(UTC)
    found = explain(rule.expression, rule.timezone, after=after, count=body.count, key=key, **policies)
    return call.answer({"words": found.words, "timezone": found.timezone, "items": found.rows})


def _compare(call: ApiCall, body: DeclarationsRequest) -> ApplyPlan:
    declared = []
    for name, words in body.schedules.items():
        try:
            declared.append(read_words(name, words, f"schedules.{name}"))
        except InvalidInput as problem:
            raise problem.about(f"schedules.{name}.{problem.field}") from None
    return call.scheduler.compare_declared(declared, managed_by=body.managed_by, adopt=body.adopt)


def _plan_document(plan: ApplyPlan) -> Mapping[str, Any]:
    return {"managed_by": plan.managed_by, "changes": [_change_document(change) for change in plan.changes]}


def _change_document(change: PlannedChange) -> Mapping[str, Any]:
    names = ("name", "job", "why", "revision", "warnings")
    fields = {word: {"current": old, "declared": new} for word, (old, new) in change.fields.items()}
    return {**{name: getattr(change, name) for name in names}, "action": str(change.act), "fields": as_json(fields)}
