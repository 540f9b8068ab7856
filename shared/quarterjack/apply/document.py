"""Files of declarations: YAML (or JSON) to declarations and back.

    managed_by: acme.reports          # owner of these schedules; apply changes no others
    schedules:
      nightly:
        job: reports.nightly
        expression: "30 2 * * *"
        timezone: Europe/Berlin

A file may hold several documents, one for each owner. A document without ``managed_by`` declares schedules without an owner.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from quarterjack.apply.fields import ALL, read_words
from quarterjack.apply.nodes import YamlNode, read_documents, scalar
from quarterjack.apply.schema import SCHEMA
from quarterjack.domain.names import check_name
from quarterjack.domain.schedule import Declaration
from quarterjack.errors import InvalidInput
from quarterjack.terminal import is_printable, printable

KEYS = ("managed_by", "schedules")
_STEPS = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, kw_only=True)
class DeclarationFile:
    """One document of a file."""

    declarations: tuple[Declaration, ...]
    managed_by: str | None = None
    words: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # the schedules' words by name, to write


def read(text: str, source: str) -> list[DeclarationFile]:
    """The documents of a file. Raises InvalidInput with file, line, field, value and remedy."""
    found = [_document(node) for node in read_documents(text, source)]
    if not found:
        raise InvalidInput(source, "", "has no document", "write managed_by and schedules; see the how-to page")
    (owner, times), *_ = Counter(document.managed_by for document in found).most_common(1)
    if times > 1:
        raise InvalidInput(source, owner, "has two documents of one owner", "put its schedules into one")
    places: dict[str | None, str] = {}
    for declared in (one for document in found for one in document.declarations):
        if declared.name in places:
            remedy = "declare each schedule in one document"
            raise InvalidInput(declared.place, declared.name, f"is declared in {places[declared.name]} too", remedy)
        places[declared.name] = declared.place
    return found


def _document(top: YamlNode) -> DeclarationFile:
    if not isinstance(top.value, dict) or top.get("schedules") is None:
        raise InvalidInput(top.place, "", "declares no schedules", "write 'schedules:' and names below it")
    unknown = next((name for name in top.value if name not in KEYS), None)
    if unknown is not None:
        raise InvalidInput(top.value[unknown].place, unknown, "is not known here", f"use {' and '.join(KEYS)}")
    schedules = top.value["schedules"]
    if not isinstance(schedules.value, dict):
        raise InvalidInput(schedules.place, "", "is not a mapping of names", "write 'name:' and its words below it")
    owner = top.get("managed_by")
    return DeclarationFile(
        managed_by=None if owner is None else check_name(owner.plain(strict=False), f"{owner.place}: managed_by"),
        declarations=tuple(_declared(name, node) for name, node in schedules.value.items()),
    )


def _declared(name: str, node: YamlNode) -> Declaration:
    if not isinstance(node.value, dict):
        raise InvalidInput(f"{node.place}: {node.path}", "", "has no words", f"write some of {', '.join(ALL)} below it")
    try:
        words = {word: below.plain(strict=word == "payload") for word, below in node.value.items()}
        return read_words(name, words, node.place)
    except InvalidInput as error:
        raise error.about(_where(node, error.field)) from None


def _where(node: YamlNode, field_name: str) -> str:
    """File, line and path of the field that an error names, down to the deepest node that exists."""
    path, found = field_name.removeprefix(node.path).lstrip("."), node
    for step in _STEPS.findall(path):
        if isinstance(found.value, dict) and step in found.value:
            found = found.value[step]
        elif isinstance(found.value, list) and step.isdecimal():
            found = found.value[int(step)]
        else:
            break
    return f"{found.place}: {node.path}.{path}".rstrip(".")


# Writing.


class _Writer(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes YAML that every YAML reader parses to the same values."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (the base's)
        return True


class QuotedText(str):
    __slots__ = ()


def _represent(writer: Any, text: str) -> Any:
    plain_is_text = type(scalar(text)) is str and not isinstance(text, QuotedText)
    style = "|" if "\n" in text else None if plain_is_text else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Writer.add_representer(str, _represent)
_Writer.add_representer(QuotedText, _represent)


def write(documents: Iterable[DeclarationFile], *, comment: str = "") -> str:
    """The text of some documents, by their ``words``; ``comment`` stands at the top."""
    top = "".join(f"# {line}".rstrip() + "\n" for line in printable(comment).splitlines())
    bodies = [
        ({} if document.managed_by is None else {"managed_by": document.managed_by})
        | {"schedules": {name: _for_file(words) for name, words in document.words.items()}}
        for document in documents
    ]
    style: dict[str, Any] = {"sort_keys": False, "width": 1_000, "default_flow_style": False}
    text = yaml.dump_all(bodies, Dumper=_Writer, allow_unicode=True, **style)
    if not is_printable(text):  # marks of direction would show the file in another order than it is in
        text = yaml.dump_all(bodies, Dumper=_Writer, allow_unicode=False, **style)
    return f"{top}# yaml-language-server: $schema={SCHEMA}\n{text}"


def write_words(words: Mapping[str, Any]) -> str:
    """Some words of one declaration as YAML, as they stand below its name."""
    text: str = yaml.dump(
        _for_file(words), Dumper=_Writer, allow_unicode=True, sort_keys=False, width=1_000, default_flow_style=False
    )
    return text


def _for_file(words: Mapping[str, Any]) -> dict[str, Any]:
    """The words with enumerations as texts, and expressions in quotes, because an edited expression may need them."""
    found = {word: str(value) if isinstance(value, str) else value for word, value in words.items()}
    expression = words.get("expression")
    if expression is not None:
        is_list = isinstance(expression, list)
        found["expression"] = list(map(QuotedText, expression)) if is_list else QuotedText(expression)
    for word in {"retry", "flow"} & found.keys():
        found[word] = {name: str(v) if isinstance(v, str) else v for name, v in words[word].items()}
    return found
