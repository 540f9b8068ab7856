"""Forks: objects that a forked child must not share with its parent."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakSet

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


class HoldsLocks(ABC):
    """Has locks, which a forked child makes anew: threads of its parent, which it has not, may have held them.

    ``PerProcess`` would do the same, at the cost of a system call each time.
    """

    def __init__(self) -> None:
        self._make_locks()
        _holders.add(self)

    @abstractmethod
    def _make_locks(self) -> None:
        """Make the locks, and what says that threads are under way. Also called in a forked child, before anything else runs there."""


_holders: WeakSet[HoldsLocks] = WeakSet()


def _make_all_locks() -> None:
    for holder in list(_holders):
        holder._make_locks()  # noqa: SLF001 (of this module)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_make_all_locks)
