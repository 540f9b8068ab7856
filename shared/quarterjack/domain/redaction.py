"""Redaction: what of a payload must not be repeated by errors that are stored, logged and sent.

Three things are masked in a text: the values of the payload under sensitive names, wherever they occur; what stands behind a sensitive
name (``password='…'``, ``"token": "…"``, ``Authorization: Bearer …``); and what matches a pattern. Text that gives no name and is no
value of the payload cannot be recognised. Every search takes time in proportion to the text's length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quarterjack.errors import InvalidInput

MASK = "[redacted]"
# A name that contains one of these, in any case, with "_", "-" or nothing between its words.
FIELDS = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "authorization", "api_key", "access_key"),
    *("private_key", "credential", "cookie", "session_id", "card_number", "cvv"),
)
PATTERNS = (
    r"(?i:\b(?:bearer|basic)\s+)(?=[A-Za-z+/_.~-]{0,200}[0-9=])[A-Za-z0-9+/=_.~-]{8,}",
    r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?",  # a JSON web token
    r"\bA(?:KI|SI)A[A-Z0-9]{16}\b",  # an access key of AWS
    r"(?<=://)[^/\s:@]{1,100}:[^/\s@]{1,200}(?=@)",  # user and password of a URL
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{1,20000}",
)
_SHORTEST = 4  # characters of a value that is searched: a shorter one occurs by chance
_DEEPEST = 64  # levels of a payload
_MOST = 100  # fields and patterns of a policy
_OPENING = {"{": "}", "[": "]", "(": ")"}
_SCHEME = re.compile(r"(?i:bearer|basic|digest|token|negotiate|aws4-hmac-sha256)\s+")
_QUOTE = re.compile(r"""[bruf]{0,2}(\\{0,3}["'])""", re.IGNORECASE)
_WORD = re.compile(r"(?:true|false|none|null)\b", re.IGNORECASE)  # says whether there is a value, and not which
_COVERED = re.compile(b"\1+")
_BARE = re.compile(r"""[^\s,;&"'}\])<>\\]*""")


@dataclass(frozen=True, kw_only=True)
class Redact:
    """What errors of a job must not repeat, beside the usual names (password, token, secret, authorization …). Raises InvalidInput.

    ``fields`` are further names of fields, ``patterns`` regular expressions.
    """

    fields: tuple[str, ...] = ()  # a name that contains one of these; in any case, "_" and "-" are alike
    patterns: tuple[str, ...] = ()  # what they match is masked
    usual: bool = True  # whether the usual names and patterns count, too

    def __post_init__(self) -> None:
        for name in ("fields", "patterns"):
            given = getattr(self, name)
            fits = isinstance(given, (list, tuple)) and len(given) <= _MOST
            if not fits or not all(isinstance(text, str) and text for text in given):
                raise InvalidInput(name, given, "is not a list of texts", f"use at most {_MOST}, e.g. ('iban',)")
            object.__setattr__(self, name, tuple(given))
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as problem:
                raise InvalidInput("patterns", pattern, f"is no regular expression ({problem})", "correct it") from None

    def text(self, text: str, payload: str | None = None) -> str:
        """The text without what must not be repeated; ``payload`` is JSON text whose sensitive values are masked, too."""
        text = self._behind_names(_without(self._values(payload), text))
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def hides(self, name: str) -> bool:
        """Whether the value of a field of that name must not be shown."""
        return self._names is not None and self._names.search(name) is not None

    @cached_property
    def _names(self) -> re.Pattern[str] | None:
        names = (*(FIELDS if self.usual else ()), *self.fields)
        words = ("[_-]?".join(map(re.escape, re.split("[_-]", name))) for name in names)
        return re.compile("|".join(words), re.IGNORECASE) if names else None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(re.compile, (*(PATTERNS if self.usual else ()), *self.patterns)))

    @cached_property
    def _keys(self) -> re.Pattern[str] | None:
        """A sensitive name up to its value. The last form is Pydantic's, which has the name on the line before."""
        if self._names is None:
            return None
        name = f"(?:{self._names.pattern})"
        separators = r"[\w.-]{0,40}(?:\\{0,3}[\"']\]?\s{0,3}(?:=>|[:=])\s{0,8}|\s{0,3}(?:=>|=|:\s)\s{0,8})|[:=]"
        pydantic = r"[\w.-]{0,40}\n[^\n]{0,300}?input_value="
        of_class = r"(?![\w.-]{0,40}(?:Error|Exception)\b)"  # TokenError: the text of the error follows
        return re.compile(f"{name}{of_class}(?:{separators}|{pydantic})", re.IGNORECASE)

    def _behind_names(self, text: str) -> str:
        if self._keys is None:
            return text
        parts, at = list[str](), 0
        while found := self._keys.search(text, at):
            end = _end_of_value(text, found.end())
            parts += (text[at : found.end()], MASK if end > found.end() else "")
            at = end
        return "".join((*parts, text[at:]))

    def _values(self, payload: str | None) -> list[str]:
        """The texts of the payload under sensitive names, also as JSON and ``repr`` write them."""
        if payload is None or self._names is None or not self._names.search(payload):
            return []
        try:
            found = set(_texts_under(json.loads(payload), self._names, sensitive=False, depth=0))
        except (ValueError, RecursionError):
            return []
        written = {form for value in found for form in (value, json.dumps(value)[1:-1], repr(value)[1:-1])}
        return [form for form in written if len(form) >= _SHORTEST]


USUAL = Redact()  # of whatever has no policy of its own


def check_redact(given: object) -> Redact:
    if not isinstance(given, Redact):
        raise InvalidInput("redact", given, "is not a Redact", "use Redact(fields=('iban',)), or leave it out")
    return given


def _texts_under(value: Any, names: re.Pattern[str], *, sensitive: bool, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            hit = sensitive or names.search(name) is not None
            yield from _texts_under(inner, names, sensitive=hit, depth=depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_under(inner, names, sensitive=sensitive, depth=depth + 1)
    elif sensitive and value is not None and not isinstance(value, bool):
        yield str(value)


def _without(values: Collection[str], text: str) -> str:
    """The text with one mask in place of each stretch that these values cover.

    Each is looked for in the text as it was given. In a text that has masks already, values that are pieces of a mask would be found
    in it, and each could double the text.
    """
    if not values:
        return text
    beginnings = {text[at : at + _SHORTEST] for at in range(len(text) - _SHORTEST + 1)}
    covered = bytearray(len(text))
    for value in values:
        at = text.find(value) if value[:_SHORTEST] in beginnings else -1
        while at >= 0:
            end = at + len(value)
            covered[at:end] = b"\1" * len(value)
            at = text.find(value, end)
    parts, shown = list[str](), 0
    for stretch in _COVERED.finditer(covered):
        parts += (text[shown : stretch.start()], MASK)
        shown = stretch.end()
    return "".join((*parts, text[shown:]))


def _end_of_value(text: str, at: int) -> int:
    """Where the value that begins there ends: at its quote, its bracket, or its word. One that was cut off ends with the text."""
    quoted = _QUOTE.match(text, at)
    if quoted is not None:
        quote, end = quoted[1], quoted.end()
        while (end := text.find(quote, end)) >= 0 and len(quote) == 1 and _is_escaped(text, end):
            end += 1
        return len(text) if end < 0 else end + len(quote)
    if text[at : at + 1] in _OPENING:
        return _end_of_bracket(text, at)
    if _WORD.match(text, at):
        return at
    scheme = _SCHEME.match(text, at)
    bare = _BARE.match(text, at if scheme is None else scheme.end())
    return at if bare is None else bare.end()


def _is_escaped(text: str, at: int) -> bool:
    """Whether an odd number of backslashes stands before that place."""
    before = text[max(0, at - 20) : at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _end_of_bracket(text: str, at: int) -> int:
    opening, closing, depth = text[at], _OPENING[text[at]], 0
    for place in range(at, len(text)):
        depth += (text[place] == opening) - (text[place] == closing)
        if depth == 0:
            return place + 1
    return len(text)
