"""Perform: call the job. Whatever it raises becomes a Failure; the process survives all that Python can survive."""

from __future__ import annotations

import asyncio
import inspect
import json
import traceback
from typing import Any

from minutehand.model.job import Context, Job
from minutehand.model.run import Failure

MESSAGE = 2_000  # characters kept of an error's message
TRACEBACK = 16_000  # characters kept of a traceback: its end, where the cause is


def perform(job: Job, context: Context, payload: str | None) -> Failure | None:
    """Run one attempt; None if the job returned."""
    try:
        result = job.function(context, json.loads(payload or "null"))
        if inspect.isawaitable(result):
            asyncio.run(_awaited(result))
    except (Exception, SystemExit, asyncio.CancelledError) as problem:  # noqa: BLE001 (a job's sys.exit() is its failure too)
        return failure_of(problem)
    return None


async def _awaited(result: Any) -> Any:
    return await result


def failure_of(problem: BaseException) -> Failure:
    """An exception as bounded text."""
    text = "".join(traceback.format_exception(problem))
    return Failure(kind=type(problem).__name__, message=str(problem)[:MESSAGE], traceback=text[-TRACEBACK:])
