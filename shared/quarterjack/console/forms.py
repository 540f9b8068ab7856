"""Values that people type into forms and addresses: JSON, times, numbers, words. An unreadable value raises InvalidInput.

A page shows the form again with the fault. Times in addresses are in UTC, so that an hour that occurs twice is unambiguous.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from quarterjack.domain.payload import parse_json
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.timing import zone

_BETWEEN = re.compile(r"[\s,]+")


def json_typed(text: str) -> Any:
    """The value of the field for a payload. Raises InvalidInput."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as problem:
        remedy = 'correct it at the place that is named; a text needs quotation marks: "text"'
        raise InvalidInput("payload", text, f"is not JSON: {problem}", remedy) from None


def time_typed(text: str, field: str, local: tzinfo = UTC) -> datetime:
    """The instant of a field for a time; without an offset it is in ``local``. Raises InvalidInput."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        remedy = f"write it as 2026-12-24T18:00, in {local}, or with an offset"
        raise InvalidInput(field, text, "is not a time", remedy) from None
    return found if found.tzinfo else found.replace(tzinfo=local)


def zone_of(name: str) -> tzinfo:
    """The zone that an address names. Raises InvalidInput."""
    try:
        return zone(name)
    except ExpressionError as problem:
        remedy = "use an IANA name, such as Europe/Berlin"
        raise InvalidInput("zone", name, f"is not a zone: {problem}", remedy) from None


def number_typed(text: str | None) -> int | None:
    """A whole number of a hidden field; None for any other text."""
    return int(text) if text and text.isdecimal() else None


def words_of(text: str) -> list[str]:
    """The words of a field that takes several, with blanks or commas between them."""
    return [word for word in _BETWEEN.split(text) if word]


def in_address(at: datetime) -> str:
    """An instant as an address says it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_form(at: datetime) -> str:
    """A time as a field of a form has it, in the zone of the time."""
    return at.strftime("%Y-%m-%dT%H:%M")


def new_token() -> str:
    """A token of a form: a form that is sent twice acts once."""
    return secrets.token_urlsafe(16)


def chosen(value: str | None, allowed: Mapping[str, Any], field: str) -> str:
    """One of some words. Raises InvalidInput."""
    if value is None or value not in allowed:
        raise InvalidInput(field, value, "is not known", f"use one of {', '.join(allowed)}")
    return value
