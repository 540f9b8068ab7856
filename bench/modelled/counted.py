"""Count what runs ask of AWS: the real ticker, worker and undertaker over the services in memory, with a tally around each call.

Every variant of a run is lived through to its end, in full batches. The client, the ticker and the worker have a tally each: what a
ticker claims ahead is divided by the fires it claimed, what workers do by the runs that ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from quarterjack import Registry, Retry, Scheduler
from quarterjack.domain.run import RunState
from quarterjack.domain.times import MINUTE
from quarterjack.errors import Permanent
from quarterjack.testing import Detail, Hook, ManualClock, Memory
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import tick

START = datetime(2026, 11, 21, 5, 30, 0, tzinfo=UTC)
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchExecuteStatement", "BatchWriteItem"})
_READS = frozenset({"GetItem", "BatchGetItem"})
_QUEUE = ("Message", "Visibility")
ENTRY_BYTES = 150  # of an agenda entry, which a query reads along with hundreds of others
READ_UNIT = 4_096
_DONE = frozenset({RunState.SUCCEEDED, RunState.DEAD})


class Tally(Hook):
    """Counts the calls of one role. All items are under 1 KB, so that an item is a write unit, and a read unit."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """What was counted so far does not count."""
        self.calls = 0
        self.writes = 0.0
        self.reads = 0.0
        self.queue = 0  # requests to SQS, receives left out: they are counted where they bring something

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if operation == "ReceiveMessage":
            return ()
        self.calls += 1
        many = max(len(detail.items), 1)
        if any(word in operation for word in _QUEUE):
            self.queue += 1
        elif operation == "TransactWriteItems":
            self.writes += 2 * many
        elif operation in _WRITES:
            self.writes += many
            self.reads += many * ENTRY_BYTES / READ_UNIT if detail.verb == "remove" else 0  # it was read by a query
        elif operation in _READS:
            self.reads += many
        elif operation == "Query":
            self.reads += 1
        return ()


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What one run asks for, by who asks."""

    writes: float = 0.0  # DynamoDB write units
    reads: float = 0.0  # read units
    queue: float = 0.0  # SQS requests
    ticker_calls: float = 0.0
    worker_calls: float = 0.0
    batches: float = 0.0  # invocations of worker and undertaker
    row_bytes: float = 0.0  # of its row, once it has ended


@dataclass
class World:
    """An installation in memory with one process of each kind."""

    shards: int = 1
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    jobs: Registry = field(default_factory=Registry)
    client: Tally = field(default_factory=Tally)
    ticker: Tally = field(default_factory=Tally)
    worker: Tally = field(default_factory=Tally)
    claimed: int = 0
    claims: dict[int, int] = field(default_factory=dict)  # by the tick's time, UTC ms
    batches: int = 0

    def __post_init__(self) -> None:
        self.memory = Memory(self.clock, shards=self.shards)
        self.scheduler = Scheduler(
            "bench", jobs=self.jobs, services=self.memory.connect(hook=self.client), clock=self.clock
        )
        self._ticking, self._working = self.memory.connect(hook=self.ticker), self.memory.connect(hook=self.worker)
        worker = make_worker(
            self._working,
            self.jobs,
            self.clock,
            wait=lambda seconds: self.clock.advance(timedelta(seconds=seconds)),
            chance=random.Random(1),
        )
        self._hand = Hand(worker=worker, together=True)
        self.next_tick = self.clock()

    def forget(self) -> None:
        """Count from here on."""
        for tally in (self.client, self.ticker, self.worker):
            tally.clear()
        self.claimed = self.batches = 0

    def live(self, seconds: float) -> None:
        """Tick every minute, work off what is visible, until so much time has passed."""
        until = self.clock() + int(seconds * 1000)
        while True:
            if self.clock() >= self.next_tick:
                now, handled = self.clock(), tick(self._ticking, clock=self.clock, holder="bench").handled
                self.claims[now] = handled.fires.claimed
                self.claimed += handled.fires.claimed
                self.next_tick += MINUTE
            while self._hand.work() or bury_all(self._working, self.clock):
                self.batches += 1
            if self.clock() >= until:
                return
            queues = (self.memory.work, self.memory.dead)
            times = [at for queue in queues if (at := queue.next_visible()) is not None]
            self.clock.reach(max(min([until, self.next_tick, *times]), self.clock() + 1))

    def counts(self) -> Counts:
        """Of one run, of those that ended."""
        ended = [run for run in self.memory.runs() if run.state in _DONE]
        runs, claimed = len(ended), max(self.claimed, len(ended))  # a ticker claims ahead
        rows = [self.memory.row(run.ref) or {} for run in ended]
        size = sum(len(str(name)) + len(str(value)) for row in rows for name, value in row.items())
        return Counts(
            writes=self.client.writes / runs + self.ticker.writes / claimed + self.worker.writes / runs,
            reads=self.client.reads / runs + self.ticker.reads / claimed + self.worker.reads / runs,
            # a batch is received once, and on Lambda its messages are hidden for a lease
            queue=(self.client.queue + self.worker.queue + 2 * self.batches) / runs + self.ticker.queue / claimed,
            ticker_calls=self.ticker.calls / claimed,
            worker_calls=(self.worker.calls + self.batches) / runs,
            batches=self.batches / runs,
            row_bytes=size / runs,
        )


# Variants.


def recurring(
    runs: int,
    *,
    expression: str = "0 * * * *",
    each: int = 1,
    job: str = "nothing",
    **options: Any,
) -> World:
    """Schedules that fire, ``each`` so often."""
    world = _world(job, **options)
    for number in range(runs // each):
        world.scheduler.create_schedule(f"s-{number:06d}", job, expression, payload={"x": "x" * 92})
    world.forget()
    world.live(3_000 if each == 1 else each * 60)
    return world


def one_off(runs: int, *, ahead: float) -> World:
    """Submissions, due so many seconds later."""
    world = _world("nothing")
    for _ in range(runs):
        world.scheduler.submit("nothing", {"x": "x" * 92}, delay=ahead)
    world.live(ahead + 120)
    return world


def backfilled(runs: int) -> World:
    """A backfill of minutely fires that were never claimed."""
    world = _world("nothing")
    world.scheduler.create_schedule("s", "nothing", "* * * * *", payload={"x": "x" * 92})
    world.scheduler.pause_schedule("s")
    world.clock.advance(timedelta(minutes=runs + 1))
    world.next_tick = world.clock()
    world.scheduler.update_schedule("s", expression="0 0 1 1 *")
    world.scheduler.resume_schedule("s")
    world.forget()
    start = START + timedelta(minutes=1)
    end = start + timedelta(minutes=runs)
    world.scheduler.backfill("s", start, end, concurrency=100, current=False, allow_repeat=True, dry_run=False)
    world.live(3_600)
    return world


def _world(job: str, **options: Any) -> World:
    world = World()
    world.jobs.job(job, **options)(_BODIES.get(job, _nothing))
    return world


def _nothing(_ctx: Any, _payload: Any) -> None:
    """A job that does nothing."""


def _fails_once(ctx: Any, _payload: Any) -> None:
    if ctx.attempt == 1:
        raise ValueError("not yet")


def _fails(_ctx: Any, _payload: Any) -> None:
    raise Permanent("never")


def _two_steps(ctx: Any, _payload: Any) -> None:
    for name in ("first", "second"):
        ctx.step(name, lambda: 1)


_BODIES: dict[str, Callable[[Any, Any], None]] = {"again": _fails_once, "dead": _fails, "steps": _two_steps}
_AGAIN = Retry(max_attempts=3, base=10, jitter=0)
VARIANTS: dict[str, Callable[[int], World]] = {
    "one-off, now": partial(one_off, ahead=0),
    "one-off, an hour ahead": partial(one_off, ahead=3_600),
    "hourly": recurring,
    "minutely": partial(recurring, expression="* * * * *", each=20),
    "hourly, at most once": partial(recurring, job="once", delivery="at_most_once"),
    "hourly, one retry": partial(recurring, job="again", retry=_AGAIN),
    "hourly, exactly once, two steps": partial(recurring, job="steps", delivery="exactly_once"),
    "hourly, dead at its first attempt, an incident each": partial(recurring, job="dead"),
    "backfill": backfilled,
}
