"""Decodes files, and marks the JSON documents in them. Raises InvalidInput with the line of the fault."""

from __future__ import annotations

import json
import re

from minutehand.apply.nodes import LARGEST
from minutehand.errors import InvalidInput

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # not tab and line feed; terminals interpret some of them
_NEXT = re.compile(r"\S|\Z")
_PAIR = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")  # JSON's way past U+FFFF


def text_of(data: bytes, source: str) -> str:
    """The text of a file. Raises InvalidInput if it is too large, not UTF-8, or contains control characters."""
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


def as_documents(text: str, source: str) -> str:
    """The text with a document marker before each JSON value, line numbers kept. Other text is returned unchanged.

    Raises InvalidInput with the line of a value that is not JSON.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return text
    decoder, end, parts = json.JSONDecoder(), 0, list[str]()
    while (start := _after_blanks(text, end)) < len(text):
        gap = text[end:start]
        try:
            _, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as problem:
            line = text.split("\n")[problem.lineno - 1].strip()
            raise InvalidInput(
                f"{source}:{problem.lineno}", line, f"is not JSON ({problem.msg})", "give what aws prints"
            ) from None
        except RecursionError:
            raise InvalidInput(source, text[:40], "is too deep", "give what aws prints") from None
        parts += [gap if gap.endswith("\n") or not parts else f"{gap}\n", "--- ", _PAIR.sub(_joined, text[start:end])]
    return "".join(parts)


def _after_blanks(text: str, place: int) -> int:
    found = _NEXT.search(text, place)
    return len(text) if found is None else found.start()


def _joined(pair: re.Match[str]) -> str:
    """The character of a surrogate pair: YAML has no surrogates."""
    if pair[1]:
        return pair[1]
    return chr(0x10000 + (int(pair[2], 16) - 0xD800 << 10) + int(pair[3], 16) - 0xDC00)
