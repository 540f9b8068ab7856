"""Times as people type them: ISO 8601, or relative to now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from minutehand.errors import InvalidInput

_AGO = re.compile(r"-(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS = {"today": 0, "yesterday": 1}  # before the present one
WORDS = "now, today, yesterday, -90m, -3h, -2d"


def is_relative(text: str) -> bool:
    """Whether the time that ``text`` means depends on now."""
    return _AGO.fullmatch(text) is not None or text.lower() in ("now", *_DAYS)


def parse_moment(text: str, field: str, now: datetime) -> datetime:
    """A time argument: ISO 8601 with an offset or ``Z``; ``now``; ``today`` and ``yesterday``, which begin at midnight in UTC; or
    a time ago, as ``-3h`` (s, m, h, d, w). Raises InvalidInput, which names ``field``.
    """
    ago, word = _AGO.fullmatch(text), text.lower()
    if ago is not None:
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise InvalidInput(field, text, "is too long ago", "write a shorter time, e.g. -90d") from None
    if word == "now":
        return now
    if word in _DAYS:
        return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=_DAYS[word])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        remedy = f"write e.g. 2026-12-24T18:00:00Z, or {WORDS}"
        raise InvalidInput(field, text, "is not a date and time", remedy) from None
    if moment.tzinfo is None:
        raise InvalidInput(field, text, "has no time zone", f"write e.g. {text}Z or {text}+01:00")
    return moment
