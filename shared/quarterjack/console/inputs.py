"""What people type into forms: JSON and times. Whatever cannot be read is InvalidInput, so that its form is shown again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from quarterjack.domain.payload import parse_json
from quarterjack.errors import InvalidInput


def json_typed(text: str, field: str = "payload") -> Any:
    """The value of a text field with JSON. Raises InvalidInput."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInput(field, text, f"is not JSON: {problem}", "correct it at the place that is named") from None


def time_typed(text: str, field: str) -> datetime:
    """The instant of a field for a time; without a zone it is in UTC. Raises InvalidInput."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, text, "is not a time", "write it as 2026-12-24T18:00, in UTC") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
