"""Decodes files. Raises InvalidInput with the line for bytes that are no text."""

from __future__ import annotations

import re

from minutehand.apply.nodes import LARGEST
from minutehand.errors import InvalidInput

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)  # not tab and the ends of lines; a terminal would obey some of them


def text_of(data: bytes, source: str) -> str:
    """The text of a file. Raises InvalidInput for what is too large, not UTF-8, or no text."""
    if len(data) > LARGEST:
        raise InvalidInput(source, f"{len(data):,} bytes", "is too large", f"split it: {LARGEST:,} at the most")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        remedy = f"convert it first: iconv -f latin1 -t utf-8 {source}" if b"\0" not in data else "give a text file"
        raise InvalidInput(f"{source}:{line}", data[problem.start :][:1], "is not UTF-8", remedy) from None
    control = _CONTROL.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        raise InvalidInput(f"{source}:{line}", control[0], "is no text", "give a text file, or take this character out")
    return text
