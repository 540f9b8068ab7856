"""``Scheduler`` for asyncio: the same methods, arguments, views and errors; each call runs in a thread."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any, Self, TypedDict, Unpack

from quarterjack.domain.tenants.caller import Caller, ViaWord
from quarterjack.errors import InvalidInput
from quarterjack.jobs import Registry
from quarterjack.ports.services import Clock, Services
from quarterjack.sdk.asynchronous.calls import AsyncBase, CallThreads, awaited, iterated, with_arguments_of
from quarterjack.sdk.runs import pauses_until_ended
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.views import Run
from quarterjack.settings import Settings

THREADS = 16  # each spends most of its time waiting for DynamoDB
MOST_THREADS = 1_000


class SchedulerArguments(TypedDict, total=False):
    """The keywords of ``Scheduler``, for a type checker where they are passed on."""

    settings: Settings | None
    endpoint: str | None
    prefix: str | None
    jobs: Registry | str | None
    strict: bool
    patience: float
    actor: str | None
    via: ViaWord
    services: Services | None
    clock: Clock


class AsyncScheduler(AsyncBase):
    """``Scheduler`` for asyncio: every method of it is awaited, with the same arguments, result and errors.

    ``archive`` is iterated with ``async for``; methods that return a copy, such as ``acting_as``, wait for nothing. Its own
    arguments are those of ``Scheduler`` and ``threads``; ``AsyncScheduler.of(scheduler)`` is one over a ``Scheduler`` that is there, such
    as the harness's. Make it once, at the start of the application, because that reads files. ``async with`` closes it at its end.

    - **Threads.** A call runs in one of ``threads`` threads (1 to 1,000), further calls wait. ``wait_for`` waits without one. Callbacks
      such as ``on_progress`` are called in the thread of the call.
    - **Cancellation.** A cancelled await does not undo what is under way: a call that waits for a thread is dropped; one that has begun
      goes on, and its result or error is lost. So whoever may be cancelled passes a ``client_token`` or an ``idempotency_key``, and
      repeats the call with it: it is done once. Calls that take a ``stop`` (``bulk``, ``redrive`` …) end after the writes that are under
      way.
    - **Sharing.** Tasks, threads and event loops may share one. A forked child makes its own threads.

    >>> import asyncio
    >>> from datetime import UTC, datetime
    >>> from quarterjack import AsyncScheduler, Registry
    >>> from quarterjack.testing import Harness
    >>> jobs = Registry()
    >>> @jobs.job("greet")
    ... def greet(ctx, payload):
    ...     return f"Hello {payload}"
    >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    >>> async def main():
    ...     async with AsyncScheduler.of(harness.scheduler) as scheduler:
    ...         run = await scheduler.submit("greet", "Ada")
    ...         await asyncio.to_thread(harness.advance)
    ...         return await scheduler.get_run(run.id)
    >>> asyncio.run(main()).result
    'Hello Ada'
    """

    @with_arguments_of(Scheduler.__init__)
    def __init__(
        self, tenant: str | None = None, *, threads: int = THREADS, **given: Unpack[SchedulerArguments]
    ) -> None:
        pool = CallThreads(_checked(threads))
        super().__init__(Scheduler(tenant, **given), pool)

    @classmethod
    def of(cls, scheduler: Scheduler, *, threads: int = THREADS) -> Self:
        """The same over a ``Scheduler`` that is there, with its tenant, settings and connections."""
        made = cls.__new__(cls)
        AsyncBase.__init__(made, scheduler, CallThreads(_checked(threads)))
        return made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Take no more calls, and return when those that were made have ended. Copies made by ``acting_as`` are closed, too."""
        await self._threads.close()

    @property
    def tenant(self) -> str:
        """The tenant of its schedules and runs."""
        return self._scheduler.tenant

    def acting_as(self, actor: str | None = None, *, reason: str | None = None, via: ViaWord | None = None) -> Self:
        """See ``Scheduler.acting_as``. It is not awaited."""
        return self._over(self._scheduler.acting_as(actor, reason=reason, via=via))

    def strictly(self, *, strict: bool = True) -> Self:
        """See ``Scheduler.strictly``. It is not awaited."""
        return self._over(self._scheduler.strictly(strict=strict))

    def with_tenant(self, tenant: str) -> Self:
        """See ``Scheduler.with_tenant``. It is not awaited."""
        return self._over(self._scheduler.with_tenant(tenant))

    def with_caller(self, caller: Caller) -> Self:
        """See ``Scheduler.with_caller``. It is not awaited."""
        return self._over(self._scheduler.with_caller(caller))

    def _over(self, scheduler: Scheduler) -> Self:
        other = copy(self)
        AsyncBase.__init__(other, scheduler, self._threads)
        return other

    async def wait_for(self, run_id: str, timeout: float = 60.0) -> Run:
        """See ``Scheduler.wait_for``. No thread is taken while it waits, and a cancelled await ends it."""
        from asyncio import sleep  # noqa: PLC0415 (see ``calls``)

        pauses = pauses_until_ended(self._scheduler.session, self.tenant, run_id, timeout)
        while (pause := await self._threads.run(partial(next, pauses, None))) is not None:  # noqa: ASYNC110 (no task knows)
            await sleep(pause)
        return await self.get_run(run_id)

    # Schedules.

    create_schedule = awaited(Scheduler.create_schedule)
    upsert_schedule = awaited(Scheduler.upsert_schedule)
    update_schedule = awaited(Scheduler.update_schedule)
    pause_schedule = awaited(Scheduler.pause_schedule)
    resume_schedule = awaited(Scheduler.resume_schedule)
    delete_schedule = awaited(Scheduler.delete_schedule)
    skip_next = awaited(Scheduler.skip_next)
    get_schedule = awaited(Scheduler.get_schedule)
    preview = awaited(Scheduler.preview)
    list_schedules = awaited(Scheduler.list_schedules)
    forecast = awaited(Scheduler.forecast)
    describe_schedule = awaited(Scheduler.describe_schedule)

    # Runs.

    submit = awaited(Scheduler.submit)
    submit_all = awaited(Scheduler.submit_all)
    get_run = awaited(Scheduler.get_run)
    cancel_run = awaited(Scheduler.cancel_run)
    cancel_runs = awaited(Scheduler.cancel_runs)
    reschedule = awaited(Scheduler.reschedule)
    retry_run = awaited(Scheduler.retry_run)
    signal = awaited(Scheduler.signal)
    complete = awaited(Scheduler.complete)
    fail = awaited(Scheduler.fail)
    heartbeat = awaited(Scheduler.heartbeat)
    signal_link = awaited(Scheduler.signal_link)
    list_links = awaited(Scheduler.list_links)
    revoke_link = awaited(Scheduler.revoke_link)

    # Pipelines.

    upsert_pipeline = awaited(Scheduler.upsert_pipeline)
    list_pipelines = awaited(Scheduler.list_pipelines)
    pipeline_run = awaited(Scheduler.pipeline_run)
    task_stats = awaited(Scheduler.task_stats)
    skip_task = awaited(Scheduler.skip_task)
    retry_pipeline = awaited(Scheduler.retry_pipeline)

    # Runs outside of the expression, and many schedules at once.

    trigger = awaited(Scheduler.trigger)
    backfill = awaited(Scheduler.backfill)
    get_backfill = awaited(Scheduler.get_backfill)
    list_backfills = awaited(Scheduler.list_backfills)
    backfills = awaited(Scheduler.backfills)
    pause_backfill = awaited(Scheduler.pause_backfill)
    resume_backfill = awaited(Scheduler.resume_backfill)
    cancel_backfill = awaited(Scheduler.cancel_backfill)
    backfill_runs = awaited(Scheduler.backfill_runs)
    bulk = awaited(Scheduler.bulk)
    bulk_runs = awaited(Scheduler.bulk_runs)
    requeue = awaited(Scheduler.requeue)

    # Declarations.

    compare_declared = awaited(Scheduler.compare_declared)
    compare_schedule = awaited(Scheduler.compare_schedule)
    carry_out = awaited(Scheduler.carry_out)
    export_declared = awaited(Scheduler.export_declared)

    # Failed runs.

    list_dead = awaited(Scheduler.list_dead)
    replay_run = awaited(Scheduler.replay_run)
    redrive = awaited(Scheduler.redrive)
    purge = awaited(Scheduler.purge)
    resend = awaited(Scheduler.resend)
    list_application_versions = awaited(Scheduler.list_application_versions)
    get_latest_application_version = awaited(Scheduler.get_latest_application_version)
    set_latest_application_version = awaited(Scheduler.set_latest_application_version)
    retire_application_version = awaited(Scheduler.retire_application_version)
    reassign_run = awaited(Scheduler.reassign_run)

    # What an owner asks about the past, and what runs now.

    list_runs = awaited(Scheduler.list_runs)
    last_runs = awaited(Scheduler.last_runs)
    stats = awaited(Scheduler.stats)
    hourly_outcomes = awaited(Scheduler.hourly_outcomes)
    rebuild_history = awaited(Scheduler.rebuild_history)
    archive = iterated(Scheduler.archive)
    transitions = awaited(Scheduler.transitions)
    run_logs = awaited(Scheduler.run_logs)
    why = awaited(Scheduler.why)
    why_run = awaited(Scheduler.why_run)
    workers = awaited(Scheduler.workers)
    jobs = awaited(Scheduler.jobs)
    list_running = awaited(Scheduler.list_running)
    queues = awaited(Scheduler.queues)
    ticker = awaited(Scheduler.ticker)
    audit = awaited(Scheduler.audit)
    verify_audit = awaited(Scheduler.verify_audit)

    # The tenant.

    freeze = awaited(Scheduler.freeze)
    thaw = awaited(Scheduler.thaw)
    frozen = awaited(Scheduler.frozen)
    holds = awaited(Scheduler.holds)


def _checked(threads: Any) -> int:
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise InvalidInput("threads", threads, "is not a number of threads", f"use 1 to {MOST_THREADS:,}")
    return threads
