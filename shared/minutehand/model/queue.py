"""A queue: a lane of its own for the runs of some jobs, with workers of its own size and number."""

from __future__ import annotations

import re
from dataclasses import dataclass

from minutehand.errors import InvalidInput

DEFAULT_QUEUE = "default"  # the one that every installation has; nobody declares it
LONGEST_NAME = 32  # of a queue: `<prefix>-worker-<name>` is a function's name, which has 64 characters at the most
MOST_RUNS = 1_000  # at the same time in a queue's functions: what Lambda's event source can hold to
LEAST_RUNS = 2  # likewise
BATCH = 10  # messages that a function takes at once at the most
MOST_MEMORY = 10_240  # MB of a function
LEAST_MEMORY = 128  # MB
MOST_SECONDS = 900  # of a function
MOST_SPREAD = 86_400  # seconds

_NAME = re.compile(rf"[a-z0-9](?:[a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A declared queue. ``Registry.queue`` makes and registers it; checked on construction."""

    name: str  # as jobs and schedules call it
    concurrency: int | None = None  # runs at the same time in the stack, or in each worker process; None: no limit
    memory: int = 512  # MB of its worker function
    timeout: int = MOST_SECONDS  # seconds of its worker function
    batch: int = BATCH  # runs that one function takes at once: they share its memory
    container: bool = False  # its workers are processes of the owner's: the stack makes the queue and no function
    spread: int = 0  # seconds over which the fires of its schedules are spread, where they say nothing of it
    on_failure: str | None = None  # where its schedules' incidents are told, where they say nothing of it
    on_recovery: str | None = None  # likewise

    def __post_init__(self) -> None:
        check_queue(self.name, "name")
        if self.name == DEFAULT_QUEUE:
            raise InvalidInput("name", self.name, "is there without a declaration", "choose another name")
        if self.concurrency is not None:
            _whole("concurrency", self.concurrency, 1, MOST_RUNS)
        _whole("memory", self.memory, LEAST_MEMORY, MOST_MEMORY)
        _whole("timeout", self.timeout, 1, MOST_SECONDS)
        _whole("batch", self.batch, 1, BATCH)
        _whole("spread", self.spread, 0, MOST_SPREAD)
        if self.concurrency is not None and self.concurrency < LEAST_RUNS and not self.container:
            raise InvalidInput(
                "concurrency",
                self.concurrency,
                f"is fewer than the {LEAST_RUNS} that Lambda's event source can hold to",
                "use 2, or give its schedules max_running=1, or container=True and one worker process",
            )

    @property
    def functions(self) -> tuple[int, int | None]:
        """Messages that a function takes at once, and functions at the same time: together exactly ``concurrency`` runs."""
        if self.concurrency is None:
            return self.batch, None
        fitting = (n for n in range(self.batch, 0, -1) if self.concurrency % n == 0)
        batch = next(n for n in fitting if self.concurrency // n >= LEAST_RUNS or n == 1)
        return batch, self.concurrency // batch


def check_queue(name: object, field: str = "queue") -> str:
    """The name of a queue, if it is one; ``default`` is."""
    if not is_queue(name):
        raise InvalidInput(
            field,
            name,
            "is not the name of a queue",
            f"use 1 to {LONGEST_NAME} characters of a-z 0-9 -, the first and the last not -",
        )
    return str(name)


def declared_name(name: str | None) -> str | None:
    """The name of a declared queue as messages carry it: the default one has none."""
    return None if name == DEFAULT_QUEUE else name


def is_queue(name: object) -> bool:
    """Whether a queue may be called so."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _whole(field: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(field, value, "is out of range", f"use a whole number from {least:,} to {most:,}")
