"""A job, and the context that it gets when it runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from quarterjack.domain.names import SHORTEST_SECRET, callback_token, check_name
from quarterjack.domain.payload import FittedPayload, TypedPayload
from quarterjack.domain.policies import DeliveryWord, Policies, PriorityWord, Retry, overrides
from quarterjack.errors import InvalidInput
from quarterjack.values import value

JobFunction = Callable[["Context", Any], Any | Awaitable[Any]]
JobRef = str | Callable[["Context", Any], object]  # a job's name, or its function
Seconds = float | timedelta | None
Schema = Mapping[str, Any]


@value(kw_only=True)
class Job:
    """A named, registered piece of work."""

    name: str  # unique in a registry
    function: JobFunction  # plain or async, called with (ctx, payload)
    policies: Policies = field(default_factory=Policies)  # defaults; a schedule may override single ones
    queue: str | None = None  # name of the declared queue that its runs go to; None: the default one
    check: Callable[[Any], object] | None = None  # raises ValueError for a payload that the job cannot use
    payload_type: TypedPayload | None = None  # how its payload is checked and converted; None: it is passed as it is
    by_name: bool = False  # its payload decides what it does: a profile has to name it, without `*`
    schema: FittedPayload | None = None  # what its payload has to fit, beside its type
    middleware: tuple[Callable[..., Any], ...] = ()  # called around it, within that of its registry
    pinned: bool | None = None  # whether its runs start on workers of their version alone; None: as the setting says


def check_fit(job: Job, text: str) -> None:
    """Raise InvalidInput for a payload (JSON text) that does not fit the job's schema."""
    if job.schema is not None:
        job.schema.check(text, job.name, redact=job.policies.redact)


@dataclass(frozen=True, kw_only=True)
class Child:
    """A run that a job has submitted with ``ctx.submit``."""

    run_id: str  # its id
    step: str  # its name among the children of its parent
    job: str  # name of its job


class JobWaits(Protocol):
    """The methods of a context that end the slice of a job that has to wait."""

    def sleep(self, seconds: Seconds, until: datetime | None) -> Any:
        """See ``Context.sleep``."""

    def wait_for(self, name: str, timeout: Seconds, schema: Schema | None, heartbeat: Seconds) -> Any:
        """See ``Context.wait_for``."""

    def submit(self, job: JobRef, payload: Any, step: str, options: Mapping[str, Any]) -> Any:
        """See ``Context.submit``."""

    def gather(self, children: Sequence[Child], *, return_exceptions: bool) -> Any:
        """See ``Context.gather``."""

    def map(self, job: JobRef, items: Iterable[Any], options: Mapping[str, Any], **how: Any) -> Any:
        """See ``Context.map``."""


class JobEffects(Protocol):
    """The methods of a context that need the worker, which implements them under the run's fence."""

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """See ``Context.step``."""

    def transaction(self, items: Sequence[Mapping[str, Any]], step: str, result: Any) -> Any:
        """See ``Context.transaction``."""

    def checkpoint(self, state: Any) -> None:
        """See ``Context.checkpoint``."""

    @property
    def resume(self) -> Any:
        """See ``Context.resume``."""

    @property
    def waits(self) -> JobWaits:
        """The waits and children of the run."""

    @property
    def parked(self) -> Any:
        """What the job waits for, once it does; None: nothing."""

    def check_all_asked(self) -> None:
        """For a job that has returned. Raises Diverged if it has left out a wait or a child of before."""

    def progress(self, fraction: float, stage: str | None = None) -> None:
        """See ``Context.progress``."""

    @property
    def cancelled(self) -> bool:
        """See ``Context.cancelled``."""

    def raise_if_cancelled(self) -> None:
        """See ``Context.raise_if_cancelled``."""

    def secret(self, name: str) -> str:
        """See ``Context.secret``."""

    def hide(self, label: str, *values: str) -> None:
        """Mask these values in all texts of the run; ``label`` says what they are."""

    @property
    def hidden(self) -> Sequence[str]:
        """The values of the secrets that the run has looked up."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The run that a job executes, and the job's way to record steps, checkpoints and progress.

    The job's threads and tasks may share it. It ends with the attempt, and is not for child processes of the job.

    >>> def nightly(ctx: Context, payload: dict) -> None:
    ...     ctx.logger.info("report.started", extra={"day": ctx.scheduled_at.date().isoformat()})
    """

    run_id: str  # id of the run: pass it to Scheduler.get_run
    idempotency_key: str  # the same in all attempts of this run: pass it to services that must act once
    tenant: str  # of the run
    job: str  # name of the job
    schedule: str | None  # name of its schedule; None for a one-off
    scheduled_at: datetime  # when the run was due, in the schedule's time zone; of a replay, when the original was
    attempt: int  # 1 for the first
    fence: int  # grows with every lease of the run: a system that refuses a smaller one than it has seen shuts stale workers out
    logger: logging.LoggerAdapter[logging.Logger]  # adds run, job and tenant to every line
    remaining: Callable[[], float | None]  # seconds until the process's time limit; None: no limit
    effects: JobEffects  # implements the methods below
    missed: bool = False  # its fire was claimed, or the run first started, more than a minute late: an outage, a pause
    backfill: str | None = None  # id of the backfill that it belongs to

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """Run ``function`` once per run and record its JSON result (64 KB at most); a later attempt gets that result.

        An ``async`` function is awaited: ``await ctx.step("charge", charge)``. A step whose process crashes between its effect
        and its record runs again: pass ``idempotency_key`` to the service that has the effect. Raises LeaseLost if another
        worker has the run, RunCancelled if its owner cancelled it, InvalidInput for a result that is not JSON.

        If several threads or tasks call the same step at once, one runs it and all get its result.
        """
        return self.effects.step(name, function)

    def transaction(self, items: Sequence[Mapping[str, Any]], *, step: str = "transaction", result: Any = None) -> Any:
        """Write ``items`` to DynamoDB tables of your own, once per run: together with the record of the step, if this worker has the run.

        ``items`` are as boto3's client takes ``TransactItems`` (98 at most, 4 MB), in the account and region of Quarterjack's tables.
        If the step is recorded, by an earlier attempt, nothing is written. Returns ``result`` (JSON, 64 KB at most) as it was recorded.

        Raises ItemRefused if the condition of an item does not hold, LeaseLost if another worker has the run, RunCancelled,
        InvalidInput (also for a second call with the same ``step`` in one attempt) or Misconfigured, and nothing is written;
        Unavailable if that is not known: a call that repeats it finds out.
        """
        return self.effects.transaction(items, step, result)

    def checkpoint(self, state: Any) -> None:
        """Keep ``state`` (JSON, 5 MB at most) for the next attempt.

        On Lambda, shortly before the function's time limit, the slice ends here; the run continues in a new slice, which is not a
        new attempt. ``raise Continue`` after a checkpoint ends a slice at any time.
        """
        self.effects.checkpoint(state)

    @property
    def resume(self) -> Any:
        """The last checkpoint of this run; None if there is none."""
        return self.effects.resume

    def sleep(self, seconds: Seconds = None, *, until: datetime | None = None) -> Any:
        """Wait for ``seconds`` (a year at most), or ``until`` a time (aware), without a worker: the run parks.

        A run that parks gives its worker back. When the wait is over the job is called again from its beginning, with its steps, sleeps,
        signals and children answered from the record. So whatever has an effect before a wait belongs into a step, and the job must ask
        for the same waits and children in the same order (else: Diverged), none after a checkpoint. If ``async``: ``await ctx.sleep(60)``.
        """
        return self.effects.waits.sleep(seconds, until)

    def wait_for(
        self, name: str, *, timeout: Seconds = None, schema: Schema | None = None, heartbeat: Seconds = None
    ) -> Any:
        """Wait for a signal that ``Scheduler.signal(run_id, name, payload)`` sends; its payload. The run parks as in ``sleep``.

        The first signal of a name is the answer, also if it came before the wait. Raises WaitTimedOut if none comes within ``timeout``
        (seconds or timedelta; default and most: 366 days), CallbackFailed for one by ``Scheduler.fail``.

        ``schema`` is a JSON Schema (2020-12) that the answer has to fit: ``Scheduler.signal`` refuses another one. One that came before
        the wait, and does not fit, fails the run for good (Permanent). Raises InvalidInput for a schema that cannot be used.
        ``heartbeat``: the wait also ends so many seconds after its begin, and after the last ``Scheduler.heartbeat``.
        """
        return self.effects.waits.wait_for(name, timeout, schema, heartbeat)

    def callback_token(self, name: str) -> str:
        """A token for an outside system: its ``Scheduler.complete(token, result)`` or ``fail`` answers ``ctx.wait_for(name)``."""
        return callback_token(self.run_id, check_name(name, "name"))

    def submit(
        self,
        job: JobRef,
        payload: Any = None,
        *,
        step: str,
        delivery: DeliveryWord | None = None,
        priority: PriorityWord | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        queue: str | None = None,
    ) -> Any:
        """Submit another run, a child of this one, and return it at once; ``step`` is its name among the children.

        Its key follows from this run and ``step``, so it exists once however often the job is called. A cancellation of this run
        reaches its children. 1,000 at most. Raises InvalidInput, Throttled, LimitExceeded, Unavailable.
        """
        given = overrides(delivery=delivery, priority=priority, retry=retry, timeout=timeout, deadline=deadline)
        options = given.as_dict() | ({} if queue is None else {"queue": queue})
        return self.effects.waits.submit(job, payload, step, options)

    def map(
        self,
        job: JobRef,
        items: Iterable[Any],
        *,
        at_a_time: int = 100,
        return_exceptions: bool = False,
        step: str | None = None,
        delivery: DeliveryWord | None = None,
        priority: PriorityWord | None = None,
        retry: Retry | None = None,
        timeout: float | None = None,
        deadline: float | None = None,
        queue: str | None = None,
    ) -> Any:
        """Run a child for each of ``items`` (payloads, 100,000 at most), of which ``at_a_time`` (1 to 1,000) are unfinished at the most.

        The end of a child starts the next, while this run is parked as in ``sleep``; it is woken once, when all have ended. Returns their
        results in the order of items, as a sequence that reads 25 at a time from the ledger: ``list(results)`` has all in memory.

        After a child that ended without success no further one starts; when those under way have ended, ChildFailed is raised for the
        first in the order of items. With ``return_exceptions`` all run, and the error stands in its place. ``step`` is the name among the
        maps of this run, by default that of the job. ``items`` may be a generator; it must give the same items when the job is called
        again. Raises InvalidInput, LimitExceeded, Unavailable; Diverged for other items or another job than before.
        """
        given = overrides(delivery=delivery, priority=priority, retry=retry, timeout=timeout, deadline=deadline)
        options = given.as_dict() | ({} if queue is None else {"queue": queue})
        how = {"step": step, "at_a_time": at_a_time, "return_exceptions": return_exceptions}
        return self.effects.waits.map(job, items, options, **how)

    def gather(self, children: Sequence[Child], *, return_exceptions: bool = False) -> Any:
        """Wait until all of these children have ended, and return their results in the same order: the run parks as in ``sleep``.

        Raises ChildFailed for the first child that ended without success; with ``return_exceptions`` the error stands in its place.
        """
        return self.effects.waits.gather(children, return_exceptions=return_exceptions)

    def progress(self, fraction: float, stage: str | None = None) -> None:
        """Report progress (0 to 1) and the present stage; ``get_run`` shows them from the next heartbeat on."""
        self.effects.progress(fraction, stage)

    @property
    def cancelled(self) -> bool:
        """Whether the run's owner has requested its cancellation, as of the last heartbeat."""
        return self.effects.cancelled

    def secret(self, name: str) -> str:
        """The value of a secret of the run's tenant: the SSM parameter ``/<prefix>/tenants/<tenant>/<name>``.

        A new value is seen within five minutes. It is masked in the run's result, errors, stages and log lines; the result of a step,
        a checkpoint and the payload of a new run or schedule that hold it are refused. Raises InvalidInput for what is no name of a
        secret, Misconfigured if there is none or the worker may not read it, Unavailable.
        """
        return self.effects.secret(name)

    def hide(self, *values: str) -> None:
        """Mask values that the job got elsewhere, such as an access token that it got for a secret: from now on as if they were secrets."""
        for each in values:
            if not isinstance(each, str) or len(each) < SHORTEST_SECRET:
                problem = f"has one that is not text of {SHORTEST_SECRET} characters or more"
                raise InvalidInput("values", "…", problem, "pass longer texts")
        self.effects.hide("that was given to ctx.hide", *values)

    def raise_if_cancelled(self) -> None:
        """Raise RunCancelled if cancellation was requested, and LeaseLost if another worker may have the run."""
        self.effects.raise_if_cancelled()
