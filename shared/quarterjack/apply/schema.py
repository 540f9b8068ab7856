"""The JSON Schema of a file of declarations, generated from the classes that have its words as fields.

``docs/generate.py`` writes it to ``schedules.schema.json`` beside this module; a test fails if that file is out of date.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from importlib.resources import files
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from quarterjack.apply.fields import DATES, FLOW, OPTIONS, OVERRIDES, RETRY, RULE
from quarterjack.arguments import MAX_DESCRIPTION, MAX_TAG, MAX_TAGS
from quarterjack.domain.notice import JOB
from quarterjack.domain.options import LARGEST_BUFFER, LONGEST, TIME_OF_DAY, TOPIC, Options
from quarterjack.domain.pipelines.graph import Join
from quarterjack.domain.pipelines.reading import MOST_AT_A_TIME, MOST_TASKS, TASK_WORDS
from quarterjack.domain.policies import Overrides, Policies, Retry
from quarterjack.domain.policies.flow import MOST_AT_A_TIME as MOST_FLOWING
from quarterjack.domain.policies.flow import MOST_PER_MINUTE, Flow
from quarterjack.timing import Rule
from quarterjack.timing.rule import MOST_FIRES
from quarterjack.timing.timetables import LONGEST as LONGEST_WINDOW

SCHEMA = "schedules.schema.json"  # beside this module
_NAME = "^[A-Za-z0-9._:@/-]{1,200}$"
_PLAIN: Mapping[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}
QUEUE = "^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$"
TASK = "^[A-Za-z_][A-Za-z0-9_.]{0,79}$"
ZONE = "^[A-Za-z0-9_+/-]{1,64}$"  # of an IANA name; whether there is one, the server says
_ASCII = "^[\\t\\n\\r -~]+$"
_SPAN = {"minimum": 0, "maximum": 1_209_600}  # seconds: 14 days
_LIMIT = {"minimum": 0.001, "maximum": 1_209_600}
_CLASS = {"items": {"type": "string", "minLength": 1}}
_WINDOW = {"minimum": 0, "maximum": LONGEST_WINDOW}
_SO_MANY = {"minimum": 1, "maximum": 1_000}
_TIME = {"minimum": 60, "maximum": int(LONGEST)}
_NOTICE = {"pattern": f"^({TOPIC}|{JOB}{_NAME[1:-1]})$"}
# What the checks of the values say, for editors and clients.
STRICT: Mapping[Any, Mapping[str, Mapping[str, Any]]] = {
    Retry: {
        "max_attempts": {"minimum": 1, "maximum": 1_000},
        "base": _SPAN,
        "cap": _SPAN,
        "within": _SPAN,
        "jitter": {"minimum": 0, "maximum": 1},
        "retry_on": _CLASS,
        "never_on": _CLASS,
        "always_on": _CLASS,
    },
    Flow: {
        "key": {"minLength": 1, "maxLength": 200},
        "name": {"pattern": _NAME},
        "at_a_time": {"minimum": 1, "maximum": MOST_FLOWING},
        "per_minute": {"minimum": 1, "maximum": MOST_PER_MINUTE},
        "burst": {"minimum": 1, "maximum": MOST_PER_MINUTE},
    },
    Overrides: {"timeout": _LIMIT, "deadline": _LIMIT},
    Rule: {"max_fires": {"minimum": 1, "maximum": MOST_FIRES}, "window": _WINDOW, "jitter": _WINDOW},
    Options: {
        "queue": {"pattern": QUEUE},
        "catch_up_window": {"minimum": 0, "maximum": int(LONGEST)},
        "buffer": {"minimum": 1, "maximum": LARGEST_BUFFER},
        "max_running": _SO_MANY,
        "pause_on_failure": _SO_MANY,
        "on_failure": _NOTICE,
        "on_recovery": _NOTICE,
        "expect_success_within": _TIME,
        "alert_if_running_longer_than": _TIME,
        "must_end_by": {
            "anyOf": [{"type": "number", **_TIME}, {"type": "string", "pattern": f"^({TIME_OF_DAY})$"}],
        },
    },
}
_NAMED = {"type": "string", "pattern": _NAME}
_TEXT = {"type": "string", "pattern": _ASCII}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}


def published() -> str:
    return files(__package__ or "quarterjack.apply").joinpath(SCHEMA).read_text(encoding="utf-8")


def build(remarks: Callable[[type], Mapping[str, str]]) -> str:
    """The schema as JSON text. ``remarks`` gives the comments beside a class's fields: they become descriptions."""
    top = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Schedules of Quarterjack",
        **_object(
            {
                "managed_by": {**_NAMED, "description": "owner of these schedules; apply changes no others"},
                "schedules": {
                    "type": "object",
                    "propertyNames": {"pattern": _NAME},
                    "additionalProperties": _object(
                        _words(remarks), anyOf=[{"required": ["job", "expression"]}, {"required": ["tasks"]}]
                    ),
                    "description": "the schedules by name",
                },
            },
            required=("schedules",),
        ),
    }
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def _words(remarks: Callable[[type], Mapping[str, str]]) -> dict[str, Any]:
    """The words of one schedule."""
    words: dict[str, Any] = {
        "job": {**_NAMED, "description": "name of the job"},
        "expression": {
            "anyOf": [_TEXT, _TEXTS],
            "description": "when it is due: cron, rate(…), at(…), RRULE",
        },
        "timezone": {
            "type": "string",
            "pattern": ZONE,
            "default": "UTC",
            "description": "IANA name that the expression is read in",
        },
        "rule": {**_object(_properties(Rule, RULE, remarks)), "description": "further options of the rule"},
        "payload": {"description": "payload of the job"},
        "description": {"type": "string", "maxLength": MAX_DESCRIPTION, "description": "free text"},
        "tags": {
            "type": "object",
            "propertyNames": {"minLength": 1, "maxLength": MAX_TAG},
            "additionalProperties": {"type": "string", "maxLength": MAX_TAG},
            "maxProperties": MAX_TAGS,
            "description": "key-value pairs to filter by",
        },
        "paused": {"type": "boolean", "description": "true: paused; false: not paused; left out: unchanged"},
        **_properties(Overrides, OVERRIDES, lambda _: remarks(Policies)),
        **_properties(Options, OPTIONS, remarks),
    }
    retry = _object(_properties(Retry, RETRY, remarks))
    words["retry"] = {**retry, "description": "instead of the job's own, as a whole"}
    flow = _object(_properties(Flow, FLOW, remarks), anyOf=[{"required": ["at_a_time"]}, {"required": ["per_minute"]}])
    words["flow"] = {**flow, "description": "limits by key, instead of the job's own, as a whole"}
    words["tasks"] = {
        "type": "object",
        "propertyNames": {"pattern": TASK},
        "additionalProperties": _task(words),
        "minProperties": 1,
        "maxProperties": MOST_TASKS,
        "description": "of a pipeline: its tasks by name; see docs/how-to/pipelines.md",
    }
    return words


def _task(words: Mapping[str, Any]) -> dict[str, Any]:
    """Of one task. ``words`` are those of a schedule, of which a task has some."""
    own: dict[str, Any] = {
        "job": _NAMED,
        "pipeline": _NAMED,
        "payload": {},
        "after": {"type": "array", "items": {"type": "string", "pattern": TASK}, "uniqueItems": True},
        "join": _type(Join),
        "when": {"type": "string"},
        "optional": {"type": "boolean"},
        "map": _object(
            {"over": {}, "at_a_time": {"type": "integer", "minimum": 1, "maximum": MOST_AT_A_TIME}}, ("over",)
        ),
    }
    known = {name: own.get(name) or words.get(name, {}) for name in TASK_WORDS}
    one_of = [{"required": [name], "properties": {name: _NAMED}} for name in ("job", "pipeline")]
    return _object({name: or_null(said) for name, said in known.items()}, oneOf=one_of)


def or_null(said: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, or null."""
    plain = {key: value for key, value in said.items() if key not in ("default", "description")}
    return {"anyOf": [plain, {"type": "null"}]} if plain else {}


def _object(properties: Mapping[str, Any], required: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, **needed, **more}


def _properties(kind: Any, names: tuple[str, ...], remarks: Callable[[type], Mapping[str, str]]) -> dict[str, Any]:
    hints, comments = get_type_hints(kind), remarks(kind)
    defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING and f.default is not None}
    found = {}
    for name in names:
        is_date = kind is Rule and name in DATES
        found[name] = {"type": "string", "format": "date-time"} if is_date else dict(_type(hints[name]))
        found[name] = {**found[name], **STRICT.get(kind, {}).get(name, {})}
        if comments.get(name):
            found[name]["description"] = comments[name]
        if defaults.get(name) not in (None, ()):
            found[name]["default"] = defaults[name]
    return found


def _type(hint: Any) -> dict[str, Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"enum": [str(word) for word in hint]}
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        kinds = [_type(part) for part in parts if part is not type(None)]
        kinds = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]  # an enum and its words are one
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {"type": "array", "items": {"type": "string"}}  # tuples of texts, and of exceptions by name
