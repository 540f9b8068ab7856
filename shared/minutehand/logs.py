"""Logs of the processes: each line is a JSON object with a stable event name and ids as fields; a job's lines have its run's."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

_run: ContextVar[dict[str, Any] | None] = ContextVar("minutehand_run", default=None)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = json.JSONEncoder(default=str).encode


class JsonFormatter(logging.Formatter):
    """A record as one JSON line: time, level, logger, event (the message), its extra fields, and the fields of the present run."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= _run.get() or {}
        line |= own_fields(record, line)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line)


def own_fields(record: logging.LogRecord, line: Mapping[str, Any]) -> dict[str, Any]:
    """The extra fields of a record. One that would replace a field of the line, such as the run, gets a "_" at its end."""
    extra = {name: value for name, value in vars(record).items() if name not in _OWN}
    return {f"{name}_" if _is_taken(name, value, line) else name: value for name, value in extra.items()}


def _is_taken(name: str, value: object, line: Mapping[str, Any]) -> bool:
    return name in line and str(line[name]) != str(value)


class KeepRunFields(logging.Filter):
    """For handlers whose formatter is not ours: no extra field of a record replaces a field of the present run."""

    def filter(self, record: logging.LogRecord) -> bool:
        given, run = vars(record), _run.get() or {}
        for name in run:
            if name in given and _is_taken(name, given[name], run):
                given[f"{name}_"] = given.pop(name)
        return True


class Lines(logging.StreamHandler[TextIO]):
    """Writes a line when it is logged, or, within ``AtOnce``, all lines of the thread in one write.

    Only the write is under the lock. Each write releases the interpreter lock: in a worker with many threads, two single writes for
    each run took a quarter of its CPU.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        passed = self.filter(record)
        if passed:
            self.emit(record)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
            held: dict[Lines, list[str]] | None = getattr(_of_thread, "held", None)
            if held is None:
                self.write(line)
            else:
                held.setdefault(self, []).append(line)
        except Exception:  # noqa: BLE001 (as logging does: the caller of a logger must not fail)
            self.handleError(record)

    def write(self, lines: str) -> None:
        self.acquire()
        try:
            self.stream.write(lines)
            self.flush()
        finally:
            self.release()


_of_thread = threading.local()


class AtOnce:
    """Lines that this thread logs within are written at its end. Use it only for code that returns at once: it delays the lines."""

    def __enter__(self) -> None:
        _of_thread.held = {}

    def __exit__(self, *_: object) -> None:
        held: dict[Lines, list[str]] = _of_thread.held
        del _of_thread.held
        for handler, lines in held.items():
            try:
                handler.write("".join(lines))
            except Exception:  # noqa: BLE001 (see above)
                handler.handleError(logging.makeLogRecord({"msg": "lines that were held"}))


class RunFields:
    """Adds fields to every line that is logged within. A class, because a generator takes twice the time."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _run.set(self._fields)

    def __exit__(self, *_: object) -> None:
        _run.reset(self._token)


def configure(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    handler = Lines(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
