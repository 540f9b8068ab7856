"""A whole installation in memory for stories about the flow: an owner, tickers and workers whose every call can be made to fail."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.auditor.audit import audit
from quarterjack.auditor.walk import AuditReport
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.times import MINUTE, SECOND, from_ms
from quarterjack.errors import Unavailable
from quarterjack.ports.services import Services
from quarterjack.testing import Crash, Detail, Hook, ManualClock, Memory
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.tick import TickReport, tick
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome

START = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
NOON = 1_777_896_000_000  # START
OWNER = "acme/s"


@dataclass
class Rule:
    """What happens at some calls."""

    verb: str
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None
    throttle: Collection[int] = ()
    times: int | None = 1  # None: every time
    skip: int = 0

    def applies(self, verb: str) -> bool:
        if verb != self.verb or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Faults(Hook):
    """Calls fail, crash, lose their answer, are throttled or let something else happen first, as told. All calls are kept,

    but the reads of a tenant's profile, which are counted: a process makes one in five seconds, whatever it is asked for.
    """

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.calls: list[tuple[str, Detail]] = []
        self.profile_reads = 0
        self._afterwards: list[Rule] = []

    def at(self, verb: str, **what: Any) -> Faults:
        self.rules.append(Rule(verb, **what))
        return self

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        if detail.verb == "governance":
            self.profile_reads += 1
        else:
            self.calls.append((operation, detail))
        rules = [rule for rule in self.rules if rule.applies(detail.verb)]
        self._afterwards = [rule for rule in rules if rule.after is not None]
        for rule in rules:
            if rule.before is not None:
                rule.before()
        return {place for rule in rules for place in rule.throttle}

    def after_call(self, operation: str, detail: Detail) -> None:
        rules, self._afterwards = self._afterwards, []
        for rule in rules:
            if rule.after is not None:
                rule.after()

    def count(self, *operations: str) -> int:
        return sum(operation in operations for operation, _ in self.calls)

    def verbs(self) -> list[str]:
        return [detail.verb for _, detail in self.calls]


def fails() -> None:
    """The request fails; the adapter tries it again, so that only a rule for every time makes the whole call fail."""
    raise Unavailable("injected")


def crash() -> None:
    """The process dies."""
    raise Crash


@dataclass(frozen=True)
class Start:
    """A job began."""

    run_id: str
    attempt: int
    at: int  # UTC ms
    payload: object = None


@dataclass
class World:
    """One installation. Everybody shares its clock."""

    shards: int = 1
    retention: int = 90 * 86_400_000
    prioritised: Sequence[str | None] = ()  # queues with lanes
    at: datetime = START
    started: list[Start] = field(default_factory=list)
    _seeds: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.clock = ManualClock(self.at)
        self.memory = Memory(self.clock, shards=self.shards, retention=self.retention, prioritised=self.prioritised)
        self.services = self.memory.connect()
        self.jobs = Registry()
        self.jobs.job("note")(self.note)
        self.jobs.job("once", delivery="at_most_once")(self.note)
        self.jobs.job("bad", retry=Retry(max_attempts=3, base=10.0))(self._bad)
        self.scheduler = self.owner()
        self.during: Callable[[Context], None] = lambda ctx: None  # what happens while a job runs

    def note(self, ctx: Context, payload: object) -> None:
        self.started.append(Start(ctx.run_id, ctx.attempt, self.clock(), payload))
        self.during(ctx)

    def _bad(self, ctx: Context, payload: object) -> None:
        self.note(ctx, payload)
        raise ValueError("boom")

    # Time.

    def now(self) -> datetime:
        return self.clock.now()

    def wait(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    def reach(self, ms: int) -> None:
        self.clock.reach(ms)

    # Processes.

    def process(self, hook: Hook | None = None, **options: Any) -> Services:
        return replace(self.memory.connect(hook, **options), wait=self.wait)

    def owner(self, hook: Hook | None = None) -> Scheduler:
        """Somebody with the SDK, in a process of their own."""
        return Scheduler("acme", jobs=self.jobs, strict=True, services=self.process(hook), clock=self.clock)

    def tick(self, services: Services | None = None, *, holder: str = "ticker", **options: Any) -> TickReport:
        return tick(services or self.services, clock=self.clock, holder=holder, **options)

    def worker(self, hook: Hook | None = None, *, name: str = "w", jobs: Registry | None = None) -> WorkerContext:
        return make_worker(
            self.process(hook),
            self.jobs if jobs is None else jobs,
            self.clock,
            wait=self.wait,
            chance=random.Random(next(self._seeds)),  # a seed each: a token of two workers would be one lease
            name=name,
        )

    def work(self, worker: WorkerContext | None = None, *, together: bool = False) -> list[Outcome]:
        """Work off all that is visible now; ``together``: what comes in one batch shares its requests."""
        hand, done = Hand(worker=worker or self.worker(), together=together), list[Outcome]()
        while outcomes := hand.work():
            done += outcomes
        return done

    def live(self, seconds: float, *, worker: WorkerContext | None = None) -> list[Outcome]:
        """Let time pass: a tick a minute, workers at the second at which there is something to do, dead letters buried."""
        done: list[Outcome] = []
        end = self.clock() + int(seconds) * SECOND
        while True:
            if (self.clock() - NOON) % MINUTE == 0:
                self.tick()
            done += self.work(worker)
            bury_all(self.services, self.clock)
            upcoming = self._next_second()
            if upcoming > end:
                self.reach(end)
                return done
            self.reach(upcoming)

    def _next_second(self) -> int:
        """The next whole second after now at which a tick is due or a message can be received (UTC ms)."""
        now = self.clock()
        minute = now - (now - NOON) % MINUTE + MINUTE
        visible = [at for at in (self.memory.work.next_visible(), self.memory.dead.next_visible()) if at is not None]
        second = -(-min([minute, *visible]) // SECOND) * SECOND
        return max(second, now - now % SECOND + SECOND)

    def audit(self, services: Services | None = None, **options: Any) -> AuditReport:
        return audit(services or self.services, clock=self.clock, **options)

    # What there is.

    def states(self, owner: str | None = OWNER) -> list[tuple[int, RunState]]:
        """Seconds after NOON and state of each run."""
        return [((run.due - NOON) // SECOND, run.state) for run in self.memory.runs(owner)]

    def fires(self, owner: str | None = OWNER) -> list[int]:
        return [(run.due - NOON) // SECOND for run in self.memory.runs(owner)]

    def run(self, second: int, owner: str = OWNER) -> RunRow:
        return next(run for run in self.memory.runs(owner) if run.due == NOON + second * SECOND)

    def sent(self) -> list[int]:
        return sorted(((message.run.instant or NOON) - NOON) // SECOND for message in self.memory.messages())

    def chain(self) -> list[int]:
        """Seconds after NOON at which the chains' entries are due."""
        return [(e.due - NOON) // SECOND for e in self.memory.entries() if e.kind is EntryKind.CHAIN]

    def entries(self, kind: EntryKind) -> list[AgendaEntry]:
        return [entry for entry in self.memory.entries() if entry.kind is kind]

    def began(self) -> list[int]:
        """Seconds after NOON of the fires that started, in order of start."""
        return [self._second(start) for start in self.started]

    def _second(self, start: Start) -> int:
        run = next(run for run in self.memory.runs() if str(run.ref) == start.run_id)
        return (run.due - NOON) // SECOND


def at(second: float) -> datetime:
    """That many seconds after NOON."""
    return from_ms(NOON + int(second * SECOND))


class Mortal(Hook):
    """A process that dies before or after one of its requests, and makes no further one."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left, self._after, self._lock = at, after, threading.Lock()

    def before_call(self, operation: str, detail: Detail) -> tuple[int, ...]:
        if not self._after:
            self._live()
        elif self._left < 0:
            raise Crash
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        if self._after:
            self._live()

    def _live(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise Crash
