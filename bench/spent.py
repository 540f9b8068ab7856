"""Where the processor time of ticker and worker over sockets goes: by call of a service, and by step.

python -m bench spent [--fires 5000]

Functions are wrapped, and the processor clock of the thread is read before and after each: waiting is not in the figures. What a
function calls that is wrapped, too, counts there. ``rest``: the process's time beside all of these: threads and their hand-overs, the
loop of the worker, what is not wrapped. Services answer from a child process, and log lines are written to nowhere, as in ``sockets``.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from quarterjack import logs
from quarterjack.aws import transport
from quarterjack.aws.connections import Connections
from quarterjack.aws.session import Signer
from quarterjack.daemon import worker_shell
from quarterjack.ticker import tick
from quarterjack.worker import pipeline
from quarterjack.worker.execution import executor

from bench import sockets
from bench.report import Table, write

_KINDS: tuple[tuple[object, str, str], ...] = (  # of a call: where a function is, its name, what it does
    (transport, "_encode", "JSON"),
    (transport, "_parsed", "JSON"),
    (Signer, "headers", "signing"),
    (Connections, "post", "HTTP and kernel"),
)
_STEPS: tuple[tuple[object, str, str], ...] = (
    (worker_shell, "receive", "receive"),
    (pipeline, "partition_batch", "partition"),
    (pipeline, "_admit", "admit"),
    (pipeline, "_take_permits", "permits"),
    (pipeline, "_lease", "lease"),
    (pipeline, "_announce", "announce"),
    (executor, "perform", "perform"),
    (pipeline, "settle_runs", "settle"),
    (pipeline, "finish", "finish"),
    (logs.Lines, "emit", "log lines"),
    (logs.Lines, "write", "log lines"),
    (tick, "advance_chains", "advance chains"),
)
_OF_CALL = ("JSON", "signing", "HTTP and kernel", "our own")


class Book:
    """Seconds of processor time and entries, by call or step and by kind, as each thread has booked them."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._all: list[dict[tuple[str, str], list[float]]] = []

    def wrapped(self, function: Callable[..., Any], name: str, kind: str = "") -> Callable[..., Any]:
        """A function whose time is booked to ``name``; without one, as this kind, to the function that it is called within."""

        def call(*given: Any, **named: Any) -> Any:
            mine = self._mine()
            stack = mine.stack
            what = name or (stack[-1][0] if stack else "-")
            stack.append([what, 0.0])
            began = time.thread_time()
            try:
                return function(*given, **named)
            finally:
                used = time.thread_time() - began
                booked = mine.booked[what, kind]
                booked[0] += used - stack.pop()[1]
                booked[1] += 1
                if stack:
                    stack[-1][1] += used

        return call

    def call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``Transport.call``, booked by its operation."""
        known: dict[str, Callable[..., Any]] = {}

        def call(this: object, operation: str, *given: Any, **named: Any) -> Any:
            booked = known.get(operation) or known.setdefault(operation, self.wrapped(function, operation, "our own"))
            return booked(this, operation, *given, **named)

        return call

    def _mine(self) -> Any:
        if not hasattr(self._of_thread, "stack"):
            self._of_thread.stack = []
            self._of_thread.booked = defaultdict(lambda: [0.0, 0.0])
            self._all.append(self._of_thread.booked)
        return self._of_thread

    def sums(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Seconds and entries, the largest first."""
        found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for booked in self._all:
            for key, (seconds, entries) in booked.items():
                found[key][0] += seconds
                found[key][1] += entries
        return {key: (each[0], each[1]) for key, each in sorted(found.items(), key=lambda item: -item[1][0])}


@contextmanager
def booked() -> Iterator[Book]:
    """Book all that is done within."""
    book = Book()
    with ExitStack() as stack:
        stack.enter_context(patch.object(transport.Transport, "call", book.call(transport.Transport.call)))
        for place, name, kind in _KINDS:
            stack.enter_context(patch.object(place, name, book.wrapped(getattr(place, name), "", kind)))
        for place, name, step in _STEPS:
            stack.enter_context(patch.object(place, name, book.wrapped(getattr(place, name), step)))
        yield book


def measure(part: str, run: Callable[[], object], fires: int) -> list[dict[str, Any]]:
    """The rows of a part, microseconds a fire."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    with booked() as book:
        run()
    used, after = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF)
    sums = book.sums()
    rest = used - sum(seconds for seconds, _ in sums.values())
    calls = [call for call, kind in sums if kind == "our own"]
    rows = [_row(part, f"call {call}", call, fires, sums) for call in calls]
    rows += [_row(part, step, step, fires, sums) for step, kind in sums if not kind]
    rows.append(_blank(part, "rest", fires, rest))
    rows.append(_blank(part, "all", fires, used))
    rows.append(_blank(part, "all: of it in the kernel", fires, after.ru_stime - before.ru_stime))
    return rows


def _row(part: str, name: str, of: str, fires: int, sums: dict[tuple[str, str], tuple[float, float]]) -> dict[str, Any]:
    kinds = {kind: sums.get((of, kind), (0.0, 0.0))[0] for kind in _OF_CALL} if (of, "our own") in sums else {}
    seconds, entries = sum(kinds.values()) or sums[of, ""][0], sums[of, "our own" if kinds else ""][1]
    times = {"a fire": round(entries / fires, 3)}
    return _blank(part, name, fires, seconds) | times | {k: round(s / fires * 1e6, 1) for k, s in kinds.items()}


def _blank(part: str, name: str, fires: int, seconds: float) -> dict[str, Any]:
    return {"part": part, "what": name, "a fire": "", "us a fire": round(seconds / fires * 1e6, 1)} | dict.fromkeys(
        _OF_CALL, ""
    )


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench spent")
    parser.add_argument("--fires", type=int, default=5_000)
    fires = parser.parse_args(arguments).fires
    parts: dict[str, Callable[[], object]] = {
        "tick": lambda: sockets.measure_tick(sockets.HOURLY, fires),
        "work": lambda: sockets.measure_work(fires),
    }
    with Path(os.devnull).open("w", buffering=1) as nowhere:
        logs.configure(stream=nowhere)
        sockets.measure_work(100)  # imports and caches are no part of a warm process
        sockets.measure_tick(sockets.HOURLY, 100)
        found = {part: measure(part, run, fires) for part, run in parts.items()}
        logging.getLogger().handlers.clear()
    write("spent", [row for rows in found.values() for row in rows])
    for part, rows in found.items():
        Table(f"{part}: processor time by call and step", rows).show()
