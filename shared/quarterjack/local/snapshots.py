"""Snapshots of the emulator's state while it runs. MiniStack itself writes its state when it is told to end, and at no other time.

A forked child writes each snapshot: it has the state of one instant, and the emulator answers meanwhile. The files take the places of
those of the snapshot before once all are written. Buckets' objects need none: MiniStack writes them to files as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import json
import logging
import os
import signal
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import IO, Any

Scope = dict[str, Any]
Asgi = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Awaitable[None]]

log = logging.getLogger(__name__)

PERIOD = 1.0  # seconds between two snapshots, at least
SHARE = 4  # times the processor seconds of a snapshot pass before the next: all take a fifth of a core at most
_LIMIT = 60  # seconds for one; then its process is ended
_NICE = 5  # it gives way to the emulator
_READS = (
    "BatchGet",
    "Describe",
    "Get",
    "List",
    "Query",
    "Scan",
    "Head",
    "ReceiveMessage",
)  # a receiver writes to the ledger next


class Snapshots:
    """Writes the state to ``folder`` with ``write(folder)`` after changes, as long as the application runs."""

    def __init__(self, write: Callable[[Path], None], folder: Path, *, period: float = PERIOD) -> None:
        self._write, self._folder, self._period = write, folder, period
        self._is_changed = False
        self._stop = asyncio.Event()

    def around(self, app: Asgi) -> Asgi:
        """``app``, which begins to write snapshots when it has started, and has ended the last one before it shuts down."""

        async def application(scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
            if scope["type"] != "lifespan":
                self._is_changed |= not is_read(scope)
                await app(scope, receive, send)
                return
            tasks: list[asyncio.Task[None]] = []

            async def received() -> Any:
                message = await receive()
                if message["type"] == "lifespan.shutdown":  # the application writes its last state now
                    self._stop.set()
                    await asyncio.gather(*tasks)
                return message

            async def sent(message: Any) -> None:
                if message["type"] == "lifespan.startup.complete":
                    tasks.append(asyncio.create_task(self._serve()))
                await send(message)

            await app(scope, received, sent)

        return application

    async def _serve(self) -> None:
        pause = self._period
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
            if self._is_changed and not self._stop.is_set():
                self._is_changed = False
                with contextlib.suppress(OSError):  # no memory for a child: the next may have it
                    _, _, used = await asyncio.to_thread(os.wait4, self.fork(), 0)
                    pause = max(self._period, SHARE * (used.ru_utime + used.ru_stime))

    def fork(self) -> int:
        """Write a snapshot of this instant in a child; its process number."""
        parent = os.getpid()
        with (
            warnings.catch_warnings()
        ):  # Python warns of locks that other threads hold; SIGALRM ends a child that meets one
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                self._in_child(parent)
            except Exception:
                log.exception("snapshot.failed")
            finally:
                os._exit(0)
        return child

    def _in_child(self, parent: int) -> None:
        gc.disable()  # else it would copy the memory that it shares
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # connections end when the emulator ends
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LIMIT)
        os.nice(_NICE)
        modules: tuple[Any, Any] = (copy, json)
        modules[0].deepcopy, modules[1].dump = _itself, _dump
        new = self._folder.with_name(f"{self._folder.name}.new")
        new.mkdir(exist_ok=True)
        self._write(new)
        self._folder.mkdir(exist_ok=True)
        if os.getppid() == parent:  # else the next emulator may be reading
            for file in new.glob("*.json"):
                file.replace(self._folder / file.name)


# MiniStack copies its state before it writes it, and writes with the slow one of Python's encoders. In the child, where nothing else
# runs, neither is needed: 10,000 rows take 0.05 s instead of 0.7.


def _itself(value: Any, memo: Any = None) -> Any:  # noqa: ARG001 (as copy.deepcopy)
    return value


def _dump(value: Any, file: IO[str], **options: Any) -> None:
    file.write(json.dumps(value, **options))


def is_read(scope: Scope) -> bool:
    """Whether a request changes nothing that another request does not tell of."""
    for name, value in scope.get("headers", ()):
        if name.lower() == b"x-amz-target":
            operation = value.decode("latin-1").rpartition(".")[2]
            return bool(operation.startswith(_READS))
    return scope.get("method") in ("GET", "HEAD")
