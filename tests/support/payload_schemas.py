"""Fifty JSON Schemas as people write them, by what they are about, and payloads drawn to fit them and not to fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

_NAMES = ("id", "to", "qty", "when", "items", "kind", "note", "x-ray", "a b", "ü")


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_ITEM = _object("sku", sku={"type": "string", "minLength": 1}, qty={"type": "integer", "minimum": 1, "maximum": 99})
_A = _object("kind", kind={"const": "a"}, n={"type": "integer"})
_B = _object("kind", kind={"const": "b"}, m={"type": "number", "minimum": 3})
_TREE = _object("name", name={"type": "string"}, children={"type": "array", "items": {"$ref": "#"}})
_NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {"oneOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/all"}, {"$ref": "#/$defs/any"}]},
        "leaf": _object("is", **{"is": {"type": "integer"}}) | {"additionalProperties": False},
        "all": _object("all", all={"items": {"$ref": "#/$defs/node"}, "type": "array"})
        | {"additionalProperties": False},
        "any": _object("any", any={"items": {"$ref": "#/$defs/node"}, "type": "array"})
        | {"additionalProperties": False},
    },
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "anything": {},
    "object": {"type": "object"},
    "list": {"type": "array"},
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "two types": {"type": ["integer", "null"]},
    "words": {"enum": ["a", "b", None, 3, {"k": [1]}]},
    "one word": {"const": "a"},
    "one object": {"const": {"id": 1}},
    "range": {"type": "integer", "minimum": -2, "exclusiveMaximum": 5},
    "open range": {"exclusiveMinimum": 0, "maximum": 2.5},
    "multiple": {"multipleOf": 3},
    "length": {"type": "string", "minLength": 2, "maxLength": 4},
    "pattern": {"type": "string", "pattern": "^[a-c]+$"},
    "date": {"type": "string", "format": "date"},
    "address": {"format": "ipv4"},
    "required": _object("id", "qty", id={"type": "string"}, qty={"type": "integer"}),
    "closed": _object("id", id={"type": "string"}) | {"additionalProperties": False},
    "typed rest": {"type": "object", "properties": {"id": True}, "additionalProperties": {"type": "integer"}},
    "by pattern": {"patternProperties": {"^x-": {"type": "string"}, "d$": {"type": "integer"}}},
    "by pattern, closed": {
        "properties": {"id": {}},
        "patternProperties": {"^[a-k]": {}},
        "additionalProperties": False,
    },
    "names": {"propertyNames": {"pattern": "^[a-z]+$"}},
    "few fields": {"type": "object", "minProperties": 1, "maxProperties": 2},
    "together": {"dependentRequired": {"id": ["qty"]}},
    "together, more": {"dependentSchemas": {"kind": _object("note", note={"type": "string"})}},
    "forbidden field": {"type": "object", "properties": {"note": False}},
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    "unique": {"type": "array", "uniqueItems": True},
    "tuple": {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
    "tuple and rest": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
    "contains": {"type": "array", "contains": {"type": "integer"}, "minContains": 1, "maxContains": 2},
    "order": _object("id", "items", id={"type": "string"}, items={"type": "array", "items": _ITEM}),
    "order by reference": {"$defs": {"item": _ITEM}, **_object("items", items={"items": {"$ref": "#/$defs/item"}})},
    "tree": _TREE,
    "tree of alternatives": _NODE,
    "any of": {"anyOf": [{"type": "string"}, _A, _B]},
    "one of": {"oneOf": [_A, _B, {"type": "null"}]},
    "one of, overlapping": {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    "all of": {"allOf": [_object("id", id={"type": "string"}), {"maxProperties": 2}]},
    "not": {"not": {"type": "string"}},
    "if": {"if": _object("kind", kind={"const": "a"}), "then": {"required": ["id"]}, "else": {"required": ["to"]}},
    "if alone": {"if": {"type": "string"}, "then": {"minLength": 2}},
    "unevaluated": {"allOf": [{"properties": {"id": {}}}], "unevaluatedProperties": False},
    "unevaluated items": {"prefixItems": [{"type": "integer"}], "unevaluatedItems": False},
    "beside a reference": {"$defs": {"t": {"type": "string"}}, "$ref": "#/$defs/t", "maxLength": 1},
    "escaped": {"$defs": {"a/b~c d": {"type": "integer"}}, "properties": {"a b": {"$ref": "#/$defs/a~1b~0c%20d"}}},
    "deep": {"properties": {"id": {"properties": {"to": {"items": {"properties": {"qty": {"type": "integer"}}}}}}}},
}


def payloads(schema: dict[str, Any], seed: int, count: int) -> Iterator[Any]:
    """Payloads of which about half fit: made after the schema, some with one change, and some at random."""
    rng = random.Random(seed)
    for _ in range(count):
        value = _after(schema, schema, rng, 4) if rng.random() < 0.85 else _any(rng, 3)
        yield changed(value, rng, partial(_any, rng, 1), _NAMES, 0.4) if rng.random() < 0.4 else value


def _any(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind >= 6:
        inner = [_any(rng, depth - 1) for _ in range(rng.randrange(4))]
        return inner if kind == 6 else dict(zip(rng.sample(_NAMES, len(inner)), inner, strict=True))
    return (None, rng.random() < 0.5, rng.randint(-9, 9), rng.choice((2.5, 3.0, -0.1)), rng.choice(_WORDS), "")[kind]


_WORDS = ("a", "b", "abc", "2026-12-24", "10.0.0.1", "yesterday", "ü" * 3, "abcde", "x-ray")


def _after(part: Any, whole: dict[str, Any], rng: random.Random, depth: int) -> Any:
    """A value that fits most of what a schema says."""
    if not isinstance(part, dict) or not part:
        return _any(rng, min(depth, 1))
    for keyword in ("const", "enum"):
        if keyword in part:
            return part["const"] if keyword == "const" else rng.choice(part["enum"])
    if "$ref" in part:
        target = whole
        for token in part["$ref"].replace("%20", " ").split("/")[1:]:
            target = target[token.replace("~1", "/").replace("~0", "~")]
        return _after(target, whole, rng, depth)
    for keyword in ("oneOf", "anyOf", "allOf"):
        if keyword in part:
            return _after(rng.choice(part[keyword]), whole, rng, depth)
    return _of_type(part, whole, rng, depth)


def _of_type(part: dict[str, Any], whole: dict[str, Any], rng: random.Random, depth: int) -> Any:
    said = part.get("type")
    kind = rng.choice(said) if isinstance(said, list) else said
    if kind == "object" or (kind is None and any("ropert" in word or "Schemas" in word for word in part)):
        required = part.get("required", [])
        inner = part.get("properties", {})
        names = [name for name in inner if name in required or (depth and rng.random() < 0.6)]
        return {name: _after(inner[name], whole, rng, depth - 1) for name in names}
    if kind == "array" or (kind is None and any("tems" in word for word in part)):
        first = [_after(each, whole, rng, depth - 1) for each in part.get("prefixItems", ())]
        rest = rng.randrange(3) if depth > 0 and part.get("items") is not False else 0
        return first + [_after(part.get("items", {}), whole, rng, depth - 1) for _ in range(rest)]
    simple = {"integer": rng.randint(-3, 9), "number": rng.choice((1, 2.5, 7)), "boolean": True, "null": None}
    return simple[kind] if kind in simple else rng.choice(_WORDS) if kind == "string" else _any(rng, 1)


def changed(value: Any, rng: random.Random, draw: Callable[[], Any], names: Sequence[str], loss: float) -> Any:
    """The value with one change somewhere in it: what is drawn, also under one of ``names``, or a field less, by chance ``loss``."""
    again = partial(changed, rng=rng, draw=draw, names=names, loss=loss)
    if isinstance(value, dict) and value and rng.random() < 0.7:
        name = rng.choice(sorted(value))
        rest = {key: each for key, each in value.items() if key != name}
        return rest if rng.random() < loss else rest | {name: again(value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], again(value[place]), *value[place + 1 :]]
    if isinstance(value, dict) and rng.random() < 0.5:
        return value | {rng.choice(names): draw()}
    return draw()
