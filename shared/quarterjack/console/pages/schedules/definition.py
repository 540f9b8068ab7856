"""A schedule's definition for reading: its words with what they say, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from quarterjack.apply.difference import payload_changes
from quarterjack.apply.fields import DATES
from quarterjack.console.words import duration
from quarterjack.domain.redaction import Redact
from quarterjack.domain.times import from_ms

_WITH_UNIT = (
    "timeout",
    "deadline",
    "catch_up_window",
    "expect_success_within",
    "base",
    "cap",
    "within",
    "window",
    "jitter",
)
_APART = ("expression", "timezone", "payload", "description", "tags", "job")  # shown by themselves


@dataclass(frozen=True)
class WordDifference:
    """A word that differs; None: it has no value, or its default."""

    word: str
    before: str | None
    after: str | None


def definition_facts(words: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The words of a definition that are not shown elsewhere, those below another one by their path: ``retry.base``."""
    return [(word, shown(word, value)) for word, value in _flat(words) if word.partition(".")[0] not in _APART]


def differences(pairs: Mapping[str, tuple[Any, Any]]) -> Sequence[WordDifference]:
    """Pairs of values by word, as texts; words below another one each by its path."""
    found = []
    for word, (before, after) in pairs.items():
        if word in ("retry", "rule") or (word == "tags" and isinstance(before or after, Mapping)):
            old, new = dict(_flat({word: before})), dict(_flat({word: after}))
            below = {path: (old.get(path), new.get(path)) for path in dict.fromkeys((*new, *old))}
            found += [_difference(path, *pair) for path, pair in below.items() if pair[0] != pair[1]]
        elif word == "payload" and before != after:
            changes = payload_changes(before, after, Redact())
            found += [_difference(one.path, one.before, one.after) for one in changes]
        else:
            found.append(_difference(word, before, after))
    return found


def _difference(word: str, before: Any, after: Any) -> WordDifference:
    return WordDifference(word, *(None if value is None else shown(word, value) for value in (before, after)))


def shown(word: str, value: Any) -> str:
    """A value of a word as text."""
    name = word.rpartition(".")[2]
    if name in DATES and isinstance(value, int) and not isinstance(value, bool):
        return from_ms(value).isoformat()
    if name in _WITH_UNIT and isinstance(value, (int, float)) and not word.startswith(("payload", "tags")):
        return duration(timedelta(seconds=value))
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _flat(words: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for word, value in words.items():
        if word != "payload" and isinstance(value, Mapping):
            found += [(f"{word}.{below}", inner) for below, inner in value.items()]
        elif value is not None:
            found.append((word, value))
    return found
