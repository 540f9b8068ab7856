"""The file of a dump: JSON lines. The first is the header, the last the end; each line between them is one item.

    {"format":"quarterjack-dump","version":1,"installation":"quarterjack","tenant":"acme","at":"2026-11-28T12:00:00.000Z","release":"0.2.0"}
    {"item":"tenant","tenant":"acme",…}
    {"item":"schedule","tenant":"acme","name":"nightly",…}
    {"item":"end","counts":{"tenant":1,"schedule":1}}

A file without its end was cut off. A name that ends in ``.gz`` is compressed.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from quarterjack.domain.history.transition_line import ms_of
from quarterjack.domain.payload import json_text, parse_json
from quarterjack.errors import InvalidInput

FORMAT = "quarterjack-dump"
VERSION = 1
END = "end"
KINDS = ("application-version", "queue", "tenant", "freeze", "schedule", "run", "transition")  # in this order in a file
_LONGEST = 8 * 1024 * 1024  # characters of a line: a payload has 256 KB at the most, a pipeline's tasks less
_REMEDY = f'take a file that `quarterjack move dump` wrote, whose first line begins with {{"format":"{FORMAT}"'


@dataclass(frozen=True, kw_only=True)
class Header:
    """What the first line says."""

    version: int
    installation: str  # prefix of its tables
    tenant: str | None  # None: all of them
    at: str  # when the dump began
    release: str | None = None  # that wrote it


@dataclass(frozen=True)
class Line:
    """One line that is an item, or why it is none."""

    number: int  # from 1
    item: str  # its kind; "" if it says none
    values: Mapping[str, Any]  # without ``item``
    problem: InvalidInput | None = None


def encode(item: str, values: Mapping[str, Any]) -> str:
    """An item as a line without its end. What is None is left out."""
    return json_text({"item": item} | {name: value for name, value in values.items() if value is not None})


@contextmanager
def opened(path: Path, mode: str) -> Iterator[IO[str]]:
    """The file as text. Raises InvalidInput if it cannot be opened, or is damaged."""
    try:
        kind: Any = gzip if path.suffix == ".gz" else io
        with kind.open(path, f"{mode}t", encoding="utf-8") as stream:
            yield stream
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        what = f"cannot be {'read' if mode == 'r' else 'written'} ({getattr(problem, 'strerror', None) or problem})"
        raise InvalidInput("file", str(path), what, "check the path, and that it is a whole file in UTF-8") from None


def read(path: Path) -> tuple[Header, Iterator[Line]]:
    """The header, and the items as they are read. Raises InvalidInput: the file is none of ours, of a later format, or has no end."""
    with opened(path, "r") as stream:
        header = _header(stream.readline(_LONGEST))
    return header, _items(path)


def _header(text: str) -> Header:
    values = _parsed(text)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise InvalidInput("line 1", text[:80].strip(), "is not the header of a dump", _REMEDY)
    version = values.get("version")
    if not isinstance(version, int) or version < 1:
        raise InvalidInput("line 1: version", version, "is not the number of a format", f"write {VERSION}")
    if version > VERSION:
        remedy = f"load it with the release that wrote it ({values.get('release')}) or a later one"
        raise InvalidInput("line 1: version", version, f"is later than {VERSION}, which this release reads", remedy)
    tenant = values.get("tenant")
    return Header(
        version=version,
        installation=str(values.get("installation", "")),
        tenant=None if tenant is None else str(tenant),
        at=str(values.get("at", "")),
        release=values.get("release"),
    )


def _items(path: Path) -> Iterator[Line]:
    with opened(path, "r") as stream:
        stream.readline(_LONGEST)
        for number, text in enumerate(iter(lambda: stream.readline(_LONGEST), ""), 2):
            if not text.strip():
                continue
            line = _line(number, text)
            if line.item == END:
                return
            yield line
    remedy = 'dump again; if it was made by hand, add the line {"item":"end"}'
    raise InvalidInput("file", str(path), "has no last line with the item end: it was cut off", remedy)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return None


def _line(number: int, text: str) -> Line:
    try:
        values = parse_json(text)
    except (ValueError, RecursionError) as problem:
        refused = InvalidInput("line", text[:80].strip(), f"is not JSON ({problem})", "write one JSON object a line")
        return Line(number, "", {}, refused)
    if not isinstance(values, dict) or values.get("item") not in (*KINDS, END):
        item = values.get("item") if isinstance(values, dict) else values
        return Line(number, "", {}, InvalidInput("item", item, "is not known", f"use one of {', '.join(KINDS)}, {END}"))
    return Line(number, values.pop("item"), values)


class Fields:
    """Reads the values of one item. Each error is an InvalidInput with field, value and remedy."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left, self._asked = dict(values), list[str]()

    def take(self, name: str, *kinds: type, needed: bool = False) -> Any:
        """The value of a field that is of one of some types; None if it is not there. A truth value is no number."""
        self._asked.append(name)
        value = self._left.pop(name, None)
        if value is None and not needed:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            words = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
            wanted = " or ".join(words.get(kind, f"a JSON {kind.__name__}") for kind in kinds)
            what = "is missing" if value is None else f"is not {wanted}"
            raise InvalidInput(name, value, what, f"write {wanted}")
        return value

    def text(self, name: str) -> str:
        """A text that must be there."""
        return str(self.take(name, str, needed=True))

    def instant(self, name: str) -> int | None:
        """A time as UTC ms."""
        given = self.take(name, str)
        try:
            return None if given is None else ms_of(given)
        except (ValueError, OverflowError):
            remedy = "write e.g. 2026-12-24T18:00:00.000Z"
            raise InvalidInput(name, given, "is not a date and time with an offset", remedy) from None

    def several(self, name: str) -> Iterator[Fields]:
        """The JSON objects of a list; none if it is not there."""
        for each in self.take(name, list) or ():
            if not isinstance(each, dict):
                raise InvalidInput(name, each, "is not a JSON object", "write a list of objects")
            yield Fields(each)

    def rest(self) -> dict[str, Any]:
        """All fields that were not taken yet."""
        found, self._left = self._left, {}
        return found

    def end(self) -> None:
        """Raises InvalidInput for a field that nobody asked for."""
        for name, value in self._left.items():
            near = get_close_matches(name, self._asked, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(self._asked)}"
            raise InvalidInput(name, value, "is not known here", remedy)
