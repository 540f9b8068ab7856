"""What is scheduled: a job that does nothing but say that it began."""

from __future__ import annotations

import threading
from typing import Any

from quarterjack import Context, job

from bench.observed.witness import note

NAME = "bench.observed"


@job(NAME)
def observed(ctx: Context, payload: Any) -> None:
    """What is measured is the scheduler."""
    note(str(payload), int(ctx.scheduled_at.timestamp() * 1_000))


LASTS = "bench.lasts"


@job(LASTS)
def lasts(ctx: Context, payload: Any) -> None:
    """A second in which it keeps a slot and no processor."""
    note(str(payload), int(ctx.scheduled_at.timestamp() * 1_000))
    threading.Event().wait(1)


CHAIN, LINK = "bench.chain", "bench.link"


@job(LINK)
def link(_: Context, payload: Any) -> Any:
    """A child that does nothing."""
    return payload


@job(CHAIN)
def chain(ctx: Context, payload: int) -> int:
    """So many children, one after the other: each is submitted when the one before has ended."""
    return sum(ctx.gather([ctx.submit(LINK, 1, step=f"link-{number}")])[0] for number in range(payload))


SLEEPER = "bench.waits"


@job(SLEEPER)
def sleeper(ctx: Context, _: Any) -> Any:
    """Waits for a signal."""
    return ctx.wait_for("go", timeout=86_400)
