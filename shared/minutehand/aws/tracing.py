"""One OpenTelemetry span for each call, where OpenTelemetry's API is in use."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NAMES = {"dynamodb": "DynamoDB", "sqs": "SQS"}
_NOTHING: AbstractContextManager[object] = nullcontext()


def span(service: str, operation: str) -> AbstractContextManager[object]:
    """The span around one call, named and described by OpenTelemetry's conventions for AWS; an error ends it as one.

    A process whose spans anybody collects has loaded the API. It is not loaded here: that takes 70 ms of processor time.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return _NOTHING
    name, method = _NAMES.get(service, service), operation.title().replace("_", "")
    started: AbstractContextManager[object] = trace.get_tracer("minutehand").start_as_current_span(
        f"{name}.{method}",
        kind=trace.SpanKind.CLIENT,
        attributes={"rpc.system": "aws-api", "rpc.service": name, "rpc.method": method},
    )
    return started
