"""The form of a schedule's definition: the words of a declaration as fields that are typed, and back.

A field that is empty has its default. Words without a field of their own are one text in YAML, so that the form holds every word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from quarterjack.apply.document import write_words
from quarterjack.apply.fields import ALL
from quarterjack.apply.nodes import read_documents
from quarterjack.console.forms import json_typed, number_typed
from quarterjack.console.words import pretty
from quarterjack.domain.options import CatchUp, Overlap
from quarterjack.domain.policies import Priority
from quarterjack.errors import InvalidInput
from quarterjack.timing.rrule.parser import is_rrule

CHOICES: Mapping[str, tuple[str, ...]] = {
    "overlap": tuple(str(one) for one in Overlap),
    "catch_up": tuple(str(one) for one in CatchUp),
    "priority": tuple(str(one) for one in Priority),
}
SECONDS = ("timeout", "deadline")
TEXTS = ("job", "timezone", "description", "queue")
FIELDS = (
    "name",
    "revision",
    "etag",
    "expression",
    *TEXTS,
    "payload",
    "keep_payload",
    "tags",
    "attempts",
    *SECONDS,
    *CHOICES,
    "more",
)
_OWN = ("job", "timezone", "expression", "payload", "description", "queue", "paused", *SECONDS, *CHOICES)
MORE = tuple(word for word in ALL if word not in (*_OWN, "tags"))  # "rule", "retry", "delivery" …


def typed(form: Mapping[str, str]) -> dict[str, str]:
    """The fields of a form that was sent, as they were typed."""
    return {name: form.get(name, "") for name in FIELDS}


def fields_of(words: Mapping[str, Any]) -> dict[str, str]:
    """The fields that say the words of a declaration."""
    found = dict.fromkeys(FIELDS, "")
    expression = words.get("expression", "")
    texts = [expression] if isinstance(expression, str) else list(expression)
    found["expression"] = ("\n\n" if any(map(is_rrule, texts)) else "\n").join(texts)
    found |= {name: str(words.get(name, "")) for name in (*TEXTS, *CHOICES)}
    found |= {name: repr(words[name]).removesuffix(".0") for name in SECONDS if name in words}
    found["payload"] = pretty(words["payload"]) if words.get("payload") is not None else ""
    retry, tags = dict(words.get("retry", {})), words.get("tags", {})
    if "max_attempts" in retry:
        found["attempts"] = str(retry.pop("max_attempts"))
    rest = {word: words[word] for word in MORE if word in words and word != "retry"} | (
        {"retry": retry} if retry else {}
    )
    if all(_fits_a_line(key, value) for key, value in tags.items()):
        found["tags"] = "\n".join(f"{key}={value}" for key, value in tags.items())
    else:
        rest["tags"] = dict(tags)
    found["more"] = write_words(rest) if rest else ""
    return found


def words_of_form(form: Mapping[str, str]) -> dict[str, Any]:
    """The words that the fields of a form say. Raises InvalidInput, which names the field."""
    found: dict[str, Any] = _more(form.get("more", ""))
    texts = _expressions(form.get("expression", ""))
    found["expression"] = texts[0] if len(texts) == 1 else texts or None
    found |= {name: text for name in (*TEXTS, *CHOICES) if (text := _unix(form.get(name, "")).strip())}
    found |= {name: _number(name, text) for name in SECONDS if (text := form.get(name, "").strip())}
    if attempts := form.get("attempts", "").strip():
        retry = found.get("retry")
        found["retry"] = {**(retry if isinstance(retry, Mapping) else {}), "max_attempts": _whole("attempts", attempts)}
    if payload := form.get("payload", "").strip():
        found["payload"] = json_typed(payload)
    if tags := [line.strip() for line in form.get("tags", "").splitlines() if line.strip()]:
        if "tags" in found:
            raise InvalidInput("more", "tags", "has a field of its own, which is filled in", "use one of the two")
        found["tags"] = dict(map(_tag, tags))
    return {word: found[word] for word in (*ALL, *found) if word in found}  # in the order of ALL


def _unix(text: str) -> str:
    """Browsers send the ends of lines as two characters."""
    return text.replace("\r\n", "\n")


def _expressions(text: str) -> list[str]:
    """One a line; recurrence rules have several lines each, so among these an empty line ends an expression."""
    text = _unix(text)
    has_rules = any(is_rrule(line) for line in text.splitlines())
    parts = re.split(r"\n\s*\n", text) if has_rules else text.splitlines()
    return [part.strip() for part in parts if part.strip()]


def _fits_a_line(key: str, value: str) -> bool:
    text = f"{key}={value}"
    return "=" not in key and text == text.strip() and len(text.splitlines()) == 1


def _more(text: str) -> dict[str, Any]:
    documents = read_documents(text, "more")
    if not documents:
        return {}
    value = documents[0].plain(strict=False)
    if len(documents) > 1 or not isinstance(value, dict):
        raise InvalidInput("more", text, "is not a mapping", "write word: value, each on a line of its own")
    for word in value:
        if word in _OWN:
            raise InvalidInput("more", word, "has a field of its own", "write it there")
    return value


def _number(field: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(field, text, "is not a number", "write seconds, as 30 or 0.5") from None


def _whole(field: str, text: str) -> int:
    found = number_typed(text)
    if found is None:
        raise InvalidInput(field, text, "is not a whole number", "write 1 or more")
    return found


def _tag(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise InvalidInput("tags", text, "is not key=value", "write key=value, each on a line of its own")
    return key, value


def compact(value: Any) -> str:
    """A JSON value on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
