"""A document that records which of its fields were read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from quarterjack.apply.nodes import YamlNode
from quarterjack.errors import InvalidInput
from quarterjack.importers.text import without_secrets

Scalar = TypeVar("Scalar", int, bool)


@dataclass(frozen=True, kw_only=True)
class FieldRules:
    """Rules for the fields of one kind of document."""

    idle: re.Pattern[str]  # paths of fields without effect on time and work
    reasons: Mapping[str, str]  # why a word is left out, by its name
    group: re.Pattern[str]  # the part of a path that one note covers; its group ``word`` is the name
    idle_if: Mapping[str, object] = field(default_factory=dict)  # values without effect, by the word's name


class Manifest:
    """A document, and the fields that were read."""

    def __init__(self, node: YamlNode, rules: FieldRules) -> None:
        self._node, self._rules, self._taken = node, rules, set[str]()

    def take(self, node: YamlNode) -> YamlNode:
        """Mark a node, and everything below it, as read."""
        self._taken.add(node.path)
        return node

    def has(self, *names: str) -> bool:
        return self._node.get(*names) is not None

    def text(self, *names: str, of: YamlNode | None = None) -> str | None:
        """Read a text of the document, or of a node in it."""
        found = (of or self._node).get(*names)
        return None if found is None else self._text(self.take(found))

    def number(self, *names: str) -> int | None:
        """Read a whole number. Raises InvalidInput."""
        return self._read(int, *names, problem="is not a number", remedy="write 0, 1, 2 …")

    def flag(self, *names: str) -> bool | None:
        """Read a boolean. Raises InvalidInput."""
        return self._read(bool, *names, problem="is not true or false", remedy="write true or false")

    def _read(self, kind: type[Scalar], *names: str, problem: str, remedy: str) -> Scalar | None:
        found = self._node.get(*names)
        if found is None:
            return None
        if type(found.value) is not kind or found.value < 0:
            raise InvalidInput(f"line {found.line}: {'.'.join(names)}", found.value, problem, remedy)
        return self.take(found).value  # type: ignore[no-any-return]

    def all(self, *names: str, of: YamlNode | None = None) -> list[YamlNode]:
        """The items of a list of the document, or of a node in it; does not mark them as read. Raises InvalidInput."""
        found = (of or self._node).get(*names)
        if found is None:
            return []
        if not isinstance(found.value, list):
            place = f"line {found.line}: {found.path.removeprefix(self._node.path).lstrip('.')}"
            shown = without_secrets(found.value)[:60] if isinstance(found.value, str) else ""
            raise InvalidInput(place, shown, "is not a list", "write each item after a hyphen, or all in brackets")
        return found.value

    def texts(self, node: YamlNode, name: str) -> list[str]:
        """Read a list of texts below a node. Raises InvalidInput."""
        return [self._text(self.take(item)) for item in self.all(name, of=node)]

    def mapping(self, *names: str, only: str | None = None) -> dict[str, str]:
        """Read texts by name: all, or one of them."""
        found = self._node.get(*names)
        items = found.value.items() if found is not None and isinstance(found.value, dict) else ()
        return {name: self._text(self.take(node)) for name, node in items if only in (None, name)}

    def rest(self) -> list[str]:
        """A note for each relevant field that was not read."""
        rules, notes = self._rules, dict[str, str]()
        for leaf in self._node.leaves():
            path = leaf.path.removeprefix(self._node.path).lstrip(".")
            name = path.rpartition(".")[2]
            taken = any(f"{leaf.path}.".startswith((f"{one}.", f"{one}[")) for one in self._taken)
            idle = rules.idle.fullmatch(path) or (name in rules.idle_if and leaf.value == rules.idle_if[name])
            if taken or idle or leaf.value in ({}, [], None):
                continue
            group = rules.group.match(path)
            assert group is not None, path
            reason = rules.reasons.get(group["word"], "nothing here corresponds to it")
            notes.setdefault(group[0], f"line {leaf.line}: {group[0]} is left out: {reason}")
        return list(notes.values())

    def _text(self, node: YamlNode) -> str:
        if isinstance(node.value, (dict, list)):
            raise InvalidInput(f"line {node.line}: {node.path}", "", "is not text", "write a text")
        if isinstance(node.value, bool) or node.value is None:
            return {True: "true", False: "false", None: ""}[node.value]
        return str(node.value)
