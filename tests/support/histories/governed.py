"""Governed histories: four tenants of one installation, whose operators change their limits meanwhile.

    free     has no limits: nothing may hold it
    full     has all limits; jobs of it fail in phases, so that its circuit breakers open and close
    flood    submits in bursts, far beyond its rate, and more than may wait; some payloads are large, until it may keep no more
    moved    is suspended and resumed, and its limits come, change and go at any moment

Workers are processes that live long, with slots of the real ``LaneShares``, over a queue of two stripes with lanes. Their threads share
what the process knows of caps and breakers. A historian without faults keeps the book of open runs, some seconds behind.
Judged by ``checker``, and of limits by ``limits_oracle``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from quarterjack import Context, Scheduler, Tenants
from quarterjack.daemon.lane_shares import LaneShares
from quarterjack.domain.policies import Priority
from quarterjack.domain.queue import BATCH
from quarterjack.domain.run import RunState
from quarterjack.domain.schedule import ScheduleState
from quarterjack.domain.tenants.limits import LimitValue, RateWord
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import LimitExceeded, QuarterjackError, Throttled
from quarterjack.historian.follow import StreamFollower
from quarterjack.state.backpressure import Limits
from quarterjack.state.lease import HEARTBEAT, SKEW
from quarterjack.worker.context import CrashQuarantine, Done, Instants, WorkerContext
from quarterjack.worker.delivery.receive import partition_batch, receive
from quarterjack.worker.delivery.visibility import HIDDEN
from quarterjack.worker.pipeline import run_batch

from tests.support.histories.rich import JOBS, NEVER, Rich
from tests.support.histories.simulator import Faults, Process
from tests.support.scenes.limits_oracle import LimitsOracle
from tests.support.scenes.world import NOON

TENANTS = ("free", "full", "flood", "moved")
_WEIGHTS = (3, 3, 3, 2)  # of their owners' acts
_OPERATED = 0.12  # chance that an act is an operator's
_BURST = {"flood": 15, "free": 8}  # submissions at a time, by tenant
LATE = 5 * MINUTE  # ms that runs of a tenant without limits are late at the most, where no process stalls or dies
PASSED = 300  # messages of other lanes that are received while low ones wait, before one of these
_POLL = 0.12  # chance that a worker asks a queue that has something, each time that one could
_LARGE = 0.3  # chance that a payload is
_SUBMITS = 0.25  # chance that an act is a submission, whatever else it would be

_LASTS = (0, 0, 0, 0, 0, 0, 500, 2_000, 8_000)  # ms of a job
_Given = dict[str, LimitValue | None]
FULL: _Given = {
    "concurrent_runs": 4,
    "concurrent_runs:once": 1,
    "concurrent_runs:work": 2,
    "concurrency_strict": 1,
    "breaker_percent": 90,
    "runs_per_second": 1,
    "runs_burst": 6,
    "changes_per_second": 0.5,
    "changes_burst": 6,
    "schedules": 4,
    "fires_per_hour": 2_500,
    "highest_priority": "normal",
}
FLOOD: _Given = {
    "runs_per_second": 0.5,
    "runs_burst": 10,
    "concurrent_runs": 3,
    "waiting_runs": 20,
    "kept_bytes": 100_000,
}
MOVED: _Given = {"concurrent_runs": 3, "breaker_percent": 90, "concurrency_strict": 1}
EVERYBODY: _Given = {"concurrent_runs:frail": 2}  # all tenants together
CHANGES: tuple[tuple[str, _Given], ...] = (
    ("moved", {"concurrent_runs": 1}),
    ("moved", {"concurrent_runs": 6}),
    ("moved", {"concurrent_runs": None}),
    ("moved", {"concurrent_runs:work": 1}),
    ("moved", {"concurrent_runs:work": None}),
    ("moved", {"concurrency_strict": None}),
    ("moved", {"breaker_percent": None}),
    ("moved", {"breaker_percent": 90}),
    ("moved", {"highest_priority": "low"}),
    ("moved", {"highest_priority": None}),
    ("full", {"concurrent_runs": 2}),
    ("full", {"concurrent_runs": 4}),
    ("full", {"runs_per_second": 0.2}),
    ("full", {"runs_per_second": 2}),
    ("flood", {"runs_per_second": 0.2, "runs_burst": 3}),
    ("flood", {"runs_per_second": 1}),
    ("flood", {"concurrent_runs": 1}),
    ("flood", {"concurrent_runs": 5}),
    ("flood", {"waiting_runs": 10}),
    ("flood", {"waiting_runs": 40}),
)
LARGE = "x" * 70_000  # a payload that goes to the bucket
_BEHIND = 10 * SECOND  # ms of the history, at most
# Acts that take a token of a rate, whatever they find.
_WORDS = dict.fromkeys(("submit", "submit one", "trigger"), RateWord.RUNS) | dict.fromkeys(
    ("create", "create one", "update"), RateWord.CHANGES
)


@dataclass(kw_only=True)
class Host:
    """A worker process with slots and threads."""

    process: Process
    worker: WorkerContext
    shares: LaneShares
    retires: int  # UTC ms: it takes no messages from then on
    beaten: int  # UTC ms
    polling: set[tuple[Priority, int]] = field(default_factory=set)  # lanes and stripes of its threads' requests


class Governed(Rich):
    """One seed, one history."""

    busy = 15 * MINUTE
    audits: tuple[int, ...] = (10, 40, 70)
    rest_for = 85 * MINUTE
    between = (0, 1, 2, 5)
    paces = (0, 0, 10, 50, 200)
    crew = 3
    expressions = ("rate(4 seconds)", "rate(10 seconds)", "rate(30 seconds)", "* * * * *")
    size = 10  # slots of a worker
    limits = Limits(depth=30)
    stripes = 2
    priorities = True
    low_age = 5 * MINUTE
    together = 0.75
    patience = 1.0

    def __init__(self, seed: int, faults: Faults) -> None:
        super().__init__(seed, faults)
        self.oracle = LimitsOracle(self.stage, faults.skew, free=["free"])
        self.hosts: list[Host] = []
        self.passed = 0  # messages of other lanes that were received since low ones wait
        self.most_passed = 0
        dice = Random(f"{seed}/phases")
        self.phases = {tenant: self._phase(dice) for tenant in ("full", "moved")}
        self.follower = StreamFollower(self.stage.memory.connect(), lambda: self.stage.now)
        self.next_look = NOON
        self.stage.process("operator", self._set_up)
        while self.stage.step():
            pass

    def _phase(self, dice: Random) -> range:
        """UTC ms in which nearly every attempt of a tenant's jobs fails."""
        begin = NOON + dice.randint(0, 4) * MINUTE
        return range(begin, begin + dice.randint(6, 10) * MINUTE)

    def _set_up(self, process: Process) -> None:
        del process
        operator = Tenants(services=self.stage.memory.connect(), clock=lambda: self.stage.now)
        for tenant, limits in (("full", FULL), ("flood", FLOOD), ("moved", MOVED), ("~installation", EVERYBODY)):
            operator.set(tenant, limits=limits)
        self.oracle.profiles_changed()
        for tenant in TENANTS:
            owner = Scheduler(
                tenant, jobs=self.jobs, services=self.stage.memory.connect(), clock=lambda: self.stage.now
            )
            for name in ("a", "b", "once"):
                self._create(owner, name)
            if tenant == "free":  # runs beside the others', most of the time
                for name, expression in (("c", "rate(1 second)"), ("e", "rate(2 seconds)")):
                    owner.create_schedule(name, "work", expression, priority=self.dice.choice(list(Priority)))

    # What jobs do.

    def _job(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        self._may_fail(ctx)
        self._take_time()
        if self.dice.random() < 0.03 and ctx.attempt < 10:
            raise RuntimeError("not this time")

    def _steps_of(self, ctx: Context, payload: object) -> None:
        self._may_fail(ctx)
        super()._steps_of(ctx, payload)

    def _may_fail(self, ctx: Context) -> None:
        phase = self.phases.get(ctx.tenant, range(0))
        if not self.resting and self.stage.now in phase and self.dice.random() < 0.97:
            raise ConnectionError("the other side is down")

    def _take_time(self) -> None:
        if not self.resting:
            self.stage.yield_until(self.stage.now + self.dice.choice(_LASTS))

    # What owners and operators do.

    def _tenant(self) -> str:
        (tenant,) = self.dice.choices(TENANTS, _WEIGHTS)
        return tenant

    def _owner(self, process: Process) -> None:
        if self.dice.random() < _OPERATED:
            self._operate(process)
        else:
            super()._owner(process)

    def _operate(self, process: Process) -> None:
        operator = Tenants(services=process.services, clock=process.clock)
        act = self.dice.choice(("set", "set", "set", "suspend", "resume", "reset"))
        tenant, limits = self.dice.choice(CHANGES)
        if not self.stage.strikes(f"act {act}", 1.0):
            return
        self.stage.tell(process, f"wants: {act} {tenant} {limits}")
        try:
            if act == "set":
                operator.set(tenant, limits=limits)
            elif act == "reset":
                operator.reset_breaker(self.dice.choice(("full", "moved")))
            elif act == "suspend":
                operator.suspend("moved", reason="a matter of money")
            else:
                operator.resume("moved")
        except QuarterjackError as problem:
            self.stage.tell(process, f"is refused: {problem}")

    def _do(self, act: str, owner: Scheduler, name: str) -> None:
        act = "submit" if self.dice.random() < _SUBMITS else act
        times = _BURST.get(owner.tenant, 1) if act.startswith("submit") else 1
        if owner.tenant == "free" and name == "d":
            return  # all tenants together may have few runs of that job
        process = self.stage.process_of_thread()
        for _ in range(times):
            asked = self.stage.now
            try:
                super()._do(act, owner, name)
            except (Throttled, LimitExceeded) as problem:
                self.stage.count(f"over {problem.limit}")
                return
            else:
                if act in _WORDS and process is not None:
                    self.oracle.accepted(process, owner.tenant, _WORDS[act], asked)

    def _submit(self, owner: Scheduler, name: str) -> None:
        self.one_offs += 1
        run = owner.submit(
            JOBS[name],
            LARGE if owner.tenant == "flood" and self.dice.random() < _LARGE else None,
            delay=self.dice.choice([0, 0, 0, 30, 300, 1_000]),
            idempotency_key=f"k{self.one_offs}",
            deadline=self.dice.choice([None, None, None, 200, 900]),
            priority=self.dice.choice(("high", "normal", "low", None)),
        )
        self.observed.submitted[run.id] = int(run.due.timestamp() * 1_000)

    def _options(self) -> Any:
        return super()._options() | {"priority": self.dice.choice(list(Priority))}

    def _come_to_rest(self, process: Process) -> None:
        """Twice: an owner who stalled may act a while later."""
        operator = Tenants(services=process.services, clock=process.clock)
        for _ in range(2):
            operator.resume("moved")
            for tenant in ("full", "moved"):
                operator.set(tenant, limits={"changes_per_second": None})
            process.wait(6)  # for so long the owner goes by what it has read
            for head in self.stage.memory.heads():
                if head.state is ScheduleState.ACTIVE:
                    owner = Scheduler(head.tenant, jobs=self.jobs, services=process.services, clock=process.clock)
                    owner.update_schedule(head.name, expression=NEVER, priority="low")  # so that any tenant may
            process.wait(20 * 60)

    # The historian.

    def _arrivals(self, quiet: bool) -> None:
        super()._arrivals(quiet)
        if self.stage.now >= self.next_look:
            self.next_look = self.stage.now + self.dice.randint(0, _BEHIND)
            while self.follower.poll().has_more:
                pass

    # Workers.

    def _workers_come(self) -> None:
        stage, now = self.stage, self.stage.now
        self.hosts = [each for each in self.hosts if not each.process.dead]
        awake = [host for host in self.hosts if host.process.wakes <= now < host.retires]
        waiting = [stripe for stripe, queue in stage.memory.stripes.items() if (queue.next_visible() or now + 1) <= now]
        if len(awake) < self.crew and waiting:
            awake.append(self._new_host())
        for host in awake:
            for stripe in stage.memory.stripes.keys() - waiting:  # a poll that brings nothing is not played
                host.shares.polled(stripe.priority, stripe.number, full=False)
            for stripe in waiting:
                place = stripe.priority, stripe.number
                if place not in host.polling and host.shares.free and self.dice.random() < _POLL:
                    host.polling.add(place)
                    stage.start(host.process, partial(self._poll, host, *place))

    def _new_host(self) -> Host:
        process = self.stage.process("worker", None)
        host = Host(
            process=process,
            worker=self._hand(process),
            shares=LaneShares(self.size),
            retires=self.stage.now + self.dice.choice([3, 10, 40, 400]) * MINUTE,
            beaten=self.stage.now,
        )
        self.oracle.watch(process, host.worker)
        vars(host.worker)["report"] = partial(self._report, host)
        self.hosts.append(host)
        return host

    def _poll(self, host: Host, lane: Priority, stripe: int) -> None:
        """As ``WorkerProcess._poll_once``, with the messages of one request worked off in this thread."""
        taken, queue = host.shares.take_free(lane, BATCH), host.worker.services.work
        found: Sequence[Any] = ()
        try:
            if taken:
                found = queue.receive(
                    most=taken, wait=0, visibility=HIDDEN, lane=lane, poller=stripe, pollers=self.stripes
                )
                host.shares.polled(lane, stripe, full=len(found) == taken)
        finally:
            host.polling.discard((lane, stripe))
            host.shares.release(lane, taken - len(found))
        self._see_passed(lane, len(found))
        if lane is Priority.LOW:
            since = host.process.clock() - queue.low_age
            found = [replace(each, aged=0 < each.sent_at <= since) for each in found]
            host.shares.move(lane, Priority.NORMAL, sum(each.aged for each in found))
        worker = replace(host.worker, quarantine=CrashQuarantine(), instants=Instants())
        received = receive(worker, found)
        together = self.dice.random() < self.together
        for batch in partition_batch(worker, received) if together else [[each] for each in received]:
            run_batch(worker, batch)

    def _report(self, host: Host, done: Sequence[Done]) -> None:
        for lane, slots in Counter(received.delivery.share for received, _ in done).items():
            host.shares.release(lane, slots)
        for received, outcome in done:
            if outcome.why and received.message is not None:
                self.oracle.waits(received.message.run, outcome.why)

    def _see_passed(self, lane: Priority, messages: int) -> None:
        """How many messages of other lanes are received while low ones wait."""
        waits = any(
            stripe.priority is Priority.LOW and (queue.next_visible() or self.stage.now + 1) <= self.stage.now
            for stripe, queue in self.stage.memory.stripes.items()
        )
        self.passed = self.passed + messages if waits and (lane is not Priority.LOW or not messages) else 0
        self.most_passed = max(self.most_passed, self.passed)

    def _heartbeats(self) -> None:
        for host in self.hosts:
            process, now = host.process, self.stage.now
            if now >= host.beaten + HEARTBEAT and process.wakes <= now and not process.dead:
                host.beaten = now
                caps = vars(host.worker.permits)["_caps"].values()
                if vars(host.worker.heartbeat)["_messages"] or any(
                    each.until + SKEW >= process.clock() for each in caps
                ):
                    self.stage.start(process, partial(self._beat, host))

    def _beat(self, host: Host) -> None:
        host.worker.heartbeat.beat(host.process.clock())
        host.worker.breakers.flush(host.worker.services, host.process.clock())

    # What is seen, and what must hold.

    def _look(self, process: Process, detail: Any) -> None:
        known = len(self.seen.leases)
        super()._look(process, detail)
        self.oracle.look(process, detail)
        if len(self.seen.leases) > known:
            for lease in list(self.seen.leases.values())[known:]:
                self.oracle.leased(process, lease)

    def _violations(self) -> list[str]:
        calm = self.stage.faults.skew == 0 and not self.faults.stall
        found = super()._violations() + self.oracle.violations(LATE if calm else None)
        found += [f"starved: {self.most_passed} messages passed low ones"] if self.most_passed > PASSED else []
        counts = self.stage.counts
        counts["passed"], counts["expired"] = (
            self.most_passed,
            sum(run.state is RunState.EXPIRED for run in self.stage.memory.runs()),
        )
        return found
