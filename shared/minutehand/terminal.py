"""Text that is safe to print: what a payload, a result, an error or a log line can do to the terminal and the eyes of an operator."""

from __future__ import annotations

import re

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
