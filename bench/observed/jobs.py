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
