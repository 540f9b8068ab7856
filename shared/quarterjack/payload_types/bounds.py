"""Limits of a JSON Schema that is written by hand, so that a check of any payload ends soon and reads nothing else. Pure.

A part is a schema within the schema: itself, what ``properties`` names, a definition … Its pointer is its place: ``#/properties/to``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote

from quarterjack.domain.payload import json_text
from quarterjack.errors import InvalidInput

DIALECT = "https://json-schema.org/draft/2020-12/schema"
LONGEST = 16_000  # characters of JSON: it is published in a row of the table of runs
DEEPEST = 32  # levels of lists and dicts
MOST_PARTS = 2_000  # schemas that one place of a payload may have to fit, with all references written out


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORMATS = _words(
    "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri iri-reference uuid "
    "uri-template json-pointer relative-json-pointer"
)
# Where parts are: below a keyword, in the list of a keyword, in the dict of a keyword.
_SINGLE = _words(
    "not if then else items contains additionalProperties propertyNames unevaluatedItems unevaluatedProperties contentSchema"
)
_LISTS = _words("allOf anyOf oneOf prefixItems")
_MAPS = _words("properties patternProperties $defs dependentSchemas")
_HERE = _words("$ref not if then else allOf anyOf oneOf dependentSchemas")  # say something of the same place
LEAVES = _words(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern format maxItems "
    "minItems uniqueItems maxProperties minProperties required dependentRequired"
)
_COUNTS = _words("minContains maxContains")
_OTHERS = _words(
    "$schema $ref $comment title description default deprecated readOnly writeOnly example examples discriminator "
    "contentEncoding contentMediaType"
)
KEYWORDS = _SINGLE | _LISTS | _MAPS | LEAVES | _COUNTS | _OTHERS
# What a check or a refusal looks at; the rest are notes.
CHECKING = (_SINGLE | _LISTS | _MAPS | LEAVES | _COUNTS | {"$ref", "writeOnly"}) - {"format", "contentSchema"}
_ELSEWHERE = _words("$id $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary")

Parts = Mapping[str, Any]  # by pointer


def checked_schema(given: object) -> dict[str, Any]:
    """A copy of the schema, as JSON. Raises InvalidInput for one that is no JSON, too large, or uses unsupported keywords."""
    if not isinstance(given, Mapping):
        raise InvalidInput("schema", given, "is not a dict", 'give a JSON Schema, {"type": "object", ...}')
    try:
        text = json_text(given if isinstance(given, dict) else dict(given))
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInput("schema", given, f"is no JSON ({problem})", "use dicts, lists, text, numbers") from None
    if len(text) > LONGEST:
        remedy = f"use at most {LONGEST:,} characters of JSON: name what repeats under $defs, and refer to it"
        raise InvalidInput("schema", f"<{len(text):,} characters>", "is too long", remedy)
    schema: dict[str, Any] = json.loads(text)
    _check_depth(schema)
    parts = parts_of(schema)
    for pointer, part in parts.items():
        if isinstance(part, dict):
            _check_part(pointer, part)
    _check_unfolded(parts)
    return schema


def parts_of(schema: Any) -> dict[str, Any]:
    """All parts, by pointer. What is no part where one should be is passed over: the engine refuses it."""
    found, left = dict[str, Any](), [("#", schema)]
    while left:
        pointer, part = left.pop()
        found[pointer] = part
        if isinstance(part, dict):
            left += [(f"{pointer}/{below}", child) for _, below, child in _children(part)]
    return found


def mapped(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of the schema with ``change`` done to each of its parts, from the inside out."""
    if not isinstance(schema, Mapping):
        return schema
    made = dict(schema)
    for keyword, value in schema.items():
        if keyword in _SINGLE:
            made[keyword] = mapped(value, change)
        elif keyword in _LISTS and isinstance(value, list):
            made[keyword] = [mapped(each, change) for each in value]
        elif keyword in _MAPS and isinstance(value, Mapping):
            made[keyword] = {name: mapped(each, change) for name, each in value.items()}
    return change(made)


def pointer(*tokens: object) -> str:
    """The keys of a part, as they stand in a pointer."""
    return "/".join(str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def target_of(reference: str) -> str:
    """The pointer to which a ``$ref`` within the schema leads."""
    return unquote(reference)


def _children(part: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Keyword, place below this part, and part."""
    for keyword, value in part.items():
        if keyword in _SINGLE and isinstance(value, (dict, bool)):
            yield keyword, pointer(keyword), value
        elif keyword in _LISTS and isinstance(value, list):
            yield from ((keyword, pointer(keyword, place), each) for place, each in enumerate(value))
        elif keyword in _MAPS and isinstance(value, dict):
            yield from ((keyword, pointer(keyword, name), each) for name, each in value.items())


def _check_depth(schema: Any) -> None:
    level, left = 0, [schema]
    while left:
        level += 1
        if level > DEEPEST:
            remedy = f"use at most {DEEPEST} levels: name inner schemas under $defs, and refer to them"
            raise InvalidInput("schema", f"<more than {DEEPEST} levels>", "is nested too deeply", remedy)
        inner = [list(each.values()) if isinstance(each, dict) else each for each in left]
        left = [value for values in inner for value in values if isinstance(value, (dict, list))]


def _check_part(place: str, part: Mapping[str, Any]) -> None:
    for keyword, value in part.items():
        field = f"schema{place}/{keyword}"
        if keyword in _ELSEWHERE:
            raise InvalidInput(field, value, "is not supported", "leave it out, and refer by $ref to #/$defs/NAME")
        if keyword not in KEYWORDS and not keyword.startswith("x-"):
            near = get_close_matches(keyword, KEYWORDS, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "correct it; a note of your own begins with x-"
            raise InvalidInput(field, value, "is not a keyword of JSON Schema 2020-12", remedy)
    if str(part.get("$schema", DIALECT)).rstrip("#") != DIALECT:
        raise InvalidInput(f"schema{place}/$schema", part["$schema"], "is another dialect", f"use {DIALECT}")
    format_ = part.get("format")
    if isinstance(format_, str) and format_ not in FORMATS:
        remedy = f"use one of {', '.join(sorted(FORMATS))}; or a pattern"
        raise InvalidInput(
            f"schema{place}/format", format_, "is not checked, so it would be no more than a note", remedy
        )


def _check_unfolded(parts: Parts) -> None:
    """Raise InvalidInput for a reference that leaves the schema, that leads back to the same place of a payload, or too often on.

    An engine follows each path through the references, and two references to the next of twenty definitions are a million paths.
    """
    edges = {place: list(_edges(place, part, parts)) for place, part in parts.items() if isinstance(part, dict)}
    _check_circles(edges)
    for start in ("#", *(place for place in edges if place.startswith("#/$defs/"))):
        budget = MOST_PARTS
        walk: list[tuple[str, Iterator[tuple[str, bool]]]] = [(start, iter(edges.get(start, ())))]
        within = {start}
        while walk:
            place, rest = walk[-1]
            child = next((one for one, _ in rest), None)
            if child is None:
                walk.pop()
                within.discard(place)
            elif child not in within:
                budget -= 1
                if budget < 0:
                    remedy = f"let its references lead to each other less often: at most {MOST_PARTS:,} parts in all"
                    raise InvalidInput(
                        f"schema{start}", f"<more than {MOST_PARTS:,} parts>", "unfolds to too many", remedy
                    )
                within.add(child)
                walk.append((child, iter(edges.get(child, ()))))


def _edges(place: str, part: Mapping[str, Any], parts: Parts) -> Iterator[tuple[str, bool]]:
    """The parts that a part refers to or contains, and whether they say something of the same place of a payload."""
    reference = part.get("$ref")
    if reference is not None:
        field = f"schema{place}/$ref"
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise InvalidInput(field, reference, "leaves the schema", "write #/$defs/NAME, and put it under $defs")
        if target_of(reference) not in parts:
            raise InvalidInput(field, reference, "leads to no schema", "write #/$defs/NAME, and put it under $defs")
        yield target_of(reference), True
    for keyword, below, _ in _children(part):
        if keyword != "$defs":
            yield f"{place}/{below}", keyword in _HERE


def _check_circles(edges: Mapping[str, list[tuple[str, bool]]]) -> None:
    left = {place: [child for child, here in children if here] for place, children in edges.items()}
    while free := [place for place, children in left.items() if not any(child in left for child in children)]:
        for place in free:
            del left[place]
    if left:
        place = min(left, key=len)
        remedy = "let it refer to itself only below properties, items and the like"
        raise InvalidInput(
            f"schema{place}", "<a circle>", "leads back to itself at the same place of a payload", remedy
        )
