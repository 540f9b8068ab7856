"""Logs of the processes: one JSON object a line, a stable event name, ids as fields; a job's own lines carry its run."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

_run: ContextVar[dict[str, Any] | None] = ContextVar("minutehand_run", default=None)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON line: time, level, logger, event (the message), its extra fields, and those of the present run."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= _run.get() or {}
        line |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


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
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("botocore").setLevel(logging.WARNING)
