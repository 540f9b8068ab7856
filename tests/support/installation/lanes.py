"""Jobs for the acceptance test of queues: one in a queue of its own, one in none."""

from __future__ import annotations

from typing import Any

from quarterjack import Context, Queue, job

from tests.support.installation.work import witness

Queue("lane", concurrency=6, memory=1024, stripes=3)


@job("lanes.report", queue="lane")
def report(ctx: Context, payload: dict[str, Any]) -> None:
    witness(ctx, payload)
    if ctx.attempt <= payload.get("failures", 0):
        raise ConnectionError("again")


@job("lanes.note")
def note(ctx: Context, payload: dict[str, Any]) -> None:
    witness(ctx, payload)
