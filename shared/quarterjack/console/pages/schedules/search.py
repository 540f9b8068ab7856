"""The words of the search over schedules: ``job:x state:paused tag:team=a failing:yes word``, as conditions of ``list_schedules``."""

from __future__ import annotations

import shlex
from typing import Any

from quarterjack.errors import InvalidInput

_FLAGS = {"yes": True, "no": False}
QUALIFIERS = ("job", "state", "tag", "failing", "prefix", "managed")
_HELP = "use words like job:x state:paused tag:team=a failing:yes prefix:x managed:x, and one word that the name has"


def conditions(text: str | None) -> dict[str, Any]:
    """The conditions of a search, as keywords of ``list_schedules``. Raises InvalidInput."""
    found: dict[str, Any] = {}
    for word in _words(text or ""):
        name, separator, value = word.partition(":")
        key, given = _condition(name, value, word) if separator and name in QUALIFIERS else ("contains", word)
        if key in found:
            raise InvalidInput("q", word, f"says {key} a second time", _HELP)
        found[key] = given
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise InvalidInput("q", text, "has an open quotation mark", _HELP) from None


def _condition(name: str, value: str, word: str) -> tuple[str, Any]:
    if not value:
        raise InvalidInput("q", word, "has nothing behind the colon", _HELP)
    if name == "state":
        return name, value.upper()
    if name == "failing":
        if value not in _FLAGS:
            raise InvalidInput("q", word, "is neither yes nor no", "use failing:yes or failing:no")
        return name, _FLAGS[value]
    if name == "tag":
        key, separator, said = value.partition("=")
        return name, (key, said) if separator else key
    return {"managed": "managed_by"}.get(name, name), value
