"""Snapshots of the emulator's state: while it runs, and at its end. MiniStack itself writes at its end only, and each file by itself.

A forked child writes each snapshot: it has the state of one instant, and the emulator answers meanwhile. It writes a new folder, brings
that to the disk, and gives it its name: ``snapshot-<number>``. So there is a whole snapshot at each instant, and the next start takes the
newest one. If a snapshot cannot be written, the one before stays; the failure is told at STATUS, and tried again. Buckets' objects need
none: MiniStack writes them to files as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import json
import logging
import os
import shutil
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
STATUS = "/_quarterjack/snapshots"  # answers {"failure": …}: why the newest snapshot could not be written, or null
_LIMIT = 60  # seconds for one; then its process is ended
_NICE = 5  # it gives way to the emulator
_NAME = "snapshot-"
_MOST = 2_000  # bytes of a failure
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


def newest(folder: Path) -> Path | None:
    """The newest whole snapshot in ``folder``; None before the first."""
    return max(folder.glob(f"{_NAME}[0-9]*"), default=None)


class Snapshots:
    """Writes snapshots into ``folder`` with ``write(new_folder)``: after changes, as long as the application runs, and at its end.

    ``write`` raises what prevents a whole snapshot.
    """

    def __init__(self, write: Callable[[Path], None], folder: Path, *, period: float = PERIOD) -> None:
        self._write, self._folder, self._period = write, folder, period
        self._is_changed = False
        self._stop = asyncio.Event()
        self.failure: str | None = None  # of the last attempt

    def around(self, app: Asgi) -> Asgi:
        """``app``, which begins to write snapshots when it has started, and has written the last one before it shuts down."""

        async def application(scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
            if scope["type"] != "lifespan":
                if scope.get("path") == STATUS:
                    await self._answer(send)
                    return
                self._is_changed |= not is_read(scope)
                await app(scope, receive, send)
                return
            tasks: list[asyncio.Task[None]] = []

            async def received() -> Any:
                message = await receive()
                if message["type"] == "lifespan.shutdown":  # nothing is answered any more
                    self._stop.set()
                    await asyncio.gather(*tasks)
                    await self.take()
                return message

            async def sent(message: Any) -> None:
                if message["type"] == "lifespan.startup.complete":
                    tasks.append(asyncio.create_task(self._serve()))
                await send(message)

            await app(scope, received, sent)

        return application

    async def _answer(self, send: Callable[..., Any]) -> None:
        body = json.dumps({"failure": self.failure}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _serve(self) -> None:
        pause = self._period
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
            if self._is_changed and not self._stop.is_set():
                self._is_changed = False
                pause = max(self._period, SHARE * await self.take())
                self._is_changed |= self.failure is not None

    async def take(self) -> float:
        """Write a snapshot of this instant, and return the processor seconds that it took. ``failure`` says whether it is whole."""
        try:
            child, told = self.fork()
        except OSError as problem:  # no memory for a child
            self.failure = f"no process can be started: {problem}"
            return 0.0
        _, status, used = await asyncio.to_thread(os.wait4, child, 0)
        with os.fdopen(told, "rb") as reader:
            said = reader.read(_MOST).decode(errors="replace")
        code = os.waitstatus_to_exitcode(status)
        self.failure = None if code == 0 else said or f"its process ended with {code} (within {_LIMIT} s)"
        return float(used.ru_utime + used.ru_stime)

    def fork(self) -> tuple[int, int]:
        """Write a snapshot of this instant in a child; its process number, and the end of a pipe by which it tells its failure."""
        parent = os.getpid()
        told, tell = os.pipe()
        with (
            warnings.catch_warnings()
        ):  # Python warns of locks that other threads hold; SIGALRM ends a child that meets one
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            code = 1
            try:
                self._in_child(parent, tell)
                code = 0
            except BaseException as problem:
                with contextlib.suppress(BaseException):
                    os.write(tell, (str(problem) or type(problem).__name__).encode(errors="replace")[:_MOST])
                    log.exception("snapshot.failed")
            finally:
                os._exit(code)
        os.close(tell)
        return child, told

    def _in_child(self, parent: int, tell: int) -> None:
        gc.disable()  # else it would copy the memory that it shares
        os.closerange(3, tell)  # connections end when the emulator ends
        os.closerange(tell + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_LIMIT)
        os.nice(_NICE)
        modules: tuple[Any, Any] = (copy, json)
        modules[0].deepcopy, modules[1].dump = _itself, _dump
        new = self._folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            self._write(new)
            before = newest(self._folder)
            _complete(new, before)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)  # it may have taken the last of the room
            raise
        if os.getppid() == parent:  # else the next emulator may be reading
            number = 1 if before is None else int(before.name.removeprefix(_NAME)) + 1
            new.rename(self._folder / f"{_NAME}{number:012}")
            _sync(self._folder)
            if before is not None:
                shutil.rmtree(before, ignore_errors=True)


def _complete(new: Path, before: Path | None) -> None:
    """Add the files of services that this process has not loaded, and bring all to the disk."""
    for file in () if before is None else before.iterdir():
        if not (new / file.name).exists():
            os.link(file, new / file.name)
    for file in new.iterdir():
        _sync(file)
    _sync(new)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
