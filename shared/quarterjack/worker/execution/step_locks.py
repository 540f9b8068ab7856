"""Steps that are under way in a job, and within which of them a line of it runs."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field

from quarterjack.errors import InvalidInput


@dataclass(eq=False)
class StepLock:
    """A step that somebody is at."""

    thread: int = field(default_factory=threading.get_ident)
    over: Future[None] = field(default_factory=Future)  # however it ended


# The steps within which the present line of a job runs; tasks and ``asyncio.to_thread`` inherit it.
within: ContextVar[tuple[StepLock, ...]] = ContextVar("within", default=())


def in_itself(name: str) -> InvalidInput:
    """The refusal of a step that would wait for its own end."""
    return InvalidInput("step", name, "is under way here and would wait for itself", "give each step a name of its own")
