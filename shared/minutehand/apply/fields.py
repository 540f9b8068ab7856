"""The words of a declaration: the fields of a schedule in a file, which a plan compares, and their JSON Schema."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from datetime import datetime
from enum import StrEnum
from importlib.resources import files
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from minutehand.arguments import MAX_DESCRIPTION, MAX_TAGS
from minutehand.declare import declaration
from minutehand.domain.options import Options
from minutehand.domain.policies import Overrides, Policies, Retry
from minutehand.domain.schedule import Declaration, Definition
from minutehand.domain.times import from_ms
from minutehand.errors import InvalidInput
from minutehand.timing import Rule

DATES = ("start", "end")  # words of a rule with a date and time
RULE = tuple(
    f.name for f in fields(Rule) if f.init and f.name not in ("expression", "timezone", "also", "seed", "last")
)
RETRY = tuple(f.name for f in fields(Retry))
OPTIONS = tuple(f.name for f in fields(Options))
OVERRIDES = tuple(f.name for f in fields(Overrides))
ABOUT = ("job", "expression", "timezone", "rule", "payload", "description", "tags", "paused")
ALL = (*ABOUT, *OVERRIDES, *OPTIONS)


def words_of(
    definition: Definition,
    payload: Any,
    *,
    description: str = "",
    tags: Mapping[str, str] | None = None,
    paused: bool | None = None,
) -> dict[str, Any]:
    """The words of a definition, in the order of ALL."""
    rule = definition.rule.as_dict()
    texts = [definition.rule.expression, *definition.rule.also]
    rest = {name: _plain(name, rule[name]) for name in RULE if name in rule}
    found = {
        "job": definition.job,
        "expression": texts if len(texts) > 1 else texts[0],
        "timezone": rule.get("timezone", "UTC"),
        "rule": rest or None,
        "payload": payload,
        "description": description or None,
        "tags": dict(sorted((tags or {}).items())) or None,
        "paused": paused,
        **definition.overrides.as_dict(),
        **definition.options.as_dict(),
    }
    return {name: found[name] for name in ALL if found.get(name) is not None}


def read_words(name: str, words: Mapping[str, Any], place: str) -> Declaration:
    """The declaration with these words. Raises InvalidInput with the path of the word: ``rule.window``."""
    _known("", words, ALL)
    for needed in ("job", "expression"):
        if words.get(needed) is None:
            raise InvalidInput(needed, None, "is missing", "every schedule has a job and an expression")
    given = {word: words[word] for word in (*ABOUT[4:], *OVERRIDES, *OPTIONS) if word in words}
    if given.get("retry") is not None:
        with _below("retry"):
            given["retry"] = Retry(**_known("retry", given["retry"], RETRY))
    return declaration(
        place=place, name=name, job=_text("job", words["job"]), expression=_rule(words), **_without_nulls(given)
    )


def _rule(words: Mapping[str, Any]) -> Rule:
    expression, timezone = words["expression"], words.get("timezone")
    with _below("rule"):
        rest = dict(_known("rule", words.get("rule") or {}, RULE))
        rest |= {name: _moment(name, rest[name]) for name in DATES if rest.get(name) is not None}
    first, *also = expression if isinstance(expression, list) and expression else [expression]
    plain = Rule(expression=first, timezone="UTC" if timezone is None else timezone, also=tuple(also))
    with _below("rule"):
        return plain if not rest else Rule.from_dict({**plain.as_dict(), **_rule_values(rest)})


def _rule_values(rest: Mapping[str, Any]) -> dict[str, Any]:
    """As ``Rule.from_dict`` takes them."""
    return {
        name: int(value.timestamp() * 1000) if isinstance(value, datetime) else value
        for name, value in rest.items()
        if value is not None
    }


def _moment(name: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(name, value, "is not a date and time with an offset", "write e.g. 2026-12-24T18:00:00Z")
    return moment


def _plain(name: str, value: Any) -> Any:
    if name not in DATES:
        return value
    return from_ms(value).isoformat(timespec="milliseconds" if value % 1000 else "seconds").replace("+00:00", "Z")


def _known(path: str, words: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(words, Mapping):
        raise InvalidInput("", words, "is not a mapping", f"write some of {', '.join(names)} below it")
    for word in words:
        if word not in names:
            field = word if path else str(word)
            raise InvalidInput(field, words[word], "is not known here", f"use some of {', '.join(names)}")
    return words


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, value, "is not a text", "write its name")
    return value


def _without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in given.items() if value is not None or word == "payload"}


@contextmanager
def _below(path: str) -> Iterator[None]:
    """InvalidInput that is raised in the block gets ``path`` before its field."""
    try:
        yield
    except InvalidInput as error:
        raise error.about(f"{path}.{error.field}".removesuffix(".")) from None


SCHEMA = "schedules.schema.json"  # beside this module
_NAME = "^[A-Za-z0-9._:@/-]{1,200}$"
_PLAIN: Mapping[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}
_NAMED = {"type": "string", "pattern": _NAME}
_TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}


def published() -> str:
    """The schema that the package contains."""
    return files(__package__ or "minutehand.apply").joinpath(SCHEMA).read_text(encoding="utf-8")


def build(remarks: Callable[[type], Mapping[str, str]]) -> str:
    """The schema as JSON text. ``remarks`` gives the comments beside a class's fields: they become descriptions."""
    retry = _object(_properties(Retry, RETRY, remarks))
    words: dict[str, Any] = {
        "job": {**_NAMED, "description": "name of the job"},
        "expression": {
            "anyOf": [{"type": "string"}, _TEXTS],
            "description": "when it is due: cron, rate(…), at(…), RRULE",
        },
        "timezone": {"type": "string", "default": "UTC", "description": "IANA name that the expression is read in"},
        "rule": {
            **_object(_properties(Rule, RULE, remarks)),
            "description": "further options of the rule",
        },
        "payload": {"description": "payload of the job"},
        "description": {"type": "string", "maxLength": MAX_DESCRIPTION, "description": "free text"},
        "tags": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "maxProperties": MAX_TAGS,
            "description": "key-value pairs to filter by",
        },
        "paused": {
            "type": "boolean",
            "description": "true: paused; false: not paused; left out: unchanged",
        },
        **_properties(Overrides, OVERRIDES, lambda _: remarks(Policies)),
        **_properties(Options, OPTIONS, remarks),
    }
    words["retry"] = {**retry, "description": "instead of the job's own, as a whole"}
    schedule = _object(words, required=("job", "expression"))
    top = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Schedules of Minutehand",
        **_object(
            {
                "managed_by": {**_NAMED, "description": "owner of these schedules; apply changes no others"},
                "schedules": {
                    "type": "object",
                    "propertyNames": {"pattern": _NAME},
                    "additionalProperties": schedule,
                    "description": "the schedules by name",
                },
            },
            required=("schedules",),
        ),
    }
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def _object(properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return found | ({"required": list(required)} if required else {})


def _properties(kind: Any, names: tuple[str, ...], remarks: Callable[[type], Mapping[str, str]]) -> dict[str, Any]:
    hints, comments = get_type_hints(kind), remarks(kind)
    defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING and f.default is not None}
    found = {}
    for name in names:
        moment = {"type": "string", "format": "date-time"}
        found[name] = moment if kind is Rule and name in DATES else _type(hints[name])
        if comments.get(name):
            found[name] = {**found[name], "description": comments[name]}
        if defaults.get(name) not in (None, ()):
            found[name] = {**found[name], "default": defaults[name]}
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
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {"type": "array", "items": {"type": "string"}}  # tuples of texts, and of exceptions by name
