"""A queue: a lane of its own for the runs of some jobs, with workers of its own size and number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from minutehand.errors import InvalidInput, Misconfigured

DEFAULT_QUEUE = "default"  # the one that every installation has; nobody declares it
LONGEST_NAME = 32  # of a queue: `<prefix>-worker-<name>` is a function's name, which has 64 characters at the most
MOST_RUNS = 1_000  # at the same time in a queue's functions: what Lambda's event source can hold to
LEAST_RUNS = 2  # likewise
BATCH = 10  # messages that a function takes at once at the most
MOST_MEMORY = 10_240  # MB of a function
LEAST_MEMORY = 128  # MB
MOST_SECONDS = 900  # of a function
MOST_SPREAD = 86_400  # seconds
MOST_STRIPES = 100  # SQS queues of one queue: twelve million messages in flight
LEAST_POLLERS, MOST_KEPT, MOST_POLLERS = 2, 200, 2_000  # provisioned ones of a stripe's event source: as Lambda has it

_NAME = re.compile(rf"[a-z0-9](?:[a-z0-9-]{{0,{LONGEST_NAME - 2}}}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A declared queue. ``Registry.queue`` makes and registers it; checked on construction."""

    name: str  # as jobs and schedules call it
    concurrency: int | None = None  # runs at the same time in the stack, or in each worker process; None: no limit
    memory: int = 512  # MB of its worker function
    timeout: int = MOST_SECONDS  # seconds of its worker function
    batch: int = BATCH  # runs that one function takes at once: they share its memory
    stripes: int = 1  # SQS queues that its runs are spread over: none holds more than 120,000 messages in flight
    pollers: int | None = None  # kept for each stripe's function; None: Lambda's standard polling
    most_pollers: int | None = None  # that each stripe's may grow to; None: Lambda's 200, or as many as are kept
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
        _whole("stripes", self.stripes, 1, MOST_STRIPES)
        check_pollers(self.pollers, self.most_pollers, concurrency=self.concurrency)
        if self.concurrency is not None and not self.container:
            self._check_concurrency(self.concurrency)

    def _check_concurrency(self, runs: int) -> None:
        """Refuse what Lambda's event sources, one a stripe, cannot hold to."""
        if runs < LEAST_RUNS:
            raise InvalidInput(
                "concurrency",
                runs,
                f"is fewer than the {LEAST_RUNS} that Lambda's event source can hold to",
                "use 2, or give its schedules max_running=1, or container=True and one worker process",
            )
        if runs % self.stripes or runs // self.stripes < LEAST_RUNS:
            raise InvalidInput(
                "concurrency",
                runs,
                f"cannot be shared by {self.stripes} stripes, each of which has an event source of its own",
                f"use a multiple of {self.stripes}, {LEAST_RUNS * self.stripes} at the least, or fewer stripes",
            )

    @property
    def functions(self) -> tuple[int, int | None]:
        """Messages that a function takes at once, and functions of each stripe at the same time: exactly ``concurrency`` runs in all."""
        if self.concurrency is None:
            return self.batch, None
        runs = self.concurrency // self.stripes
        fitting = (n for n in range(self.batch, 0, -1) if runs % n == 0)
        batch = next(n for n in fitting if runs // n >= LEAST_RUNS or n == 1)
        return batch, runs // batch


def check_pollers(kept: int | None, most: int | None, *, concurrency: int | None, limit: str = "concurrency") -> None:
    """Refuse provisioned pollers that Lambda would: out of range, or beside ``limit``, its maximum concurrency."""
    if kept is None and most is None:
        return
    field = "most_pollers" if kept is None else "pollers"
    if concurrency is not None:
        raise InvalidInput(
            field,
            most if kept is None else kept,
            f"and {limit} exclude each other: Lambda holds to one of them",
            f"leave out {limit}, or the pollers; most_pollers bounds the functions too, ten for each",
        )
    if kept is None:
        raise InvalidInput(field, most, "says nothing without pollers", "give pollers, those that are always kept")
    _whole("pollers", kept, LEAST_POLLERS, MOST_KEPT)
    if most is not None:
        _whole("most_pollers", most, kept, MOST_POLLERS)


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


def striped(text: str | None) -> Mapping[str | None, int]:
    """How many stripes a queue has, where it has several, from a text as ``default=4,reports=2``. None is the default queue.

    Raises Misconfigured, in the name of the variable that the text comes from.
    """
    said = [part.partition("=") for part in text.split(",")] if text else []
    try:
        found = {declared_name(check_queue(name.strip())): int(number) for name, _, number in said}
    except ValueError as problem:
        raise Misconfigured(f"MINUTEHAND_STRIPES={text!r}: {problem}; use default=4,reports=2") from problem
    if not all(1 <= number <= MOST_STRIPES for number in found.values()):
        raise Misconfigured(f"MINUTEHAND_STRIPES={text!r} is out of range; use 1 to {MOST_STRIPES} for each queue")
    return found


def striped_text(stripes: Mapping[str | None, int]) -> str | None:
    """The text behind ``striped``; None if each queue has one."""
    several = (f"{name or DEFAULT_QUEUE}={number}" for name, number in stripes.items() if number > 1)
    return ",".join(several) or None


def is_queue(name: object) -> bool:
    """Whether a queue may be called so."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _whole(field: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidInput(field, value, "is out of range", f"use a whole number from {least:,} to {most:,}")
