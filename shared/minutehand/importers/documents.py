"""Converts concatenated JSON values, as a shell loop prints them, to YAML documents, whose reader knows line numbers."""

from __future__ import annotations

import json
import re

from minutehand.errors import InvalidInput

_NEXT = re.compile(r"\S|\Z")
_PAIR = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")  # JSON's way past U+FFFF


def as_documents(text: str, source: str) -> str:
    """The text with a document marker before each JSON value, line numbers kept. Other text is returned unchanged.

    Raises InvalidInput with the line of what is no JSON.
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
