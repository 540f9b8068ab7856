"""The jobs of a siege. Each says in a file that the scheduler does not know when it starts, acts and ends."""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quarterjack import Context, Retry, job

from bench.hurried.work import OFTEN, say

STEPS = ("reserve", "charge")
TWICE = Retry(max_attempts=2, base=0.2, cap=0.5)


@contextlib.contextmanager
def witnessed(ctx: Context, payload: dict[str, Any]) -> Iterator[float]:
    """Say start and end; how many seconds the attempt shall take."""
    say(payload, ctx, "start", due=ctx.scheduled_at.timestamp())
    low, high = payload["takes"]
    try:
        yield random.Random(f"{ctx.run_id} {ctx.attempt}").uniform(low, high)
    except BaseException as problem:
        say(payload, ctx, "raise", error=type(problem).__name__)
        raise
    say(payload, ctx, "end")


@job("chaos.note", retry=OFTEN)
def note(ctx: Context, payload: dict[str, Any]) -> None:
    with witnessed(ctx, payload) as seconds:
        time.sleep(seconds)


@job("chaos.polite", retry=OFTEN)
def polite(ctx: Context, payload: dict[str, Any]) -> None:
    """Look around meanwhile: stop when cancelled, or when another worker has the run."""
    with witnessed(ctx, payload) as seconds:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ctx.raise_if_cancelled()
            time.sleep(0.1)


@job("chaos.once", delivery="at_most_once")
def once(ctx: Context, payload: dict[str, Any]) -> None:
    with witnessed(ctx, payload) as seconds:
        time.sleep(seconds)


@job("chaos.steps", delivery="exactly_once", retry=OFTEN)
def steps(ctx: Context, payload: dict[str, Any]) -> None:
    """Two steps, each with an effect that can be told from all others, and one that its key makes harmless."""
    with witnessed(ctx, payload) as seconds:
        for name in STEPS:
            time.sleep(seconds / 2)
            token = ctx.step(name, lambda name=name: effect(ctx, payload, name))  # type: ignore[misc]  # mypy and defaults
            say(payload, ctx, "recorded", step=name, token=token)


def effect(ctx: Context, payload: dict[str, Any], step: str) -> str:
    token = uuid.uuid4().hex
    say(payload, ctx, "effect", step=step, token=token)
    key = f"{ctx.idempotency_key}-{step}".replace("/", "_")
    with contextlib.suppress(FileExistsError):
        Path(payload["keyed"], key).touch(exist_ok=False)
        say(payload, ctx, "keyed", step=step)
    return token


@job("chaos.flaky", retry=Retry(max_attempts=100, base=0.2, cap=1.0))
def flaky(ctx: Context, payload: dict[str, Any]) -> None:
    """Fail twice."""
    with witnessed(ctx, payload) as seconds:
        time.sleep(seconds)
        if ctx.attempt <= 2:
            raise ConnectionError("not yet")


@job("chaos.doomed", retry=TWICE)
def doomed(ctx: Context, payload: dict[str, Any]) -> None:
    """Never work."""
    with witnessed(ctx, payload):
        raise ValueError("never")
