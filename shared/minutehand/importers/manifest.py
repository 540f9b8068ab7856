"""A document that records which of its fields were read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from minutehand.apply.nodes import YamlNode
from minutehand.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class FieldRules:
    """Rules for the fields of one kind of document."""

    idle: re.Pattern[str]  # paths of fields without effect on time and work
    reasons: Mapping[str, str]  # why a word is left out, by its name
    group: re.Pattern[str]  # the part of a path that one note covers; its group ``word`` is the name
    idle_if: Mapping[str, object] = field(default_factory=dict)  # values without effect, by the word's name


class Manifest:
    """A document, and the fields that were read."""

    def __init__(self, node: YamlNode, words: FieldRules) -> None:
        self._node, self._words, self._taken = node, words, set[str]()

    def take(self, node: YamlNode) -> YamlNode:
        """Mark a node, and everything below it, as read."""
        self._taken.add(node.path)
        return node

    def has(self, *names: str) -> bool:
        """Whether there is such a field."""
        return self._node.get(*names) is not None

    def text(self, *names: str, of: YamlNode | None = None) -> str | None:
        """Read a text of the document, or of a node in it."""
        found = (of or self._node).get(*names)
        return None if found is None else self._text(self.take(found))

    def number(self, *names: str) -> int | None:
        """Read a whole number. Raises InvalidInput."""
        found = self._node.get(*names)
        if found is None:
            return None
        if type(found.value) is not int or found.value < 0:
            raise InvalidInput(f"line {found.line}: {'.'.join(names)}", found.value, "is no number", "write 0, 1, 2 …")
        self.take(found)
        return found.value

    def flag(self, *names: str) -> bool:
        """Read a boolean. Raises InvalidInput."""
        found = self._node.get(*names)
        if found is None:
            return False
        if not isinstance(found.value, bool):
            raise InvalidInput(
                f"line {found.line}: {'.'.join(names)}", found.value, "is no truth", "write true or false"
            )
        self.take(found)
        return found.value

    def all(self, *names: str, of: YamlNode | None = None) -> list[YamlNode]:
        """The items of a list of the document, or of a node in it; does not mark them as read."""
        found = (of or self._node).get(*names)
        return found.value if found is not None and isinstance(found.value, list) else []

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
        notes: dict[str, str] = {}
        for leaf in self._node.leaves():
            path = leaf.path.removeprefix(self._node.path).lstrip(".")
            if self._is_taken(leaf.path) or leaf.value in ({}, [], None) or self._is_idle(path, leaf):
                continue
            group = self._words.group.match(path)
            assert group is not None, path
            reason = self._words.reasons.get(group["word"], "nothing here corresponds to it")
            notes.setdefault(group[0], f"line {leaf.line}: {group[0]} is left out: {reason}")
        return list(notes.values())

    def _is_taken(self, path: str) -> bool:
        return any(path == taken or path.startswith((f"{taken}.", f"{taken}[")) for taken in self._taken)

    def _is_idle(self, path: str, leaf: YamlNode) -> bool:
        name = path.rpartition(".")[2]
        idle_if = self._words.idle_if
        return self._words.idle.fullmatch(path) is not None or (name in idle_if and leaf.value == idle_if[name])

    def _text(self, node: YamlNode) -> str:
        if isinstance(node.value, (dict, list)):
            raise InvalidInput(f"line {node.line}: {node.path}", "", "is no text", "write a text")
        if isinstance(node.value, bool) or node.value is None:
            return {True: "true", False: "false", None: ""}[node.value]
        return str(node.value)
