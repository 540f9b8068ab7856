"""A job, and what it is given when it runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from minutehand.domain.policies import Policies
from minutehand.domain.quick import quick

_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class RunLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that puts the run on every line, beside what the line says itself.

    A field that logging keeps for itself ("name", "module" …) gets a "_" behind it instead of an error.
    """

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        said = {f"{key}_" if key in _TAKEN else key: value for key, value in (kwargs.get("extra") or {}).items()}
        kwargs["extra"] = {**(self.extra or {}), **said}
        return msg, kwargs


JobFunction = Callable[["Context", Any], Any | Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A named, registered piece of work."""

    name: str  # as schedules and submissions call it
    function: JobFunction  # plain or async, called with (ctx, payload)
    policies: Policies = field(default_factory=Policies)  # its own; a schedule may override single ones
    queue: str | None = None  # name of the declared queue that its runs go to; None: the default one
    check: Callable[[Any], object] | None = None  # raises ValueError for a payload that it could not work with


class JobEffects(Protocol):
    """What a context does for its job; the worker implements it under the run's fence."""

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """See ``Context.step``."""

    def checkpoint(self, state: Any) -> None:
        """See ``Context.checkpoint``."""

    @property
    def resume(self) -> Any:
        """See ``Context.resume``."""

    def progress(self, fraction: float, stage: str | None = None) -> None:
        """See ``Context.progress``."""

    @property
    def cancelled(self) -> bool:
        """See ``Context.cancelled``."""

    def raise_if_cancelled(self) -> None:
        """See ``Context.raise_if_cancelled``."""


@quick
@dataclass(frozen=True, kw_only=True)
class Context:
    """What a job knows of the run it executes, and what it can do besides its own work.

    >>> def nightly(ctx: Context, payload: dict) -> None:
    ...     ctx.logger.info("report.started", extra={"day": ctx.scheduled_at.date().isoformat()})
    """

    run_id: str  # id of the run: pass it to Scheduler.get_run
    idempotency_key: str  # the same over all attempts of this run: hand it to whatever must act once
    tenant: str  # whose run
    job: str  # name of the job
    schedule: str | None  # name of its schedule; None for a one-off
    scheduled_at: datetime  # the instant it is due, in the schedule's time zone; a replay has its original's
    attempt: int  # 1 for the first
    logger: RunLogger  # puts run, job and tenant on every line
    remaining: Callable[[], float | None]  # seconds until the process's time limit; None where there is none
    effects: JobEffects  # what the methods below call
    missed: bool = False  # the scheduler came to its fire more than a minute late: an outage, a throttle, a pause
    backfill: str | None = None  # id of the backfill that it belongs to

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run ``function`` once per run and remember its JSON result (64 KB at most): a later attempt gets it back instead.

        An ``async`` function is awaited: ``await ctx.step("charge", charge)``. A step whose process dies between its effect and
        its record runs again; ``idempotency_key`` closes that gap where the effect happens. Raises LeaseLost if another worker
        has the run, RunCancelled if its owner cancelled it, InvalidInput for a result that is not JSON.

        Threads and tasks that come to the same step at once take turns: one runs it, the others get its result.
        """
        return self.effects.step(name, function)

    def checkpoint(self, state: Any) -> None:
        """Keep ``state`` (JSON, 5 MB at most) for the next attempt.

        On Lambda, with the function's time running out, the slice ends here and the run goes on in a new one, spending no attempt.
        ``raise Continue`` after it ends a slice at will.
        """
        self.effects.checkpoint(state)

    @property
    def resume(self) -> Any:
        """The last checkpoint of this run; None if there is none."""
        return self.effects.resume

    def progress(self, fraction: float, stage: str | None = None) -> None:
        """Say how far the job is (0 to 1) and what it is at; shown by ``get_run`` from the next heartbeat on."""
        self.effects.progress(fraction, stage)

    @property
    def cancelled(self) -> bool:
        """Whether the run's owner asked for its cancellation, as of the last heartbeat."""
        return self.effects.cancelled

    def raise_if_cancelled(self) -> None:
        """Raise RunCancelled if so, and LeaseLost if another worker may have the run."""
        self.effects.raise_if_cancelled()
