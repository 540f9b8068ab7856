"""Log lines of processes and functions as fields: parsed, and cut to a size that a page can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

TEXT = 16_000  # characters that are kept of a text: of a traceback its end, where the cause is
_MOST = 50  # fields of a line
_DATA = 4_000  # characters of JSON that are kept of a field that is no text
CUT = "… (cut)"
_TRACES = frozenset({"traceback", "exception"})


def fields_of(line: bytes | str, run_id: str) -> dict[str, Any] | None:
    """The fields of a line that is about a run; None for any other, and for one that is no JSON object."""
    if not (run_id.encode() in line if isinstance(line, bytes) else run_id in line):
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return shortened(found) if isinstance(found, dict) and found.get("run_id") == run_id else None


def shortened(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with long values cut."""
    return {name[:TEXT]: _short(name, value) for name, value in list(fields.items())[:_MOST]}


def weight(fields: Mapping[str, Any]) -> int:
    """Characters of a line, roughly."""
    return sum(len(name) + (len(value) if isinstance(value, str) else _DATA // 10) for name, value in fields.items())


def _short(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if len(value) <= TEXT:
            return value
        return f"{CUT} {value[-TEXT:]}" if name in _TRACES else f"{value[:TEXT]}{CUT}"
    if isinstance(value, (dict, list)):
        text = json.dumps(value)
        return value if len(text) <= _DATA else f"{text[:_DATA]}{CUT}"
    return value
