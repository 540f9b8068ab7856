"""The fields of the form for an answer, made from the schema of the wait. An answer that fits no form is typed as JSON.

schema                                             form
object whose properties are all simple             a field for each property
boolean, enum, const, string, number, integer      one field
anything else, and no schema                       one field for JSON
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quarterjack.console.forms import json_typed
from quarterjack.errors import InvalidInput

_WHOLE = "answer"  # the field of an answer that has one alone
_MOST = 20  # fields of a form; a larger object is typed as JSON
_NUMBERS = ("number", "integer")


@dataclass(frozen=True, kw_only=True)
class AnswerField:
    """A field of the form."""

    name: str  # in the form
    label: str
    about: str = ""  # what its schema says of it
    kind: str  # "text", "number", "choice" or "json"
    choices: Sequence[tuple[str, str]] = ()  # of a choice: JSON, and its words
    required: bool = True
    key: str | None = None  # of the property; None: the field is the whole answer

    @property
    def place(self) -> str:
        """As errors name it."""
        return "payload" if self.key is None else f"payload.{self.key}"

    def value(self, text: str) -> Any:
        """The value of what was typed. Raises InvalidInput."""
        if self.kind == "text":
            return text
        if self.kind == "json":
            return json_typed(text)
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        if self.kind == "number" and not is_number:
            raise InvalidInput(self.place, text, "is not a number", "type digits, with a point before decimals")
        if self.kind == "choice" and text not in dict(self.choices):
            raise InvalidInput(self.place, text, "is not one of the choices", "choose one")
        return found


def fields_of(schema: Mapping[str, Any] | None) -> Sequence[AnswerField]:
    """The fields of the form for an answer."""
    whole = [AnswerField(name=_WHOLE, label="Answer (JSON)", kind="json", about=_text(schema, "description"))]
    if schema is None:
        return whole
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, dict) and 0 < len(properties) <= _MOST:
        needed = schema.get("required", ())
        found = [_field(key, part, required=key in needed) for key, part in properties.items()]
        is_complete = set(needed) <= properties.keys()
        fields = [one for one in found if one is not None]
        return fields if is_complete and len(fields) == len(found) else whole
    one = _field(None, schema, required=True)
    return whole if one is None else [one]


def _field(key: str | None, part: Any, *, required: bool) -> AnswerField | None:
    """The field of a simple schema; None: it is not simple."""
    if not isinstance(part, dict):
        return None
    kind, choices = _kind(part)
    if kind is None:
        return None
    name = _WHOLE if key is None else f"{_WHOLE}.{key}"
    label = _text(part, "title") or key or "Answer"
    about = _text(part, "description")
    return AnswerField(name=name, label=label, about=about, kind=kind, choices=choices, required=required, key=key)


def _kind(part: Mapping[str, Any]) -> tuple[str | None, Sequence[tuple[str, str]]]:
    """The kind of a field and its choices."""
    if "const" in part or isinstance(part.get("enum"), list):
        values = [part["const"]] if "const" in part else part["enum"]
        return "choice", [(json.dumps(one), one if isinstance(one, str) else json.dumps(one)) for one in values]
    if part.get("type") == "boolean":
        return "choice", [("true", "yes"), ("false", "no")]
    if part.get("type") in _NUMBERS:
        return "number", ()
    return ("text" if part.get("type") == "string" else None), ()


def _text(part: Mapping[str, Any] | None, word: str) -> str:
    found = (part or {}).get(word)
    return found if isinstance(found, str) else ""


def answer_of(fields: Sequence[AnswerField], form: Mapping[str, str]) -> Any:
    """The answer that a form gives. An empty field that is not required is left out. Raises InvalidInput."""
    first = fields[0]
    if first.key is None:
        text = form.get(first.name, "")
        return None if first.kind == "json" and not text.strip() else first.value(text)
    found = dict[str, Any]()
    for one in fields:
        text = form.get(one.name, "")
        if text or (one.required and one.kind == "text"):
            found[str(one.key)] = one.value(text)
    return found
