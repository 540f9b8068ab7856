"""Parts of requests: names in addresses, moments, tags, and the definition of a schedule with the schema of declaration files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Header, Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from quarterjack.apply import schema
from quarterjack.arguments import FURTHEST, MAX_TAG, MAX_TAGS
from quarterjack.domain.names import integral
from quarterjack.domain.schedule import Declaration
from quarterjack.domain.tenants.app_versions import VERSION_PATTERN
from quarterjack.domain.tenants.profile import SHARED
from quarterjack.domain.times import SECOND
from quarterjack.web.urls import HOLDER_PATTERN, NAME_PATTERN, RUN_PATTERN, cursor_of_url, name_of_url, run_of_url

JsonSchema: TypeAlias = dict[str, Any]
OPAQUE: JsonSchema = {"anyOf": [{"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}, {"type": "null"}]}
RUN_ID: JsonSchema = {"anyOf": [{"type": "string", "pattern": RUN_PATTERN}, {"type": "null"}]}
_NAME = "[A-Za-z0-9._:@/-]{1,200}"
NAME = rf"^{_NAME}$"  # of schedules, jobs and keys
QUEUE, ZONE = schema.QUEUE, schema.ZONE
MOST_ITEMS = 1_000  # of a page
MOST_SECONDS = 1_209_600  # of a limit: 14 days


def one_of_these(**kinds: str) -> JsonSchema:
    """For a body of which exactly one of some fields has a value: each by its name, with its JSON type."""
    return {"oneOf": [{"required": [name], "properties": {name: {"type": kind}}} for name, kind in kinds.items()]}


def _moment(value: Any) -> Any:
    """A text as a moment. The SDK refuses one without an offset."""
    if isinstance(value, datetime) or value is None:
        return value
    try:
        if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[Tt ]", value):
            return datetime.fromisoformat(value.upper())
    except ValueError:
        pass
    raise ValueError("a date and time with an offset, e.g. 2026-12-24T18:00:00Z (in an address, write + as %2B)")


Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
Flag = Annotated[bool, Field(strict=True)]


Whole = Annotated[int, Field(strict=True), BeforeValidator(integral)]
SoMany = Annotated[int, Field(strict=True, ge=1, le=1_000_000), BeforeValidator(integral)]
Seconds = Annotated[float, Field(strict=True)]
VersionName = Annotated[str, Field(pattern=f"^{VERSION_PATTERN}$", examples=["2.4.1"])]
LONGEST_DELAY = FURTHEST // SECOND
Payload = Annotated[Any, Field(description="any JSON value up to 256 KB, with at most 64 levels")]
RunTags = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=MAX_TAG)], Annotated[str, Field(max_length=MAX_TAG)]],
    Field(max_length=MAX_TAGS),
]
Limit = Annotated[int, Field(ge=1, le=MOST_ITEMS, description="most items of the page")]


# Parts of addresses, and the key of a request.


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


def _name(
    name: Annotated[str, Path(pattern=NAME_PATTERN, description="name of the schedule, with `~` for `/`")],
) -> str:
    return name_of_url(name)


def _run(
    run: Annotated[str, Path(json_schema_extra={"pattern": RUN_PATTERN}, description="the `url_id` of the run")],
) -> str:
    return run_of_url(run)  # which says what a run is called here: who has an id from elsewhere tries that


def _backfill(backfill: Annotated[str, Path(pattern=NAME_PATTERN, description="the `id` of the backfill")]) -> str:
    return name_of_url(backfill)


def _signal(
    name: Annotated[str, Path(pattern=NAME_PATTERN, description="name of the signal, with `~` for `/`")],
) -> str:
    return name_of_url(name)


def _key(
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="the same key again, with the same request: the answer of the first, and nothing done twice. "
            "1 to 200 of `A-Z a-z 0-9 . _ : @ / -`, alone or in quotes",
            json_schema_extra={"anyOf": [{"type": "string", "pattern": f'^({_NAME}|"{_NAME}")$'}, {"type": "null"}]},
        ),
    ] = None,
) -> str | None:
    if key is not None and len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return key


Holder = Annotated[str, Depends(_holder)]
CallbackToken = Annotated[str, Path(pattern=r"^qjt_[A-Za-z0-9_-]{1,1200}$", description="as the job has handed it out")]
VersionPath = Annotated[str, Path(pattern=f"^{VERSION_PATTERN}$", description="name of the application version")]
_TASK: dict[str, Any] = {
    "pattern": "^[A-Za-z_][A-Za-z0-9_.]{0,79}$"
}  # for the document: the answer to another name has the tasks
TaskName = Annotated[str, Path(json_schema_extra=_TASK, description="name of the task")]
LinkId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$", description="the `id` of the link")]
ScheduleName = Annotated[str, Depends(_name)]
RunId = Annotated[str, Depends(_run)]
SignalName = Annotated[str, Depends(_signal)]
BackfillId = Annotated[str, Depends(_backfill)]
IdempotencyKey = Annotated[str | None, Depends(_key)]


class ApiBody(BaseModel):
    """A body: a name that it does not know is refused."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def given(self, *names: str) -> dict[str, Any]:
        """The fields that the request has, all or these. The SDK has the defaults of missing ones."""
        return {name: getattr(self, name) for name in self.model_fields_set if not names or name in names}


class ApiQuery(ApiBody):
    """The query of an address."""


class PageQuery(ApiQuery):
    """The query of a listing."""

    limit: Limit = 100
    cursor: str | None = Field(None, description="cursor of the previous page", json_schema_extra=OPAQUE)

    def arguments(self) -> dict[str, Any]:
        """As keywords of the SDK."""
        found = self.given()
        if "cursor" in found:
            found["cursor"] = cursor_of_url(found["cursor"])
        if found.get("tag") is not None:
            found["tag"] = tag_of(found["tag"])
        return found


def tag_of(text: str) -> tuple[str, str] | str:
    """A tag in an address: ``key=value``, or a key for any value."""
    key, separator, value = text.partition("=")
    return (key, value) if separator else key


def _definition_schema() -> dict[str, Any]:
    """The schema of one schedule in a file of declarations."""
    found: dict[str, Any] = json.loads(schema.published())["properties"]["schedules"]["additionalProperties"]
    del found["properties"]["paused"]  # which has routes of its own
    # Generators of clients make no class of alternatives: who gives tasks gives their job, pipeline:NAME, and an expression as well.
    del found["anyOf"]
    found["required"] = ["job", "expression"]
    return found


DEFINITION: Mapping[str, Any] = _definition_schema()
EXAMPLE: Mapping[str, Any] = {
    "job": "reports.nightly",
    "expression": "30 2 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "payload": {"region": "eu"},
    "tags": {"team": "billing"},
    "retry": {"max_attempts": 5, "base": 30},
    "overlap": "skip",
}
_NAMED = {"name": {"type": "string", "pattern": NAME, "description": "unique within the tenant"}}

Definition = Annotated[
    dict[str, Any], WithJsonSchema({**DEFINITION, "title": "Definition", "examples": [dict(EXAMPLE)]})
]
NamedDefinition = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            **DEFINITION,
            "title": "NamedDefinition",
            "properties": _NAMED | DEFINITION["properties"],
            "required": ["name", *DEFINITION["required"]],
            "examples": [{"name": "reports/nightly", **EXAMPLE}],
        }
    ),
]


def _patched(said: Mapping[str, Any]) -> dict[str, Any]:
    """Of a field in a merge patch: an object may have a part of its fields, and null removes what it stands at."""
    return {"type": ["object", "null"]} if said.get("type") == "object" else schema.or_null(said)


PATCH: JsonSchema = {
    "type": "object",
    "title": "Patch",
    "description": "a JSON merge patch (RFC 7396)",
    "properties": {name: said if name == "job" else _patched(said) for name, said in DEFINITION["properties"].items()},
    "additionalProperties": False,
    "examples": [{"timezone": "Europe/Paris"}],
}
Patch = Annotated[dict[str, Any], WithJsonSchema(PATCH)]


def merged(present: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7396): null removes, objects are merged, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(present) if isinstance(present, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def definition_arguments(found: Declaration) -> dict[str, Any]:
    """A declaration as keywords of create_schedule and upsert_schedule."""
    policies = {word: value for word, value in vars(found.overrides).items() if value is not None}
    options = {word: getattr(found.options, word) for word in found.options.as_dict()}
    about: dict[str, Any] = {"description": found.description, "tags": found.tags, "payload": json.loads(found.payload)}
    return {"job": found.job, "expression": found.rule, **about, **policies, **options}
