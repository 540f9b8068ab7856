"""The two consoles of a command. rich is imported with the first styled line: JSON, ``--version`` and errors need none of it."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Terminal:
    """A rich console that is made when something is printed."""

    def __init__(self, *, stderr: bool) -> None:
        self._stderr = stderr

    @cached_property
    def console(self) -> Console:
        """The console itself, for what rich draws on."""
        made: Console = import_module("rich.console").Console(stderr=self._stderr)
        return made

    def print(self, *objects: object, **style: Any) -> None:
        """As ``rich.console.Console.print``."""
        self.console.print(*objects, **style)


console = Terminal(stderr=False)  # the answer
aside = Terminal(stderr=True)  # questions, progress and warnings beside it
