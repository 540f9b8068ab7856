"""Spans of a run on its way: claim, send, queue wait, lease, job, settle. They are made where the process has loaded OpenTelemetry's
API, which is not loaded here: that takes 70 ms of processor time.

From process to process the trace goes as an X-Ray trace header, which the message of a run carries: Lambda and SQS know it, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

_HEADER = re.compile(r"Root=1-([0-9a-f]{8})-([0-9a-f]{24})(?:;[^;=]{1,32}=[^;=]{0,64}){0,8}")
_NOTHING: AbstractContextManager[Any] = nullcontext()
_NS = 1_000_000  # in a ms


def is_on() -> bool:
    """Whether this process makes spans."""
    return "opentelemetry.trace" in sys.modules


def span(
    name: str, parent: str | None = None, attributes: Mapping[str, str | int] | None = None
) -> AbstractContextManager[Any]:
    """A span around what is done in its context, a child of the present span or else of the trace header ``parent``.

    Its value is the span, or None; an error ends it as one.
    """
    trace = _api()
    if trace is None:
        return _NOTHING
    return _started(trace, name, parent, attributes)


@contextmanager
def _started(trace: Any, name: str, parent: str | None, attributes: Mapping[str, str | int] | None) -> Iterator[Any]:
    context = None if trace.get_current_span().get_span_context().is_valid else _context_of(trace, parent)
    with _tracer(trace).start_as_current_span(
        f"quarterjack.{name}",
        context=context,
        attributes=attributes,
        record_exception=False,  # an error's text may have a secret in it
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except BaseException as problem:
            failed(started, type(problem).__name__)
            raise


def past_span(name: str, parent: str | None, began: int, ended: int, attributes: Mapping[str, str | int]) -> None:
    """A span of what is over, from ``began`` to ``ended`` (UTC ms), a child of the trace header ``parent``. None without one."""
    trace = _api()
    context = None if trace is None else _context_of(trace, parent)
    if context is None:
        return
    started = _tracer(trace).start_span(
        f"quarterjack.{name}", context=context, start_time=began * _NS, attributes=attributes
    )
    started.end(end_time=max(began, ended) * _NS)


def failed(started: Any, kind: str) -> None:
    """Say of a span from ``span`` that what it is about failed; ``kind`` is the error's type."""
    trace = _api()
    if trace is not None and started is not None:
        started.set_attribute("error.type", kind)
        started.set_status(trace.StatusCode.ERROR)


def header() -> str | None:
    """The trace header of the present span, if it is recorded."""
    trace = _api()
    present = None if trace is None else trace.get_current_span().get_span_context()
    if present is None or not present.is_valid or not present.trace_flags.sampled:
        return None
    trace_id = f"{present.trace_id:032x}"
    return f"Root=1-{trace_id[:8]}-{trace_id[8:]};Parent={present.span_id:016x};Sampled=1"


def _api() -> Any:
    return sys.modules.get("opentelemetry.trace")


def _tracer(trace: Any) -> Any:
    return trace.get_tracer("quarterjack")


def _context_of(trace: Any, text: str | None) -> Any:
    """The context of a trace header; None without one, or if it is none or is not sampled: whoever may send messages writes it."""
    found = _HEADER.fullmatch(text or "")
    if found is None:
        return None
    words = dict(part.split("=", 1) for part in found[0].split(";"))
    parent = words.get("Parent", "")
    if words.get("Sampled") != "1" or not re.fullmatch(r"[0-9a-f]{16}", parent):
        return None
    remote = trace.SpanContext(
        trace_id=int(found[1] + found[2], 16),
        span_id=int(parent, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote)) if remote.is_valid else None
