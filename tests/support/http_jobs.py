"""HTTP jobs under a harness."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from quarterjack import Registry, Run
from quarterjack.ready_jobs.http import http_job
from quarterjack.testing import Harness

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


LOCAL = {"networks": ("127.0.0.0/8",)}


def harness_of(url: str | None, **declared: Any) -> Harness:
    jobs = Registry()
    http_job("call", url=url, registry=jobs, **(LOCAL | declared))
    return Harness(jobs, at=NOON)


def once(harness: Harness, payload: object = None, **options: Any) -> Run:
    """One run to its end."""
    run = harness.scheduler.submit("call", payload, idempotency_key="once", **options)
    harness.advance(minutes=30)
    return harness.scheduler.get_run(run.id)
