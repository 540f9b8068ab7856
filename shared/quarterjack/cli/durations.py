"""Durations as people type them: ``90``, ``90s``, ``5m``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re

# Seconds of a unit. A day has 24 hours, also where a clock is put forward.
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
FORMS = "90s, 5m, 1h30m or 2d"  # for remedies
_PART = r"\d{1,12}(?:\.\d{1,9})?(?:ms|[smhdw])"
PATTERN = rf"(?:{_PART})+"  # without a sign
_PARTS = re.compile(r"([\d.]+)(ms|[smhdw])", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_WHOLE = re.compile(rf"(-?)({PATTERN})", re.IGNORECASE | re.ASCII)


def parse_duration(text: str) -> float | None:
    """Seconds: a number without a unit is seconds, too. A leading minus negates all of it. None: it is no duration."""
    if _NUMBER.fullmatch(text):
        return float(text)
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    seconds = sum(float(number) * UNITS[unit] for number, unit in _PARTS.findall(found[2].lower()))
    return -seconds if found[1] else seconds


def duration_words(seconds: float) -> str:
    """Seconds in the largest unit that needs no fraction, such as ``2m``."""
    if not seconds or seconds % 1:
        return f"{seconds:g}s"
    unit = [unit for unit, length in UNITS.items() if length >= 1 and seconds % length == 0][-1]
    return f"{int(seconds // UNITS[unit])}{unit}"
