"""A job, and what it is given when it runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from minutehand.model.policies import Policies


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that puts the run on every line, beside what the line says itself."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


JobFunction = Callable[["Context", Any], Any | Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A named, registered piece of work."""

    name: str  # as schedules and submissions call it
    function: JobFunction  # plain or async, called with (ctx, payload)
    policies: Policies = field(default_factory=Policies)  # its own; a schedule may override single ones


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a job knows of the run it executes.

    >>> def nightly(ctx: Context, payload: dict) -> None:
    ...     ctx.logger.info("report.started", extra={"day": ctx.scheduled_at.date().isoformat()})
    """

    run_id: str  # id of the run: pass it to Scheduler.get_run
    idempotency_key: str  # the same over all attempts of this run: hand it to whatever must act once
    tenant: str  # whose run
    job: str  # name of the job
    schedule: str | None  # name of its schedule; None for a one-off
    scheduled_at: datetime  # the instant it is due, in the schedule's time zone
    attempt: int  # 1 for the first
    logger: RunLogger  # puts run, job and tenant on every line
    remaining: Callable[[], float | None]  # seconds until the process's time limit; None where there is none
    is_current: Callable[[], bool] = lambda: True  # False once this worker has lost the run: stop, another has it
