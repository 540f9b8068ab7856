"""Parts of a page that are asked for one by one: one that is refused, or that a table does not answer, leaves the others.

The refusal of a part is no line in the audit: the page has asked, not its reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quarterjack.errors import Forbidden, QuarterjackError
from quarterjack.owner.access import asked_beside


@dataclass(frozen=True)
class Part:
    """What one question of a page was answered: a value, or why there is none."""

    value: Any = None
    problem: str | None = None


def part(ask: Callable[[], Any]) -> Part:
    """The answer to a question."""
    try:
        with asked_beside():
            return Part(ask())
    except Forbidden:
        return Part(problem="You have no grant to see this.")
    except QuarterjackError as problem:
        return Part(problem=str(problem))
