"""A first package of jobs, to try the stack with: ``cdk deploy -c jobs=examples/starter``."""

from __future__ import annotations

import platform
from typing import Any

from quarterjack import Context, Queue, Retry, job

Queue("reports", concurrency=2, memory=1024)  # a queue, and a worker of this size, for what is large


@job("starter.hello")
def hello(ctx: Context, payload: dict[str, Any]) -> None:
    """Say hello; the line carries the run's id, job and tenant."""
    ctx.logger.info("hello", extra={"to": payload.get("to", "world"), "python": platform.python_version()})


@job("starter.doomed", retry=Retry(max_attempts=1))
def doomed(ctx: Context, payload: Any) -> None:  # noqa: ARG001 — a job takes both
    """Fail for good, to see where dead runs go."""
    raise RuntimeError("this job always fails")


@job("starter.report", queue="reports")
def report(ctx: Context, payload: dict[str, Any]) -> dict[str, int]:
    """Count to a number, away from the small jobs; the result is kept with the run."""
    numbers = range(1, payload.get("upto", 1_000) + 1)
    ctx.logger.info("counted", extra={"upto": len(numbers)})
    return {"sum": sum(numbers)}
