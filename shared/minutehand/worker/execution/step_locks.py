"""The steps that threads and tasks of one attempt are at. One that comes to a step which another is at waits for its end.

So a step's function is called once at a time and, recorded, never again; one that failed is tried by the next who waited. A step
that comes to itself would wait for ever, and is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from minutehand.errors import InvalidInput


@dataclass(eq=False)
class StepLock:
    """A step that somebody is at."""

    thread: int = field(default_factory=threading.get_ident)
    over: Future[None] = field(default_factory=Future)  # however it ended


# The steps within which the present line of a job runs; tasks and ``asyncio.to_thread`` inherit it.
_within: ContextVar[tuple[StepLock, ...]] = ContextVar("_within", default=())


class StepLocks:
    """The steps of one attempt that are under way, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, StepLock] = {}

    @contextmanager
    def take(self, name: str) -> Iterator[bool]:
        """The block has the step to itself if this gives True; else another had, has ended, and it is to be looked at anew."""
        mine, other = self._come_to(name)
        if other is None:
            with self._at(name, mine):
                yield True
            return
        if other.thread == threading.get_ident():  # a task, which cannot go on while its thread waits here
            raise _in_itself(name)
        other.over.result()
        yield False

    @asynccontextmanager
    async def take_async(self, name: str) -> AsyncIterator[bool]:
        """As ``take``; other tasks go on while this one waits."""
        mine, other = self._come_to(name)
        if other is None:
            with self._at(name, mine):
                yield True
            return
        await asyncio.shield(asyncio.wrap_future(other.over))
        yield False

    def _come_to(self, name: str) -> tuple[StepLock, StepLock | None]:
        """A lock of one's own, and the one that is under way already, if any."""
        with self._lock:
            other = self._locks.get(name)
            if other is not None and other in _within.get():
                raise _in_itself(name)
            mine = StepLock()
            if other is None:
                self._locks[name] = mine
            return mine, other

    @contextmanager
    def _at(self, name: str, lock: StepLock) -> Iterator[None]:
        token = _within.set((*_within.get(), lock))
        try:
            yield
        finally:
            _within.reset(token)
            with self._lock:
                del self._locks[name]
            lock.over.set_result(None)


def _in_itself(name: str) -> InvalidInput:
    return InvalidInput("step", name, "is under way here and would wait for itself", "give each step a name of its own")
