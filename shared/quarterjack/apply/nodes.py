"""YAML text as values with line numbers, without YAML's implicit types.

A plain scalar has the meaning of JSON: a number, ``true``, ``false``, ``null``; everything else is text. A scalar to which other YAML
readers give another type (``on``, ``010``, ``2026-01-01``, ``12:30``) is text where text is required; where any value is allowed it is
refused, because it is ambiguous. No tags, no objects; size, depth and number of values are limited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from quarterjack.domain.payload import MAX_DEPTH
from quarterjack.errors import InvalidInput

LARGEST = 16 * 1024 * 1024  # characters of a file
_MOST = 500_000  # values in a file: aliases can multiply a small text
_MOST_TEXT = (
    4 * LARGEST
)  # characters of these values and their paths: an alias repeats a long text, and a path a long key
_DEEPEST = MAX_DEPTH + 16  # levels: those of a payload, and the enclosing ones
_TAGS = ("str", "map", "seq")  # allowed tags; the loader gives one of these to a value without a tag
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WORDS = {"true": True, "false": False, "null": None, "": None}
_AMBIGUOUS = re.compile(
    r"~|=|<<|y|n|yes|no|on|off|true|false|null"  # in other spellings, since true, false and null are words already
    r"|[+-]?[0-9][0-9_]*|0[xXoObB][0-9a-fA-F_]+"  # octal, signed, with underscores
    r"|[+-]?([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][+-]?[0-9]+)?|[+-]?\.(inf|nan)"
    r"|[+-]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"  # to the base of sixty
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?",
    re.IGNORECASE,
)
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # it reads every scalar as text
_QUOTE = "put a text that begins with one of * & @ % ` ! or has ': ' or ' #' in it into quotes, e.g. '*/5 * * * *'"


class AmbiguousScalar(str):
    """A plain scalar that YAML readers parse differently."""

    __slots__ = ()


@dataclass(frozen=True)
class YamlNode:
    """A value with its line. Items of lists and values of dicts are nodes too."""

    value: Any  # dict of text to Node, list of Node, text, int, float, bool or None
    line: int  # the first is 1
    place: str  # "file.yaml:12"
    path: str = ""  # from the top of its document: "spec.jobTemplate", "items[0].name"

    def get(self, *names: str) -> YamlNode | None:
        """The node at this path; None if it, or a node on the path, is missing or null."""
        found: YamlNode | None = self
        for name in names:
            below = found.value.get(name) if found is not None and isinstance(found.value, dict) else None
            found = below if below is not None and below.value is not None else None
        return found

    def leaves(self) -> Iterator[YamlNode]:
        """All nodes below that are neither a list nor a dict, and empty lists and dicts, in order."""
        below = self.value.values() if isinstance(self.value, dict) else self.value
        if not isinstance(self.value, (dict, list)) or not self.value:
            yield self
            return
        for node in below:
            yield from node.leaves()

    def plain(self, *, strict: bool = True) -> Any:
        """The value as JSON has it. An ambiguous scalar is text; with ``strict`` it raises InvalidInput."""
        if isinstance(self.value, dict):
            return {name: node.plain(strict=strict) for name, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain(strict=strict) for node in self.value]
        if isinstance(self.value, AmbiguousScalar):
            if strict:
                remedy = f"write '{self.value}' for the text, or the number, true, false or null that you mean"
                raise InvalidInput(self.path, str(self.value), "is read differently by readers of YAML", remedy)
            return str(self.value)
        return self.value


def read_documents(text: str, source: str) -> list[YamlNode]:
    """The documents of a YAML (or JSON) text; ``source`` is the file's name, for errors. Raises InvalidInput."""
    if len(text) > LARGEST:
        raise InvalidInput(source, f"{len(text):,} characters", "is too large", f"split it: {LARGEST:,} at the most")
    try:
        _check_depth(text, source)
        composed = list(yaml.compose_all(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line if problem.problem_mark else 0
        at = text.splitlines()[line : line + 1]
        raise InvalidInput(
            f"{source}:{line + 1}", "".join(at).strip(), f"is not YAML ({problem.problem})", _QUOTE
        ) from None
    except yaml.YAMLError as problem:
        raise InvalidInput(source, "", f"is not YAML ({problem})", "check its encoding and characters") from None
    reader = _Reader(source)
    return [reader.node(one, "", 0) for one in composed if one is not None]


def _check_depth(text: str, source: str) -> None:
    """Raises InvalidInput before ``compose`` recurses: its C code crashes the process at about 10,000 levels."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _too_much(f"{source}:{event.start_mark.line + 1}", "")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _too_much(place: str, path: str) -> InvalidInput:
    return InvalidInput(
        place, path, "is too large or too deep", "write it without aliases, flatten it, or split the file"
    )


class _Reader:
    def __init__(self, source: str) -> None:
        self._source, self._count, self._text = source, 0, 0

    def node(self, given: yaml.Node, path: str, depth: int) -> YamlNode:
        line = given.start_mark.line + 1
        place = f"{self._source}:{line}"
        self._count += 1
        self._text += len(path) + (len(given.value) if isinstance(given, yaml.ScalarNode) else 0)
        if self._count > _MOST or self._text > _MOST_TEXT or depth > _DEEPEST:
            raise _too_much(place, path)
        if given.tag.removeprefix("tag:yaml.org,2002:") not in _TAGS:
            raise InvalidInput(place, given.tag, "is a tag, which is not allowed", "remove it")
        return YamlNode(self._value(given, path, depth + 1), line, place, path)

    def _value(self, given: yaml.Node, path: str, depth: int) -> Any:
        if isinstance(given, yaml.ScalarNode):
            return scalar(given.value) if given.style in (None, "") else given.value
        if isinstance(given, yaml.SequenceNode):
            return [self.node(one, f"{path}[{number}]", depth) for number, one in enumerate(given.value)]
        found: dict[str, YamlNode] = {}
        for key, value in given.value:
            name = key.value
            place = f"{self._source}:{key.start_mark.line + 1}"
            if not isinstance(name, str):
                raise InvalidInput(place, path, "has a key that is not text", "use texts as keys")
            if name in found or name == "<<":
                problem = "is a duplicate key" if name in found else "is not supported"
                raise InvalidInput(place, name, problem, "write each key once, and in full")
            found[name] = self.node(value, f"{path}.{name}" if path else name, depth)
        return found


def scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text):
        return json.loads(text)
    return AmbiguousScalar(text) if _AMBIGUOUS.fullmatch(text) else text
