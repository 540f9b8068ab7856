"""JSON Schema 2020-12 read from its text, keyword by keyword: slow, and by another hand than the engine."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from typing import Any
from urllib.parse import unquote

_KINDS = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}


def fits(schema: Any, value: Any, whole: Any = None) -> bool:
    """Whether a value fits. Knows the keywords of ``payload_schemas``."""
    whole = schema if whole is None else whole
    if isinstance(schema, bool):
        return schema

    def ok(part: Any, inner: Any = value) -> bool:
        return fits(part, inner, whole)

    rules = [_here(schema, value, whole), _combined(schema, ok)]
    if isinstance(value, dict):
        rules.append(_fields(schema, value, ok))
    if isinstance(value, list):
        rules.append(_items(schema, value, ok))
    return all(rules)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _is(kind: str, value: Any) -> bool:
    if kind in _KINDS:
        return isinstance(value, _KINDS[kind])
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and (kind == "number" or value == int(value))


def _here(schema: dict[str, Any], value: Any, whole: Any) -> bool:
    said = schema.get("type", [])
    rules = [not said or any(_is(kind, value) for kind in ([said] if isinstance(said, str) else said))]
    rules.append("const" not in schema or _same(schema["const"], value))
    rules.append("enum" not in schema or any(_same(each, value) for each in schema["enum"]))
    if "$ref" in schema:
        target = whole
        for token in unquote(schema["$ref"]).split("/")[1:]:
            target = target[token.replace("~1", "/").replace("~0", "~")]
        rules.append(fits(target, value, whole))
    if _is("number", value):
        rules.append(value >= schema.get("minimum", value) and value <= schema.get("maximum", value))
        rules.append(
            value > schema.get("exclusiveMinimum", value - 1) and value < schema.get("exclusiveMaximum", value + 1)
        )
        rules.append(value % schema.get("multipleOf", value or 1) == 0)
    if isinstance(value, str):
        rules.append(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
        rules.append(re.search(schema.get("pattern", ""), value) is not None)
        rules.append(_has_format(schema.get("format"), value))
    return all(rules)


def _has_format(name: str | None, value: str) -> bool:
    try:
        if name == "date":
            date.fromisoformat(value)
        elif name == "ipv4":
            ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return True


def _combined(schema: dict[str, Any], ok: Any) -> bool:
    rules = [all(map(ok, schema.get("allOf", ())))]
    rules.append("anyOf" not in schema or any(map(ok, schema["anyOf"])))
    rules.append("oneOf" not in schema or sum(map(ok, schema["oneOf"])) == 1)
    rules.append("not" not in schema or not ok(schema["not"]))
    rules.append("if" not in schema or ok(schema.get("then" if ok(schema["if"]) else "else", True)))
    return all(rules)


def _fields(schema: dict[str, Any], value: dict[str, Any], ok: Any) -> bool:
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    rules = [ok(each, value[name]) for name, each in named.items() if name in value]
    rules += [
        ok(each, inner)
        for pattern, each in patterns.items()
        for name, inner in value.items()
        if re.search(pattern, name)
    ]
    rules += [name in value for name in schema.get("required", ())]
    rest = [name for name in value if name not in named and not any(re.search(pattern, name) for pattern in patterns)]
    rules += [ok(schema.get("additionalProperties", True), value[name]) for name in rest]
    rules += [ok(schema.get("propertyNames", True), name) for name in value]
    rules.append(schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)))
    rules += [
        need in value for name, needs in schema.get("dependentRequired", {}).items() if name in value for need in needs
    ]
    rules += [ok(each) for name, each in schema.get("dependentSchemas", {}).items() if name in value]
    if schema.get("unevaluatedProperties") is False:
        seen = {name for part in (schema, *schema.get("allOf", ())) for name in part.get("properties", {})}
        rules.append(value.keys() <= seen)
    return all(rules)


def _items(schema: dict[str, Any], value: list[Any], ok: Any) -> bool:
    first = schema.get("prefixItems", [])
    rules = [ok(each, inner) for each, inner in zip(first, value, strict=False)]
    rules += [ok(schema.get("items", schema.get("unevaluatedItems", True)), inner) for inner in value[len(first) :]]
    rules.append(schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)))
    if schema.get("uniqueItems"):
        rules.append(not any(_same(one, other) for at, one in enumerate(value) for other in value[:at]))
    if "contains" in schema:
        found = sum(ok(schema["contains"], inner) for inner in value)
        rules.append(schema.get("minContains", 1) <= found <= schema.get("maxContains", found))
    return all(rules)
