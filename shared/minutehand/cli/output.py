"""Formats values as text or JSON."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, TextIO

import minutehand

# A payload or a result must not move the cursor or rename the window of the operator's terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def values(item: Any) -> dict[str, Any]:
    """The fields of what the SDK returned, and a run's lateness."""
    found = _fields(item)
    return found | ({"lateness": item.lateness} if isinstance(item, minutehand.Run) else {})


def _fields(record: Any) -> dict[str, Any]:
    """The fields that a dataclass's constructor takes, without derived ones."""
    return {field.name: getattr(record, field.name) for field in fields(record) if field.init}


def print_json(value: object, *, to: TextIO | None = None) -> None:
    """One line of JSON: ISO 8601 for times, seconds for durations."""
    out = sys.stdout if to is None else to
    out.write(json.dumps(value, ensure_ascii=False, default=_plain) + "\n")
    out.flush()  # a reader of the pipe gets each line at once


def text_of(value: Any) -> str:
    """A value for people; a list has a line for each."""
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():.3f} s"
        case list() | tuple():
            return "\n".join(map(text_of, value))
        case dict():
            return json.dumps(value, ensure_ascii=False, default=_plain)
        case _:
            plain = _in_a_line(value) if _is_record(value) and "__str__" not in vars(type(value)) else str(value)
            return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", plain)


def _in_a_line(record: Any) -> str:
    """The fields of a dataclass in one line."""
    return "  ".join(text for field in fields(record) if (text := text_of(getattr(record, field.name))))


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            return _fields(value) if _is_record(value) else str(value)
