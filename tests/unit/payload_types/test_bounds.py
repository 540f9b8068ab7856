"""What a schema that is written by hand may be made of."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry
from quarterjack.errors import InvalidInput, JobError
from quarterjack.payload_types.bounds import DEEPEST, LONGEST, checked_schema, parts_of
from quarterjack.payload_types.schema import PayloadSchema


def nested(levels: int, schema: dict[str, Any]) -> dict[str, Any]:
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def doubled(levels: int, last: dict[str, Any]) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    steps: dict[str, Any] = {
        f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]} for n in range(levels)
    }
    return {"$ref": "#/$defs/l0", "$defs": steps | {f"l{levels}": last}}


REFUSED: dict[str, tuple[Any, str]] = {
    "no dict": ([], r"schema=\[\]: is not a dict; give a JSON Schema"),
    "no JSON": ({"const": {1}}, r"schema=.*: is no JSON .*; use dicts, lists, text, numbers"),
    "NaN": ({"const": float("nan")}, r"is no JSON"),
    "too long": ({"title": "x" * LONGEST}, r"is too long; use at most 16,000 characters of JSON"),
    "too deep": (nested(DEEPEST, {}), r"is nested too deeply; use at most 32 levels"),
    "a slip": (
        {"properties": {"a": {"requried": ["b"]}}},
        r"schema#/properties/a/requried=.* did you mean 'required'\?",
    ),
    "another dialect": ({"$schema": "http://json-schema.org/draft-07/schema#"}, r"#/\$schema=.*: is another dialect"),
    "a dialect that is not text": ({"$schema": 7}, r"#/\$schema=7: is another dialect"),
    "a format": (
        {"format": "postcode"},
        r"#/format='postcode': is not checked, .*; use one of date, date-time, .*or a pat",
    ),
    "a regex as payload": ({"format": "regex"}, r"#/format='regex': is not checked"),
    "http": (
        {"items": {"$ref": "https://example.com/a.json"}},
        r"#/items/\$ref='https://example.com/a.json': leaves the",
    ),
    "a file": ({"$ref": "file:///etc/passwd"}, r"#/\$ref='file:///etc/passwd': leaves the schema; write #/\$defs/NAME"),
    "a neighbour": ({"$ref": "other.json#/$defs/a"}, r"leaves the schema"),
    "the meta-schema": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, r"leaves the schema"),
    "an anchor": ({"$ref": "#name"}, r"#/\$ref='#name': leaves the schema"),
    "no text": ({"$ref": 5}, r"#/\$ref=5: leaves the schema"),
    "nowhere": ({"$defs": {"a": {"$ref": "#/$defs/b"}}}, r"#/\$defs/a/\$ref='#/\$defs/b': leads to no schema"),
    "into a value": ({"$ref": "#/const", "const": {"type": "object"}}, r"leads to no schema"),
    "a name of its own": (
        {"$defs": {"a": {"$id": "https://example.com/"}}},
        r"#/\$defs/a/\$id=.*: is not supported; leave",
    ),
    "dynamic": ({"$dynamicRef": "#a"}, r"#/\$dynamicRef='#a': is not supported"),
    "itself": ({"$ref": "#"}, r"schema#='<a circle>': leads back to itself at the same place of a payload"),
    "itself by others": (
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        r"schema#/\$defs/[ab].*='<a circle>': leads back",
    ),
    "a million paths": (
        doubled(20, {"type": "object"}),
        r"schema#.*<more than 2,000 parts>.*: unfolds to too many; let its",
    ),
    "a million paths and back": (doubled(20, {"items": {"$ref": "#"}}), r"unfolds to too many"),
    "look-around": (
        {"pattern": "(?=a)b"},
        r"#/pattern='\(\?=a\)b': is a pattern that cannot be used; correct it; it has to do",
    ),
    "a back-reference": (
        {"patternProperties": {r"(a)\1": {}}},
        r"schema#/patternProperties/\(a\)\\1=.*is a pattern that cannot",
    ),
    "a large count": ({"pattern": "((a{100}){100}){100}"}, r"is a pattern that cannot be used"),
    "no pattern": ({"items": {"pattern": "(("}}, r"schema#/items/pattern='\(\(': is a pattern that cannot be used"),
    "an unknown type": ({"type": "strng"}, r"schema#/type='strng': is not JSON Schema 2020-12 \(.*\); correct it"),
    "an old keyword's shape": ({"items": [{}]}, r"schema#/items=.*: is not JSON Schema 2020-12"),
    "a negative length": (
        {"properties": {"a": {"minLength": -1}}},
        r"schema#/properties/a/minLength=-1: is not JSON Schema",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_checked_soon_and_alone_is_refused_at_the_declaration(case: str) -> None:
    schema, said = REFUSED[case]
    with pytest.raises(InvalidInput, match=said):
        PayloadSchema(schema)
    with pytest.raises(JobError, match=r"^job='letters.print': schema"):
        Registry().job("letters.print", schema=schema)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "x-owner": "billing"},
        {"properties": {"requried": {"type": "string"}, "$ref": {"type": "integer"}}},
        {"enum": [{"$ref": "http://example.com", "$id": "a"}], "default": {"$ref": 3}, "examples": [{"$ref": "x"}]},
        {"type": "object", "properties": {"next": {"$ref": "#"}}},
        {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"type": "integer"}}},
        {"$defs": {"t": {"anyOf": [{"type": "null"}, {"items": {"$ref": "#/$defs/t"}}]}}, "$ref": "#/$defs/t"},
        doubled(8, {"type": "object"}),
        nested(DEEPEST - 2, {"type": "integer"}),
    ],
)
def test_what_can_be_checked_is_kept_as_it_is(schema: dict[str, Any]) -> None:
    assert PayloadSchema(schema).schema == schema


def test_a_schema_that_is_changed_later_changes_nothing() -> None:
    given: dict[str, Any] = {"type": "object"}
    kept = PayloadSchema(given)
    given["type"] = "string"
    assert kept.schema == {"type": "object"}
    assert kept.fits({})


def test_parts_are_found_by_pointer() -> None:
    schema = {"properties": {"a/b": {"items": True}, "c~": {"enum": [{"items": {}}]}}, "allOf": [{"not": False}]}
    assert set(parts_of(schema)) == {
        *("#", "#/properties/a~1b", "#/properties/a~1b/items", "#/properties/c~0", "#/allOf/0", "#/allOf/0/not"),
    }
    assert checked_schema(schema) == schema
