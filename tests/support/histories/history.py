"""A history: tickers, workers, owners and an undertaker over one installation, for a while with faults, then until it rests.

Who comes when, and what owners do, is for the dice of the seed. ``tests.support.scenes.lease_oracle`` says what must hold of it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quarterjack import Context, Registry, Retry, Scheduler
from quarterjack.domain.names import one_off_ref, schedule_owner
from quarterjack.domain.policies import StartWord
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.errors import QuarterjackError
from quarterjack.state.backpressure import Limits
from quarterjack.state.lease import HEARTBEAT
from quarterjack.testing.process import Hand, bury_all, make_worker
from quarterjack.ticker.fan_out import FanOutConfig, group_of
from quarterjack.ticker.tick import tick
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import Outcome

from tests.support.histories.simulator import NONE, BatonCaps, BatonLock, Faults, Process, Stage
from tests.support.scenes.lease_oracle import Seen
from tests.support.scenes.world import NOON

NAMES = ("a", "b", "once")
STARTS: dict[str, StartWord] = {"a": "prompt", "b": "exact", "once": "exact"}
EXPRESSIONS = ("rate(7 seconds)", "rate(90 seconds)", "* * * * *", "*/4 * * * *", "rate(10 minutes)")
BUSY = 15 * MINUTE  # of a history, with faults and changes
QUIET = 35 * MINUTE  # afterwards: everything must come to rest
TICK = 60 * SECOND
NEAR, FAR = 10 * SECOND, 90 * SECOND  # how far clocks may be off, and how far they may not


class History:
    """One seed, one history."""

    expressions: tuple[str, ...] = EXPRESSIONS
    busy = BUSY
    quiet = QUIET
    between: tuple[int, ...] = (0, 1, 10, 60)  # seconds between two acts of owners
    paces: tuple[int, ...] = (0, 0, 50, 500, 1_500)  # ms that pass after some steps of busy processes
    at_hand = 3  # messages that a worker takes at once
    crew = 6  # workers at a time
    limits = Limits()  # past which tickers hold the queue back
    stripes = 1  # SQS queues that it consists of
    priorities = False  # whether it has lanes
    low_age = DAY  # ms after which a low run that waits counts as normal
    together = 0.5  # chance that a worker leases and settles its batch together

    def __init__(self, seed: int, faults: Faults) -> None:
        self.stage = Stage(
            seed,
            NOON,
            faults,
            limits=self.limits,
            stripes=self.stripes,
            priorities=self.priorities,
            low_age=self.low_age,
        )
        self.seen = Seen(self.stage)
        self.stage.observer = self.seen.look
        self.dice = self.stage.random
        self.jobs = Registry()
        self.jobs.job("work", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._job)
        self.jobs.job("once", delivery="at_most_once")(self._job)
        self.faults, self.next_tick, self.next_act, self.one_offs = faults, NOON, NOON, 0
        self.beats: dict[int, tuple[Process, Any, int]] = {}
        self.resting = False

    def run(self) -> list[str]:
        """The whole of it; what does not hold. Who calls processes from outside draws from the seed, too."""
        with self.stage.drawn.in_place():
            return self._run()

    def _run(self) -> list[str]:
        stage = self.stage
        try:
            self._live(NOON + self.busy)
            self.rest()
            self._live(NOON + self.busy + self.quiet)
            return self._violations()
        finally:
            stage.close()

    def _violations(self) -> list[str]:
        """What does not hold at the end."""
        return self.seen.violations(NOON + self.busy + self.quiet - 15 * MINUTE, self.faults.skew)

    def judged(self) -> list[str]:
        """All of it, and all that does not hold, by everybody who looks at such a history."""
        return self.run()

    def durations(self) -> dict[str, list[int]]:
        """How long acts of owners took (ms), by kind, if this kind of history logs them."""
        return {}

    def rest(self) -> None:
        """No faults any more, and nobody changes anything; clocks stay as far apart as they were."""
        self.resting = True
        self.stage.faults = replace(NONE, skew=self.faults.skew)

    def _live(self, until: int) -> None:
        while self.stage.now < until:
            self._arrivals(self.resting or self.stage.faults is NONE)
            self._pass_time(self._steps(self.dice.randint(1, 30)))

    def _steps(self, most: int) -> bool:
        """Some steps of some processes; whether all of them could be made."""
        return all(self.stage.step() for _ in range(most))

    def _pass_time(self, busy: bool) -> None:
        stage = self.stage
        if busy:
            stage.now += self.dice.choice(self.paces)
            return
        queues = (self._visible(), stage.memory.dead.next_visible())
        beats = [max(beaten + HEARTBEAT, process.wakes) for process, _, beaten in self.beats.values()]
        events = [self.next_tick, self.next_act, stage.next_wake(), *queues, *beats, stage.now + 5 * SECOND]
        overdue = any(at is not None and at <= stage.now for at in queues)  # somebody comes for it as the dice will
        upcoming = min(at for at in events if at is not None and at > stage.now)
        stage.now = min(upcoming, stage.now + 500) if overdue else upcoming

    # Who comes when.

    def _arrivals(self, quiet: bool) -> None:
        stage = self.stage
        if stage.now >= self.next_tick:
            self.next_tick += TICK
            if not stage.strikes("missed tick", stage.faults.missed):
                stage.process("ticker", self._tick)
            if stage.strikes("doubled tick", stage.faults.doubled):
                stage.process("ticker", self._tick)
        if not quiet and stage.now >= self.next_act:
            self.next_act += self.dice.choice(self.between) * SECOND
            stage.process("owner", self._owner)
        self._workers_come()
        letters = stage.memory.dead.next_visible()
        if letters is not None and letters <= stage.now and self.dice.random() < 0.1:
            stage.process("undertaker", lambda process: bury_all(process.services, process.clock))
        self._heartbeats()

    def _workers_come(self) -> None:
        stage = self.stage
        workers = sum(p.name.startswith("worker") and p.wakes <= stage.now for p in stage.processes)
        visible = self._visible()
        if visible is not None and visible <= stage.now and workers < self.crew and self.dice.random() < 0.5:
            stage.process("worker", self._work)

    def _visible(self) -> int | None:
        """When the next order can be received (UTC ms)."""
        upcoming = (queue.next_visible() for queue in self.stage.memory.stripes.values())
        return min((at for at in upcoming if at is not None), default=None)

    def _heartbeats(self) -> None:
        for key, (process, worker, beaten) in list(self.beats.items()):
            if process not in self.stage.processes:
                del self.beats[key]
            elif self.stage.now >= beaten + HEARTBEAT and process.wakes <= self.stage.now and not process.dead:
                self.beats[key] = (process, worker, self.stage.now)
                process.start(lambda process=process, worker=worker: worker.heartbeat.beat(process.clock()))  # type: ignore[misc]

    # What they do.

    def _tick(self, process: Process) -> None:
        """A whole tick; at times what it has not begun with is handed over as soon as there is anything at all."""
        handed = self.stage.strikes("handed over", self.stage.faults.handed)
        if handed:
            self._go_through(process, FanOutConfig(groups=2, alone=0, hand_over=self._hand_over))
        else:
            paced = self.stage.strikes("paced", self.stage.faults.paced)
            self._go_through(process, FanOutConfig(writes=1, wait=process.wait) if paced else FanOutConfig())

    def _go_through(self, process: Process, spread: FanOutConfig) -> None:
        tick(process.services, clock=process.clock, holder=process.name, budget=10 * MINUTE, spread=spread)

    def _hand_over(self, event: Mapping[str, Any]) -> bool:
        """As Lambda's own queue of events does: refused, dropped after it was accepted, done, done twice."""
        stage, faults = self.stage, self.stage.faults
        if stage.strikes("group refused", faults.refused):
            return False
        times = (
            0 if stage.strikes("group dropped", faults.dropped) else 1 + stage.strikes("group doubled", faults.doubled)
        )
        group = FanOutConfig(only=group_of(event))
        for _ in range(times):
            stage.process("ticker", lambda process: self._go_through(process, group))
        return True

    def _hand(self, process: Process) -> WorkerContext:
        dice = random.Random(self.dice.random())
        worker = make_worker(
            process.services, self.jobs, process.clock, wait=process.wait, chance=dice, name=process.name
        )
        vars(worker.heartbeat)["_lock"] = BatonLock(self.stage)
        vars(worker.permits)["_caps"] = BatonCaps(self.stage)
        return worker

    def _work(self, process: Process) -> None:
        worker = self._hand(process)
        self.beats[id(process)] = (process, worker, self.stage.now)
        hand = Hand(worker=worker, together=self.dice.random() < self.together)
        self._worked(hand.work(most=self.at_hand))

    def _worked(self, outcomes: Sequence[Outcome]) -> None:
        """What a worker has made of its messages."""

    def _begins(self, ctx: Context) -> None:
        """Every job says so first."""
        self.seen.begun(ctx.run_id)

    def _job(self, ctx: Context, payload: object) -> None:
        self._begins(ctx)
        for _ in range(self.dice.choice([0, 0, 1, 3])):
            self.stage.yield_until(self.stage.now + self.dice.choice([0, 500, 5_000, 40_000]))
        if self.dice.random() < 0.05 and ctx.attempt < 10:
            raise RuntimeError("not this time")

    def _owner(self, process: Process) -> None:
        owner = Scheduler("acme", jobs=self.jobs, services=process.services, clock=process.clock)
        name = self.dice.choice(NAMES)
        act = self.dice.choice(
            ["submit", "submit", "create", "create", "update", "update", "pause", "resume", "delete"]
        )
        try:
            self._act(act, owner, name)
        except QuarterjackError:
            self.stage.count("refused acts")

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        expression, job = self.dice.choice(self.expressions), "once" if name == "once" else "work"
        self.stage.count(act)
        match act:
            case "submit":
                self.one_offs += 1
                key = f"{name}{self.one_offs}"
                delay = self.dice.choice([0, 0, 30, 300, 1_000])
                run = owner.submit(job, delay=delay, idempotency_key=key, start=STARTS[name])
                self.seen.submitted.append((one_off_ref("acme", key), int(run.due.timestamp() * 1_000)))
            case "create":
                owner.create_schedule(name, job, expression, start=STARTS[name])
            case "update":
                owner.update_schedule(name, expression=expression, start=STARTS[name])
            case "resume":
                owner.resume_schedule(name)
            case "pause":
                stopped = owner.pause_schedule(name)
                self.seen.stops.append((schedule_owner("acme", name), stopped.revision, self.stage.now))
            case _:
                before = owner.get_schedule(name).revision
                owner.delete_schedule(name)
                self.seen.stops.append((schedule_owner("acme", name), before, self.stage.now))
