"""A payload that does not fit, in our words: the field by its path, its value without secrets, and the remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from quarterjack.domain.redaction import MASK, Redact
from quarterjack.errors import InvalidInput, shorten
from quarterjack.payload_types.faults import Fault

_PLACE = "payload"
_ABSENT = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")
_UNEXPECTED = ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument")
_OTHERS = 3  # further fields that are named
_BOUND = (
    "greater ",
    "less ",
    "at most",
    "at least",
    "finite",
    "after ",
    "before ",
)  # what a value should be, not what it should be like


_CHOICES = 10  # values of an enum that are named
_TYPES = {
    "string": "a text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_REMEDIES = {
    "minimum": "give a value of at least {}",
    "maximum": "give a value of at most {}",
    "exclusiveMinimum": "give a value greater than {}",
    "exclusiveMaximum": "give a value less than {}",
    "multipleOf": "give a multiple of {}",
    "minLength": "give a text of at least {} characters",
    "maxLength": "give a text of at most {} characters",
    "pattern": "give a text that matches {}",
    "format": "give a text in the format {}",
    "minItems": "give at least {} items",
    "maxItems": "give at most {} items",
    "uniqueItems": "give each item once",
    "contains": "give it the items that the schema asks for",
    "minProperties": "give at least {} fields",
    "maxProperties": "give at most {} fields",
    "propertyNames": "correct the name of the field",
    "several": "give what fits one of the alternatives: this fits {}",
    "not": "give another value: the schema excludes this one",
    "false": "leave it out",
    "unevaluatedProperties": "leave out the fields that the schema does not name",
    "unevaluatedItems": "leave out the items that the schema does not name",
}


class _Shown:
    """A value as an error may show it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_MISSING = _Shown("<missing>")


def refusal(found: Sequence[Any], text: str, job: str, redact: Redact) -> InvalidInput:
    """The error of the first fault that Pydantic found in a payload (JSON text); the other faults' fields are named, too."""
    given = json.loads(text)
    paths = [_path(given, one) for one in found]
    first, field, others = found[0], paths[0], [path for path in dict.fromkeys(paths[1:]) if path != paths[0]]
    value = _MISSING if first["type"] in _ABSENT else _shown(field, first["input"], text, redact)
    problem, remedy = _words(first, job, is_secret=isinstance(value, _Shown))
    if others:
        more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
        problem = f"{problem} (wrong, too: {', '.join(others[:_OTHERS])}{more})"
    return InvalidInput(field, value, redact.text(problem, text), redact.text(remedy, text))


def misfit(fault: Fault, text: str, job: str, redact: Redact, *, hides: bool = False) -> InvalidInput:
    """The error of a payload (JSON text) that does not fit a schema. ``hides``: it shows no value."""
    field = ".".join((_PLACE, *map(str, fault.path)))
    value = _Shown(MASK) if hides else _shown(field, fault.value, text, redact)
    value = _MISSING if fault.is_missing else value
    return InvalidInput(field, value, *_of_keyword(fault, job))


def _of_keyword(fault: Fault, job: str) -> tuple[str, str]:
    """The problem and the remedy of a fault. They are made of the schema alone, in which no value is a secret."""
    keyword, given = fault.keyword, fault.given
    if keyword == "required":
        return f"{job!r} needs it", "add it"
    if keyword == "additionalProperties":
        return f"{job!r} has no such field", "leave it out, or correct its name"
    problem = f"does not fit the schema of {job!r}"
    if keyword in ("type", "anyOf", "oneOf"):
        types = [_TYPES.get(name, name) for name in ([given] if isinstance(given, str) else given)]
        return problem, f"give {' or '.join(dict.fromkeys(types)) or 'one of its alternatives'}"
    if keyword in ("enum", "const"):
        return problem, f"give {' or '.join(map(shorten, given[:_CHOICES] if keyword == 'enum' else [given]))}"
    return problem, _REMEDIES.get(keyword, "compare it with the schema").format(shorten(given))


def _words(fault: Any, job: str, *, is_secret: bool) -> tuple[str, str]:
    """The problem and the remedy of a fault. The text of a user's class may repeat a secret."""
    kind, message = fault["type"], str(fault["msg"])
    if kind in _ABSENT:
        return f"{job!r} needs it", "add it"
    if kind in _UNEXPECTED:
        return f"{job!r} has no such field", "leave it out, or correct its name"
    wanted = message.removeprefix("Input should be ").removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not message.startswith("Input should be "):
        return f"does not fit {job!r}" + ("" if is_secret else f" ({wanted})"), "correct it"
    for more in (" or an instance of ", " or instance of ", ", unable to "):
        wanted = wanted.partition(more)[0]
    return f"does not fit {job!r}", f"give {'a value ' if wanted.startswith(_BOUND) else ''}{wanted}"


def _path(given: Any, fault: Any) -> str:
    """Where a fault is, as ``payload.items.0.qty``. Names that Pydantic adds (the members of a union) are no keys of the payload."""
    parts, value, last = [_PLACE], given, len(fault["loc"]) - 1
    for place, part in enumerate(fault["loc"]):
        if isinstance(part, int) and isinstance(value, list):
            value = value[part] if part < len(value) else None
        elif isinstance(value, dict) and part in value:
            value = value[part]
        elif not (place == last and fault["type"] in _ABSENT):
            continue
        parts.append(str(part))
    return ".".join(parts)


def _shown(field: str, value: Any, text: str, redact: Redact) -> object:
    """The value, or what may be shown of it: of a secret, its mask."""
    start = f"{field}="
    whole = f"{start}{_repr(value)}"
    clean = redact.text(whole, text)
    if clean == whole:
        return value
    return _Shown(clean.removeprefix(start) if clean.startswith(start) else MASK)


def _repr(value: Any) -> str:
    """The whole text: one that is cut before it is redacted may show half of a secret."""
    return shorten(value, limit=10**9)
