"""A JSON Schema for people: its fields as a table, and a payload to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_DEEP = 5  # levels of a payload to begin with
_MOST = 100  # fields that are listed
_EMPTY: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "null": None}


@dataclass(frozen=True)
class SchemaField:
    """One field of an object."""

    name: str
    type: str  # in words
    required: bool
    about: str  # its description, bounds and default


def fields_of(schema: Mapping[str, Any]) -> list[SchemaField]:
    """The fields of the object that a schema describes; none for another one."""
    top = _resolved(schema, schema)
    properties = top.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = top.get("required") if isinstance(top.get("required"), list) else []
    found = []
    for name, given in list(properties.items())[:_MOST]:
        one = _resolved(given, schema)
        found.append(SchemaField(str(name), _type(one, schema), name in (required or []), "; ".join(_about(one))))
    return found


def beginning_of(schema: Mapping[str, Any] | None) -> Any:
    """A payload of that form: examples, defaults and empty values of what is required. None where nothing is known."""
    return None if schema is None else _value(schema, schema, _DEEP)


def _value(given: Any, schema: Mapping[str, Any], deep: int) -> Any:
    one = _resolved(given, schema)
    for word in ("example", "default", "const"):
        if word in one:
            return one[word]
    for word in ("examples", "enum"):
        if isinstance(one.get(word), list) and one[word]:
            return one[word][0]
    for word in ("anyOf", "oneOf"):
        if isinstance(one.get(word), list) and one[word] and deep:
            return _value(one[word][0], schema, deep - 1)
    kind = one.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in one:
        properties, required = one.get("properties"), one.get("required")
        if not isinstance(properties, Mapping) or not isinstance(required, list) or not deep:
            return {}
        return {name: _value(properties[name], schema, deep - 1) for name in required if name in properties}
    return _EMPTY.get(str(kind))


def _resolved(given: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a schema, with its reference within the document followed."""
    one = given if isinstance(given, Mapping) else {}
    for _ in range(_DEEP):
        ref = one.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            break
        found: Any = schema
        for step in ref[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(found, Mapping) else {}
        one = found if isinstance(found, Mapping) else {}
    return one


def _type(one: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "const" in one:
        return f"always {one['const']!r}"
    if isinstance(one.get("enum"), list):
        return "one of " + ", ".join(map(str, one["enum"][:8])) + (" …" if len(one["enum"]) > 8 else "")
    for word in ("anyOf", "oneOf"):
        if isinstance(one.get(word), list):
            return " or ".join(dict.fromkeys(_type(_resolved(each, schema), schema) for each in one[word][:8]))
    kind = one.get("type", "anything")
    named = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    if kind == "array" and "items" in one:
        return f"list of {_resolved(one['items'], schema).get('type', 'anything')}"
    return f"{named} ({one['format']})" if isinstance(one.get("format"), str) else named


def _about(one: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(one.get("description"), str):
        yield one["description"]
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
        "minLength": "characters, at least",
        "maxLength": "characters, at most",
        "pattern": "like",
    }
    yield from (f"{said} {one[word]}" for word, said in words.items() if word in one)
    if "default" in one:
        yield f"left out: {one['default']!r}"
