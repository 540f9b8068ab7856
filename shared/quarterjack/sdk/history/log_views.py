"""Return values of the SDK about the log lines of a run, masked as the errors of its job are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from quarterjack.domain.redaction import MASK, Redact
from quarterjack.domain.times import from_ms
from quarterjack.ports.run_logs import LogLineRow
from quarterjack.sdk.views import Page

# Of a line: what other fields of ``LogLine`` say, and what a function's logger writes on every line.
_SAID = frozenset({"time", "timestamp", "level", "logger", "event", "message", "traceback", "exception", "run_id"})
_ALWAYS = frozenset(
    {"tenant", "job", "location", "service", "cold_start", "sampling_rate", "xray_trace_id", "exception_name"}
    | {"function_name", "function_memory_size", "function_arn", "function_request_id", "stack_trace"}
)
_DEEPEST = 20  # levels of data in a field


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One log line about a run: of its job, or of the processes that had it."""

    at: datetime  # UTC
    source: str  # the process that wrote it, or the function without the installation's prefix
    level: str | None  # "INFO", "WARNING" …
    logger: str | None  # name of the logger
    event: str  # the message; of Quarterjack's own lines a stable name: "run.started", "run.ended"
    fields: Mapping[str, Any] = field(default_factory=dict)  # its further fields
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogPage(Page):
    """Log lines of a run in order of time; all earlier than ``searched_to`` were looked at."""

    sources: Sequence[str] = ()  # names of the logs that there are
    missing: str | None = None  # why lines may be missing, and what to do; None: nothing is known to be missing


def line_view(row: LogLineRow, redact: Redact, payload: str | None) -> LogLine:
    """A line as callers get it. Secrets were masked when it was written; here what errors must not repeat is masked, too.

    ``payload`` is JSON text: its values under sensitive names are masked.
    """

    def text(name: str) -> str | None:
        value = row.fields.get(name)
        return None if value is None else redact.text(str(value), payload)

    rest = {name: value for name, value in row.fields.items() if name not in _SAID and name not in _ALWAYS}
    return LogLine(
        at=from_ms(row.at),
        source=row.source,
        level=text("level"),
        logger=text("logger"),
        event=text("event") or text("message") or "",
        fields=_masked(rest, redact, payload, 0),
        traceback=text("traceback") or text("exception"),
    )


def _masked(value: Any, redact: Redact, payload: str | None, depth: int) -> Any:
    if isinstance(value, str):
        return redact.text(value, payload)
    if isinstance(value, (dict, list)) and depth >= _DEEPEST:
        return redact.text(str(value), payload)
    if isinstance(value, dict):
        return {
            name: MASK if redact.hides(name) and inner is not None else _masked(inner, redact, payload, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, redact, payload, depth + 1) for inner in value]
    return value
