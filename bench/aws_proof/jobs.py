"""The jobs that are deployed. Each start leaves a line in the worker's log: a witness that shares nothing with the ledger.

Nothing but the package is imported: the worker has this folder without the rest of the bench.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from quarterjack import Context, Retry, job

BEGAN = "proof.began"  # the event of the line
NOTE, QUIET, KILLED, DOOMED = "proof.note", "proof.quiet", "proof.killed", "proof.doomed"


def _witness(ctx: Context, payload: Any) -> None:
    line = {
        "event": BEGAN,
        "whose": str(payload),
        "due_ms": int(ctx.scheduled_at.timestamp() * 1_000),
        "began_ms": time.time() * 1e3,
        "run_id": ctx.run_id,
    }
    print(json.dumps(line), flush=True)  # not by a logger: the embedded cloud's runtime shows INFO of none


@job(NOTE)
def note(ctx: Context, payload: Any) -> None:
    """Say that it began."""
    _witness(ctx, payload)


@job(QUIET)
def quiet(ctx: Context, payload: Any) -> None:
    """Do nothing: of the ramp, whose lines would cost more than its runs. The ledger tells when it began."""


@job(KILLED, retry=Retry(max_attempts=3, base=1.0, cap=2.0))
def killed(ctx: Context, payload: Any) -> None:
    """Take the process along at the first attempt, as a segmentation fault would."""
    _witness(ctx, payload)
    if ctx.attempt == 1:
        os._exit(139)


@job(DOOMED, retry=Retry(max_attempts=1))
def doomed(ctx: Context, payload: Any) -> None:
    """Fail for good: the alarm of dead runs is to arrive."""
    _witness(ctx, payload)
    raise RuntimeError("this job always fails")
