"""Text for people: safe to print, whatever a payload, a result, an error or a log line holds; and durations as people say them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

# Control characters (C0 without tab and line feed, DEL, C1) move the cursor, rename the window or answer in the operator's name.
# Marks of direction show text in another order than it is in. U+2028 and U+2029 begin a line of their own.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


def printable(text: str) -> str:
    """The text with escapes in place of control characters and marks of direction. Lines and tabs stay."""
    return _UNSAFE.sub(_escape, text)


def in_one_line(text: str) -> str:
    """The same for text that must not begin a line: that line could pass for one of the program's own."""
    return printable(text).replace("\n", "\\n")


def is_printable(text: str) -> bool:
    return _UNSAFE.search(text) is None


def printable_json(text: str) -> str:
    """JSON in a line with these characters as escapes: the same JSON, because they occur within its strings alone."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


# Durations as people say them.

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))  # seconds


def span(length: timedelta) -> str:
    """A duration in its two largest units, rounded down: ``412 ms``, ``3.2 s``, ``2 min 5 s``, ``1 d 6 h``."""
    seconds = length.total_seconds()
    if seconds < 0:
        return f"-{span(-length)}"
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    return f"{f'{seconds:.1f}'.removesuffix('.0')} s" if seconds < 10 else _units(int(seconds))


def relative(moment: datetime, now: datetime) -> str:
    """An instant as seen from ``now``, coarsely: ``in 1 d 6 h``, ``3 min ago``, ``now`` within a second."""
    seconds = int((moment - now).total_seconds())
    if seconds == 0:
        return "now"
    away = abs(seconds)
    text = _units(away - away % 60 if away >= 60 else away)
    return f"in {text}" if seconds > 0 else f"{text} ago"


def _units(seconds: int) -> str:
    parts, left = [], seconds
    for unit, name in _UNITS:
        parts.append((left // unit, name))
        left %= unit
    first = next((at for at, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count:,} {name}" for count, name in parts[first : first + 2] if count) or "0 s"
