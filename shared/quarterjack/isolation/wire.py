"""Wire: what worker and child say to each other, one JSON object a line; and the surroundings that the one passes to the other.

The preloaded parent starts before the attempt does. Whatever the worker changed since then (credentials above all) reaches the attempt
by ``capture_surroundings`` and ``apply_surroundings``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from quarterjack import errors
from quarterjack.domain.run import Failure
from quarterjack.errors import InvalidInput, ItemRefused, QuarterjackError
from quarterjack.posix import resource
from quarterjack.worker.stages import AttemptResult, Failed, Parked, Returned, SliceEnded

ASKED = (
    *("keep", "commit", "beside", "keep_large", "get_large", "secret", "remaining"),
    *("now", "signal", "time_out", "submit_child", "ends"),
    *("check_map", "check_items", "map_state", "put_items", "begin_map"),
)  # the methods of a RunStore
_BYTES = "~bytes"  # the key of a packed one: no type of DynamoDB's is called so
CANCELLED = 0  # the byte among the flags that says so
FLAGS = 1  # bytes of shared memory
_CHUNK = 1 << 20  # bytes read at once: what a job returns is mostly smaller
_SHOWN = 100  # characters of a refused value that travel
_KINDS = {kind.__name__: kind for kind in (Failed, Returned, SliceEnded, Parked)}
_PLAIN = ("Misconfigured", "Unavailable")  # errors that are made of their text
_LIMITS = {name: number for name, number in vars(resource).items() if name.startswith("RLIMIT_")}


def line(said: Mapping[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def read_line(lines: BinaryIO) -> dict[str, Any] | None:
    """The next line, or None if the other end is gone."""
    text = lines.readline()
    return json.loads(text) if text else None


class LineReader:
    """The messages that come over a socket."""

    def __init__(self, source: socket.socket) -> None:
        self._source, self._partial = source, b""
        self.is_over = False  # no more will come

    def read(self) -> list[dict[str, Any]]:
        """The complete messages of what can be read at once; waits until something can."""
        return self._read(0)

    def rest(self) -> list[dict[str, Any]]:
        """The complete messages that are there already."""
        messages = list[dict[str, Any]]()
        while not self.is_over:
            try:
                messages += self._read(socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
        return messages

    def _read(self, flags: int) -> list[dict[str, Any]]:
        try:
            chunk = self._source.recv(_CHUNK, flags)
        except ConnectionError:
            chunk = b""
        self.is_over = not chunk
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        return [json.loads(text) for text in lines]


def packed_bytes(value: Any) -> Any:
    """A job's items of DynamoDB with texts in place of bytes, JSON-able."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {_BYTES: b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {key: packed_bytes(each) for key, each in value.items()}
    return [packed_bytes(each) for each in value] if isinstance(value, (list, tuple)) else value


def unpacked_bytes(value: Any) -> Any:
    """The reverse of ``packed_bytes``."""
    if isinstance(value, dict):
        return (
            b64decode(value[_BYTES]) if value.keys() == {_BYTES} else {k: unpacked_bytes(v) for k, v in value.items()}
        )
    return [unpacked_bytes(each) for each in value] if isinstance(value, list) else value


def pack_ended(ended: AttemptResult) -> dict[str, Any]:
    """How an attempt ended, JSON-able."""
    return {"kind": type(ended).__name__, **asdict(ended)}


def unpack_ended(packed: dict[str, Any]) -> AttemptResult:
    given = dict(packed)
    kind = _KINDS[given.pop("kind")]
    if given.get("failure") is not None:
        given["failure"] = Failure(**given["failure"])
    if kind is Parked:
        given["asked"] = tuple(given["asked"])
    ended: AttemptResult = kind(**given)
    return ended


def pack_error(problem: Exception) -> dict[str, Any]:
    """An error of the worker's, for the job to see: a class of ``errors`` and its arguments."""
    name = type(problem).__name__
    if isinstance(problem, InvalidInput):
        given = [problem.field, str(problem.value)[:_SHOWN], problem.problem, problem.remedy]
        return {"kind": "InvalidInput", "given": given}
    if isinstance(problem, ItemRefused):
        return {"kind": name, "given": [problem.index, problem.action, problem.table]}
    if name in _PLAIN:
        return {"kind": name, "given": [str(problem)]}
    return {"kind": "QuarterjackError", "given": [f"{name}: {problem}"]}


def unpack_error(packed: dict[str, Any]) -> QuarterjackError:
    """The reverse of ``pack_error``; an error that is none of ours is a QuarterjackError."""
    problem: QuarterjackError = getattr(errors, packed["kind"])(*packed["given"])
    return problem


def capture_surroundings() -> dict[str, Any]:
    """The surroundings of this process, JSON-able."""
    try:
        directory: str | None = str(Path.cwd())
    except FileNotFoundError:  # it was removed
        directory = None
    return {
        "path": sys.path,
        "environment": dict(os.environ),
        "directory": directory,
        "limits": {name: resource.getrlimit(number) for name, number in _LIMITS.items()},
    }


def apply_surroundings(captured: dict[str, Any]) -> None:
    """Give this process the surroundings of the one that captured them. Raises OSError or ValueError where it may not have them."""
    sys.path[:] = captured["path"]
    os.environ.clear()
    os.environ.update(captured["environment"])
    time.tzset()
    if captured["directory"] is not None:
        os.chdir(captured["directory"])
    for name, limits in captured["limits"].items():
        if resource.getrlimit(_LIMITS[name]) != tuple(limits):
            resource.setrlimit(_LIMITS[name], tuple(limits))
