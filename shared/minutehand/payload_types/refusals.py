"""A payload that does not fit, in our words: the field by its path, its value without secrets, and the remedy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from minutehand.domain.redaction import MASK, Redact
from minutehand.errors import InvalidInput, shorten

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


def _words(fault: Any, job: str, *, is_secret: bool) -> tuple[str, str]:
    """The problem and the remedy of a fault. What a class of the user's says may repeat a secret."""
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
