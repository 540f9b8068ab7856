"""Jobs for the acceptance tests. Each start leaves a line in a file: a witness that shares nothing with the scheduler."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from quarterjack import Context, Retry, job

SOON = Retry(max_attempts=3, base=0.5, cap=1.0)


def witness(ctx: Context, payload: dict[str, Any]) -> None:
    line = {
        "run": ctx.run_id,
        "attempt": ctx.attempt,
        "at": time.time(),
        "pid": os.getpid(),
        "due": ctx.scheduled_at.timestamp(),
        "said": payload.get("said"),
    }
    with open(payload["to"], "a") as file:  # noqa: PTH123  # one append is one write
        file.write(json.dumps(line) + "\n")


@job("test.note", retry=SOON)
def note(ctx: Context, payload: dict[str, Any]) -> None:
    witness(ctx, payload)


@job("test.note-async", retry=SOON)
async def note_async(ctx: Context, payload: dict[str, Any]) -> None:
    witness(ctx, payload)


@job("test.sleep", retry=SOON)
def sleep(ctx: Context, payload: dict[str, Any]) -> None:
    """Take ``seconds``, but only at the first start: the second is somebody's who took over."""
    first = not Path(payload["to"]).exists()
    witness(ctx, payload)
    if first:
        time.sleep(payload["seconds"])


@job("test.fail", retry=SOON)
def fail(ctx: Context, payload: dict[str, Any]) -> None:
    witness(ctx, payload)
    if ctx.attempt <= payload["failures"]:
        raise ConnectionError(f"attempt {ctx.attempt}")


@job("test.stuck", timeout=1, retry=Retry(max_attempts=1))
def stuck(ctx: Context, payload: dict[str, Any]) -> None:
    """Ignore its timeout: its thread has to be abandoned."""
    witness(ctx, payload)
    time.sleep(300)


@job("test.die", retry=SOON)
def die(ctx: Context, payload: dict[str, Any]) -> None:
    """Take the process along, as a segmentation fault would."""
    witness(ctx, payload)
    os._exit(139)
