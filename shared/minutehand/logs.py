"""Logs of the processes: one JSON object a line, a stable event name, ids as fields; a job's own lines carry its run."""

from __future__ import annotations

import json
import logging
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

_run: ContextVar[dict[str, Any] | None] = ContextVar("minutehand_run", default=None)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = json.JSONEncoder(default=str).encode


@lru_cache(maxsize=2)
def _second(of: int) -> str:
    return f"{datetime.fromtimestamp(of, UTC):%Y-%m-%dT%H:%M:%S}"


class JsonFormatter(logging.Formatter):
    """A record as one JSON line: time, level, logger, event (the message), its extra fields, and those of the present run."""

    def format(self, record: logging.LogRecord) -> str:
        seconds, ms = divmod(int(record.created * 1_000), 1_000)
        line: dict[str, Any] = {
            "time": f"{_second(seconds)}.{ms:03}+00:00",
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= _run.get() or {}
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _encode(line)


class Lines(logging.StreamHandler[TextIO]):
    """Writes a line when it is logged; those of a thread that logs several ``at_once`` in one go.

    Only writing is under the lock, and every write lets other threads of the process go on first: in a worker with many of them two
    lines a run, each written by itself, took a quarter of its CPU.
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
                self.say(line)
            else:
                held.setdefault(self, []).append(line)
        except Exception:  # noqa: BLE001 (logging's own way: whoever logs is not to fail for it)
            self.handleError(record)

    def say(self, lines: str) -> None:
        """Write what is formatted."""
        self.acquire()
        try:
            self.stream.write(lines)
            self.flush()
        finally:
            self.release()


_of_thread = threading.local()


class AtOnce:
    """What this thread logs meanwhile is written at its end. For what takes no time: a line must not wait for what it tells of."""

    def __enter__(self) -> None:
        _of_thread.held = {}

    def __exit__(self, *_: object) -> None:
        held: dict[Lines, list[str]] = _of_thread.held
        del _of_thread.held
        for handler, lines in held.items():
            try:
                handler.say("".join(lines))
            except Exception:  # noqa: BLE001 (see above)
                handler.handleError(logging.makeLogRecord({"msg": "lines that were held"}))


class Fields:
    """On every line that is logged in this context meanwhile. A class, because a generator would take twice the time of each run."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _run.set(self._fields)

    def __exit__(self, *_: object) -> None:
        _run.reset(self._token)


def of_run(**fields: Any) -> Fields:
    """Put these fields on every line that this thread logs meanwhile."""
    return Fields(fields)


def configure(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send all logs of this process to a stream as JSON lines."""
    handler = Lines(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
