"""Test your own jobs and schedules: a whole Quarterjack in memory, whose clock you move.

The code is the same as in production, from the schedule's expression to the retry; only tables, queues and the clock are replaced. Jobs
run in the thread that calls ``advance``, each at the time at which it would start. A job that moves ``harness.clock`` forward takes that
long, and its heartbeats are sent meanwhile: it sees its cancellation, and its progress is written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from quarterjack.domain.job_catalogue import PublishedJob, sets_of
from quarterjack.domain.message import decode
from quarterjack.domain.notice import SCHEDULE_EVENTS, Notice
from quarterjack.domain.tenants.app_versions import check_share, check_version
from quarterjack.domain.times import HOUR, MINUTE, SECOND, from_ms, to_ms
from quarterjack.errors import InvalidInput, Unreadable
from quarterjack.fires.context import LOOKAHEAD
from quarterjack.historian.deliver import StreamReader
from quarterjack.historian.follow import StreamFollower
from quarterjack.job_packages import registry_of
from quarterjack.jobs import Registry
from quarterjack.owner.app_versions import register
from quarterjack.owner.catalogue import CataloguePublisher
from quarterjack.payload_types import payload_fit, payload_schema
from quarterjack.ports.queues import RawMessage
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.sdk.tenants.tenants import Tenants
from quarterjack.sdk.views import Run, run_view
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing.clock import ManualClock
from quarterjack.testing.memory.installation import Memory
from quarterjack.testing.memory.peripherals import MemoryEvents
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import tick
from quarterjack.values import replace
from quarterjack.worker.delivery.visibility import Heartbeat
from quarterjack.worker.versions import OwnVersion


class BeatingClock(ManualClock):
    """The clock of workers; the ``heartbeats`` of the workers are added when these exist."""

    def __init__(self, at: datetime) -> None:
        super().__init__(at)
        self.heartbeats: list[Heartbeat] = []
        self._last_beat = self()  # UTC ms of the last heartbeat, or of the time at which the last job ended

    def reach(self, ms: int) -> None:
        """Move forward, with a heartbeat every HEARTBEAT while a job runs."""
        while self._runs() and self._last_beat + HEARTBEAT <= ms:
            super().reach(self._last_beat + HEARTBEAT)
            self.beat()
        super().reach(ms)
        if not self._runs():
            self._last_beat = self()

    def beat(self) -> None:
        """Send a heartbeat now."""
        self._last_beat = self()
        for heartbeat in self.heartbeats:
            heartbeat.beat(self._last_beat)

    def _runs(self) -> bool:
        return any(heartbeat.leased() for heartbeat in self.heartbeats)


_AWAY = 12 * HOUR  # ms: half of the time for which a stream keeps a change
_MOST = 1_000_000  # steps of one ``advance``: ends the test of a job that submits itself for ever


class Harness:
    """A scheduler, a ticker, a worker for each queue, an undertaker and a historian over one clock.

    ``jobs`` is a Registry or the name of a package to load; None takes what ``@job`` registered. ``at`` is when the test begins
    (aware). ``seed`` sets the jitter of retries. With ``events`` it publishes events, as an installation that has a target for them.
    Its ``scheduler`` is strict: a job that is not among ``jobs`` is refused. ``tenants`` are the profiles of the same installation.
    ``secrets`` are those of the tenant, by name; ``set_secret`` sets one later, or another tenant's. ``app_version`` is that of its
    workers, which they register; ``deploy`` changes it.
    ``dynamodb`` is boto3's client of the tables that jobs write to in ``ctx.transaction``: of moto, or of a local DynamoDB.

    ``scheduler.run_logs`` has what is logged meanwhile: like a worker, Quarterjack's loggers, and so ``ctx.logger``, log from INFO on then.

    One thread at a time lets time pass; others may use ``scheduler`` meanwhile. A coroutine uses ``AsyncScheduler.of(scheduler)``, and
    ``await asyncio.to_thread(harness.advance, hours=2)``.

    >>> from datetime import UTC, datetime
    >>> from quarterjack import Registry
    >>> from quarterjack.testing import Harness
    >>> jobs, greeted = Registry(), []
    >>> @jobs.job("greet")
    ... def greet(ctx, payload):
    ...     greeted.append(f"{payload['name']} at {ctx.scheduled_at:%H:%M}")
    >>> harness = Harness(jobs, at=datetime(2026, 5, 4, 8, 30, tzinfo=UTC))
    >>> _ = harness.scheduler.create_schedule("hello", "greet", "0 * * * *", payload={"name": "Ada"})
    >>> [run.state.value for run in harness.advance(hours=2)]
    ['SUCCEEDED', 'SUCCEEDED']
    >>> greeted
    ['Ada at 09:00', 'Ada at 10:00']
    """

    def __init__(
        self,
        jobs: Registry | str | None = None,
        *,
        at: datetime,
        tenant: str = "default",
        seed: int = 0,
        events: bool = False,
        dynamodb: Any = None,
        secrets: Mapping[str, str] | None = None,
        app_version: str | None = None,
    ) -> None:
        known = registry_of(jobs)
        self._beating = BeatingClock(at)
        self.clock: ManualClock = self._beating
        queues = [queue.name for queue in known.queues()]
        self.memory = Memory(
            self.clock,
            shards=1,
            queues=queues,
            stripes={queue.name: queue.stripes for queue in known.queues()},
            prioritised=[queue.name for queue in known.queues() if queue.priorities],
        )
        self.memory.dynamodb = dynamodb
        if events:
            self.memory.schedule_events = frozenset(SCHEDULE_EVENTS.values())
        self._services = self.memory.connect()
        published = [PublishedJob.of(job, payload_schema(job), payload_fit(job)) for job in known]
        CataloguePublisher(self._services, lambda now: [*sets_of(published, None, now)]).publish(self.clock())
        for name, value in (secrets or {}).items():
            self._services.secrets.put(tenant, name, value)
        self.scheduler = Scheduler(
            tenant, jobs=known, strict=True, patience=0, services=self._services, clock=self.clock
        )
        self.tenants = Tenants(services=self._services, clock=self.clock)
        self._jobs = known
        self._hands = [self._hand(queue, known, random.Random(seed)) for queue in (None, *queues)]
        if app_version is not None:
            self.deploy(app_version)
        self._beating.heartbeats += [hand.worker.heartbeat for hand in self._hands]
        self._target = self.clock()
        self._ticked = self.clock() - MINUTE
        self._followers = [StreamFollower(self._services, self.clock)]
        self._receiver = MemoryEvents()
        if events:
            publishing = replace(self._services, events=self._receiver)
            self._followers.append(StreamFollower(publishing, self.clock, StreamReader.EVENTS))
        self._followed = self.clock()  # UTC ms of the last round of the historian

    def advance(self, by: timedelta | None = None, **lengths: float) -> list[Run]:
        """Let time pass, e.g. ``advance(hours=2)``; without arguments only runs that are due now start.

        Returns the runs that had an attempt or were given up, in the order in which that happened, as they are now.
        """
        return self.run_until(self.clock.now() + (timedelta(**lengths) if by is None else by))

    def run_until(self, at: datetime) -> list[Run]:
        """Let time pass up to a time (aware). Returns as ``advance``. Raises InvalidInput for a time in the past."""
        with self.memory.log.listens():
            return self._run_until(at)

    def _run_until(self, at: datetime) -> list[Run]:
        target = to_ms(at, "at")
        if target < self.clock():
            raise InvalidInput("at", at, "has passed already", f"give a moment from {self.clock.now().isoformat()} on")
        before, self._target = self._target, target
        try:
            return self._reached()
        finally:  # a job that lets time pass itself does not end the call during which it runs
            self._target = max(before, self.clock())

    def _reached(self) -> list[Run]:
        """Let time pass up to the target."""
        touched: dict[str, None] = {}
        for _ in range(_MOST):
            self._tick_if_due()
            if not self._work(touched):
                upcoming = self._upcoming()
                if upcoming > self._target:
                    self._reach(self._target)
                    self._follow()
                    found = {run.id: run for run in self.runs()} if touched else {}
                    return [found[run_id] for run_id in touched]
                if upcoming - self._followed >= MINUTE:
                    self._follow()
                self._reach(upcoming)
        goal = from_ms(self._target).isoformat()
        raise RuntimeError(f"{_MOST:,} steps did not reach {goal}: does a job submit itself for ever?")

    def heartbeat(self) -> None:
        """Send the workers' heartbeats now, not only every 20 s: a job's progress is written, and its cancellation is read."""
        self._beating.beat()

    def deploy(self, app_version: str, *, share: float = 1.0) -> None:
        """Workers are of this application version from now on; a new one gets a ``share`` of the runs. Raises InvalidInput."""
        register(check_version(app_version), check_share(share), self._services, self.clock())
        own = OwnVersion(name=lambda: app_version, some=any(job.pinned for job in self._jobs))
        self._hands = [replace(hand, worker=replace(hand.worker, own_version=own)) for hand in self._hands]

    def set_secret(self, name: str, value: str, *, tenant: str | None = None) -> None:
        """Store a tenant's secret, for ``ctx.secret(name)`` and ``Secret(tenant=name)``. Raises InvalidInput."""
        self._services.secrets.put(tenant or self.scheduler.tenant, name, value)

    def run(self, run_id: str) -> Run:
        """A run by its id, whatever its tenant."""
        return next(run for run in self.runs() if run.id == run_id)

    def runs(self) -> list[Run]:
        """All runs of all tenants, in order of time."""
        return [run_view(run) for run in self.memory.runs()]

    @property
    def notices(self) -> list[Notice]:
        """The notices published to SNS topics, in order. A notice to a job is a run like any other."""
        return [published.notice for published in self.memory.published]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events published, as documents, in order; none without ``events=True``."""
        return [json.loads(event.encode()) for event in self._receiver.taken]

    # One step.

    def _hand(self, queue: str | None, known: Registry, chance: random.Random) -> Hand:
        """The worker of a queue."""
        worker = make_worker(
            self.memory.connect(queue=queue),
            known,
            self.clock,
            wait=lambda seconds: self.clock.advance(timedelta(seconds=seconds)),
            chance=chance,
        )
        return Hand(worker=worker, early=self._early)

    def _work(self, touched: dict[str, None]) -> bool:
        """Process the visible messages and bury dead letters: whether there were any."""
        done = [each for hand in self._hands for each in hand.finish()]
        for received, outcome in done:
            if outcome.action == "settled":
                touched[str(received.in_flight.ref)] = None
        return bool(done) or bury_all(self._services, self.clock) > 0

    def _follow(self) -> None:
        """Let the historian and the publisher of events read all that the stream has."""
        self._followed = self.clock()
        for follower in self._followers:
            while follower.poll().has_more:
                pass

    def _reach(self, ms: int) -> None:
        """Set the clock, and read the stream every few hours: a historian that was away for a day suspects a gap."""
        while ms - self.clock() > _AWAY:
            self.clock.reach(self.clock() + _AWAY)
            self._follow()
        self.clock.reach(ms)

    def _early(self, delivery: RawMessage) -> int:
        """Seconds for which a message is hidden whose run may not start before the target."""
        try:
            left = decode(delivery.body).not_before - self._target
        except Unreadable:
            return 0
        return -(-left // SECOND) if left > 0 else 0

    def _tick_if_due(self) -> None:
        if self.clock() >= self._next_tick():
            self._ticked = self.clock()
            tick(self._services, clock=self.clock, holder="harness")

    def _next_tick(self) -> int:
        """UTC ms of the next tick, one a minute, that has an entry to handle."""
        entries = self.memory.entries()
        first = entries[0].due - LOOKAHEAD if entries else self._target + MINUTE
        return max(self._ticked + MINUTE, first)

    def _upcoming(self) -> int:
        """UTC ms of the next message or tick."""
        queues = (self.memory.dead, *self.memory.stripes.values())
        messages = [at for queue in queues if (at := queue.next_visible()) is not None]
        return max(min([*messages, self._next_tick()]), self.clock() + 1)
