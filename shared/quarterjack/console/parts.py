"""Parts of a page that are asked for one by one: one that is refused, or that a table does not answer, leaves the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quarterjack.errors import Forbidden, QuarterjackError


@dataclass(frozen=True)
class Part:
    """What one question of a page was answered: a value, or why there is none."""

    value: Any = None
    problem: str | None = None


def part(ask: Callable[[], Any]) -> Part:
    """The answer to a question."""
    try:
        return Part(ask())
    except Forbidden:
        return Part(problem="You have no grant to see this.")
    except QuarterjackError as problem:
        return Part(problem=str(problem))
