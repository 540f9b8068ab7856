"""Forms as they are kept: by release, under tests/data/forms; and what of two forms is compared."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "data" / "forms"
WORDS = {
    *(
        "chain",
        "run",
        "watch",
        "resume",
        "backfill",
        "notice",
        "turn",
        "queue",
        "expect",
        "overdue",
        "config",
        "lock",
        "dead",
    ),
    *("limits", "rate", "schedules", "waiting_runs", "kept_bytes", "position", "aside", "worker", "attempt", "step"),
    *("checkpoint", "result", "payload", "gap", "token", "trigger", "jobs", "signal", "wait", "link", "ended", "asked"),
    *("window", "items", "unique", "versions"),
}


def as_text(item: dict[str, Any]) -> dict[str, Any]:
    """An item with its bytes in base64."""
    return {name: {kind: b64encode(value).decode() if kind == "B" else value for kind, value in typed.items()}
            for name, typed in item.items()}  # fmt: skip


def as_stored(item: dict[str, Any]) -> dict[str, Any]:
    """The reverse."""
    return {name: {kind: b64decode(value) if kind == "B" else value for kind, value in typed.items()}
            for name, typed in item.items()}  # fmt: skip


def shape(value: Any) -> Any:
    """A value without what differs from run to run: names and types."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in sorted(value.items())}
    if isinstance(value, str) and value[:1] in ("{", "["):
        return shape(json.loads(value))
    return [shape(inner) for inner in value[:1]] if isinstance(value, list) else type(value).__name__


def shapes(items: list[Any]) -> set[str]:
    """The forms among items or messages."""
    plain = [json.loads(item) if isinstance(item, str) else item for item in items]
    return {json.dumps([kind_of(item), shape(item)]) for item in plain}


def kind_of(item: Any) -> str:
    """What kind of item it is, by the words in its key."""
    key = "#".join(item[name]["S"] for name in ("owner", "entry", "key") if name in item)
    return next((word for word in reversed(re.split("[#~]", key)) if word in WORDS), "")


def kept(release: str) -> dict[str, list[Any]]:
    """The forms of a release."""
    return {path.stem: json.loads(path.read_text()) for path in sorted((FOLDER / release).glob("*.json"))}


def releases() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
