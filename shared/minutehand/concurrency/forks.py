"""Forks: what a forked child must not share with its parent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


def this_process() -> int:
    """The id of this process. A fork has another."""
    return os.getpid()


class PerProcess(Generic[_T]):
    """A value that each process makes for itself: a forked child leaves its parent's alone, whose locks may be held."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: tuple[int, _T] | None = None

    @property
    def value(self) -> _T:
        """Made at the first access in this process."""
        made, process = self._made, this_process()
        if made is None or made[0] != process:
            made = self._made = (process, self._make())
        return made[1]
