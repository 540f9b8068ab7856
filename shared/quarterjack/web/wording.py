"""Errors in the words of the HTTP API: the one place that translates messages of Pydantic and the SDK for callers who send JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quarterjack.errors import shorten

# Types of Pydantic's errors, and what a field of that type takes. A function gets the context of the error.
WANTED: Mapping[str, str | Callable[[Mapping[str, Any]], str]] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "an object",
    "enum": lambda context: str(context["expected"]),
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": lambda context: f"a number above {context['gt']:g}",
    "greater_than_equal": lambda context: f"{context['ge']:g} or more",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 15 digits",
    "int_type": "a whole number",
    "less_than_equal": lambda context: f"{context['le']:,g} or less",
    "list_type": "a list",
    "literal_error": lambda context: str(context["expected"]),
    "mapping_type": "an object",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_too_long": lambda context: f"at most {context['max_length']:,} characters",
    "string_too_short": lambda context: f"at least {context['min_length']:,} character(s)",
    "string_type": "a text",
    "string_unicode": "a text of Unicode",
    "too_long": lambda context: f"at most {context['max_length']:,} items",
    "too_short": lambda context: f"at least {context['min_length']:,} items",
    "value_error": lambda context: str(context["error"]),
}
_SHOWN = 80  # characters of a wrong value
_TYPE = re.compile(r"str|int|float|bool|[a-z-]+\[.*\]")  # of a field that may have several
_PATTERN = re.compile(r"\^(?:\([^|()]*\|)*(\[[^\]]+\])\{(\d+),(\d+)\}\)*\$")  # a class of characters, so many of them
# Parameters of the SDK, and the fields, parts of the address and headers that stand for them.
FIELDS: Mapping[str, str] = {
    "between[0]": "after",
    "between[1]": "upto",
    "client_token": "Idempotency-Key",
    "id": "backfill",
    "idempotency_key": "Idempotency-Key",
    "run_id": "run",
}
# Methods of the SDK that errors name, and their routes below /v1/tenants/{tenant}.
ROUTES: Mapping[str, str] = {
    "backfill": "POST /schedules/{name}/backfills",
    "create_schedule": "POST /schedules",
    "list_backfills": "GET /schedules/{name}/backfills",
    "list_dead": "GET /dead",
    "list_pipelines": "GET /pipelines",
    "list_runs": "GET /runs",
    "list_schedules": "GET /schedules",
    "pause_schedule": "POST /schedules/{name}/pause",
    "queues": "GET /queues",
    "cancel_run": "POST /runs/{run}/cancel",
    "redrive": "POST /dead/redrive",
    "reassign_run": "POST /runs/{run}/reassign",
    "replay_run": "POST /runs/{run}/replay",
    "retry_pipeline": "POST /runs/{run}/retry-tasks",
    "task_stats": "GET /schedules/{name}/task-stats",
    "resume_schedule": "POST /schedules/{name}/resume",
    "retire_application_version": "POST /versions/{version}/retire",
    "set_latest_application_version": "PUT /versions/latest",
    "skip_next": "POST /schedules/{name}/skip-next",
    "skip_task": "POST /runs/{run}/tasks/{task}/skip",
    "submit": "POST /runs",
    "trigger": "POST /schedules/{name}/runs",
    "update_schedule": "PATCH /schedules/{name}",
    "upsert_schedule": "PUT /schedules/{name}",
}
# What only Python has, or writes in another form.
PHRASES: Mapping[str, str] = {
    "is not a dict of": "is not an object of",
    "not of type str": "not a text",
    "a str or None": "a text or null",
    "a str ": "a text ",
    "give exclude=[": "give exclude as [",
    "create or set gives it one": "PATCH /v1/tenants/{tenant} gives it one",
    "pass an id as submit() or list_runs() returned it": "use the url_id of a run",
    "use str of": "use a text of",
    "an aware datetime": "a date and time with an offset",
    "give seconds >= 0 or a timedelta": "give a number of seconds, 0 or more",
    "is neither True nor False": "is neither true nor false",
    "True or False": "true or false",
    "one of None,": "one of null,",
    "or None for": "or null for",
    "pass Schedule.revision": "give the revision of the schedule",
    ", import the package that declares it, or pass strict=False to Scheduler": "",
    'use ("key", "value"), or "key" for any value': "write key=value, or key for any value",
    "`quarterjack keys list` shows those there are": "GET /v1/tenants/{tenant}/keys shows those there are",
    ", e.g. datetime(..., tzinfo=UTC)": ", e.g. 2026-12-24T18:00:00Z",
    "use classes, e.g. retry_on=(TimeoutError, OSError)": 'use names of classes, e.g. ["TimeoutError", "OSError"]',
    "pass payload=": "give a payload",
}
_CALL = re.compile(r"\b(\w+)\([^()]*\)")
_TRUE = re.compile(r"\bpass ([a-z_]+)=True\b")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_SAID = re.compile(rf"\A([a-z_]+)(?:=({_QUOTED}|\w+):?|:) (.+)\Z", re.DOTALL)  # an error about an argument


def place_of(fault: Mapping[str, Any]) -> str:
    """The field that an error of Pydantic is about; of one that may have several types, without the name of the type."""
    place = [str(part) for part in fault["loc"] if part not in ("body", "query", "path", "header")]
    if len(place) > 1 and _TYPE.fullmatch(place[-1]):
        place.pop()
    return ".".join(place) or "body"


def wanted(fault: Mapping[str, Any]) -> str:
    """The values that a field takes, by an error of Pydantic about it."""
    kind, context = str(fault["type"]), fault.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _of_pattern(str(context["pattern"]))
    if kind.startswith(("date", "time")):
        return "a date and time with an offset, e.g. 2026-12-24T18:00:00Z"
    said = WANTED.get(kind, str(fault["msg"]))
    return said if isinstance(said, str) else said(context)


def _of_pattern(pattern: str) -> str:
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        return f"a text that matches {pattern}"
    characters = " ".join(re.findall(r"\\?\w-\w|[^\\]", found[1][1:-1]))
    return f"{found[2]} to {found[3]} characters of {characters}"


def shown(value: object) -> Any:
    """A wrong value as a problem repeats it."""
    if value is None or isinstance(value, (bool, int, float)):
        return value if not isinstance(value, float) or abs(value) < float("inf") else str(value)
    if isinstance(value, str):
        return value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"
    return shown(json.dumps(value, ensure_ascii=False, default=shorten))


def written(value: object) -> str:
    """A value in a sentence: a text in quotes, everything else as JSON has it."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def field_of(name: str) -> str:
    """The field or header of a request that stands for a parameter of the SDK."""
    return FIELDS.get(name, name)


def text_of(text: str) -> str:
    """A message of the SDK in the words of the HTTP API."""
    for phrase, said in PHRASES.items():
        text = text.replace(phrase, said)
    return _TRUE.sub(r'give "\1": true', _CALL.sub(_route, text))


def _route(found: re.Match[str]) -> str:
    method, _, path = ROUTES.get(found[1], "").partition(" ")
    return f"{method} /v1/tenants/{{tenant}}{path}" if path else found[0]


@dataclass(frozen=True)
class Said:
    """The parts of an error that is not InvalidInput: ``name='x': there is none; choose another``."""

    field: str | None
    value: str | None
    remedy: str | None


def said_by(text: str) -> Said:
    """The parts of an error's text, as far as it has them, in the words of the SDK."""
    found = _SAID.fullmatch(text)
    problem, separator, remedy = text.rpartition("; ")
    value = None if found is None or found[2] is None else found[2].strip("'\"")
    return Said(None if found is None else found[1], value, remedy if separator and problem else None)
