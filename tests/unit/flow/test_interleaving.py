"""Random histories of the real flow: tickers, workers, owners and an undertaker at once, with crashes, stalls and lost answers.

A failing seed is printed; ``history(seed, …)`` repeats it exactly.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from minutehand import Context, Registry, Retry, Scheduler
from minutehand.errors import MinutehandError
from minutehand.flow.tick import tick
from minutehand.model.moment import MINUTE, SECOND
from minutehand.model.names import one_off_ref, schedule_owner
from minutehand.runs.transitions import HEARTBEAT
from minutehand.testing.process import Hand, bury_all, make_worker

from tests.unit.flow.histories import NONE, BatonLock, Faults, Process, Stage
from tests.unit.flow.oracle import Seen
from tests.unit.flow.world import NOON

NAMES = ("a", "b", "once")
EXPRESSIONS = ("rate(7 seconds)", "rate(90 seconds)", "* * * * *", "*/4 * * * *", "rate(10 minutes)")
BUSY = 15 * MINUTE  # of a history, with faults and changes
QUIET = 35 * MINUTE  # afterwards: everything must come to rest
TICK = 60 * SECOND
NEAR, FAR = 10 * SECOND, 90 * SECOND  # how far clocks may be off, and how far they may not


class History:
    """One seed, one history."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.stage = Stage(seed, NOON, faults)
        self.seen = Seen(self.stage)
        self.stage.observer = self.seen.look
        self.dice = self.stage.random
        self.jobs = Registry()
        self.jobs.job("work", retry=Retry(max_attempts=50, base=5.0, cap=30.0))(self._job)
        self.jobs.job("once", delivery="at_most_once")(self._job)
        self.faults, self.next_tick, self.next_act, self.one_offs = faults, NOON, NOON, 0
        self.beats: dict[int, tuple[Process, Any, int]] = {}

    def run(self) -> list[str]:
        """The whole of it; what does not hold."""
        stage = self.stage
        try:
            self._live(NOON + BUSY)
            stage.faults = NONE
            self._live(NOON + BUSY + QUIET)
            return self.seen.violations(NOON + BUSY + QUIET - 15 * MINUTE, self.faults.skew)
        finally:
            stage.close()

    def _live(self, until: int) -> None:
        while self.stage.now < until:
            self._arrivals(self.stage.faults is NONE)
            self._pass_time(self._steps(self.dice.randint(1, 30)))

    def _steps(self, most: int) -> bool:
        """Some steps of some processes; whether all of them could be made."""
        return all(self.stage.step() for _ in range(most))

    def _pass_time(self, busy: bool) -> None:
        stage = self.stage
        if busy:
            stage.now += self.dice.choice([0, 0, 50, 500, 1_500])
            return
        queues = (stage.memory.work.next_visible(), stage.memory.dead.next_visible())
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
            for chance in (1.0, 0.0) if quiet else (0.85, 0.25):  # missed and doubled ticks
                if self.dice.random() < chance:
                    stage.process("ticker", self._tick)
        if not quiet and stage.now >= self.next_act:
            self.next_act += self.dice.choice([0, 1, 10, 60]) * SECOND
            stage.process("owner", self._owner)
        workers = sum(p.name.startswith("worker") and p.wakes <= stage.now for p in stage.processes)
        visible = stage.memory.work.next_visible()
        if visible is not None and visible <= stage.now and workers < 6 and self.dice.random() < 0.5:
            stage.process("worker", self._work)
        letters = stage.memory.dead.next_visible()
        if letters is not None and letters <= stage.now and self.dice.random() < 0.1:
            stage.process("undertaker", lambda process: bury_all(process.services, process.clock))
        self._heartbeats()

    def _heartbeats(self) -> None:
        for key, (process, worker, beaten) in list(self.beats.items()):
            if process not in self.stage.processes:
                del self.beats[key]
            elif self.stage.now >= beaten + HEARTBEAT and process.wakes <= self.stage.now and not process.dead:
                self.beats[key] = (process, worker, self.stage.now)
                process.start(lambda process=process, worker=worker: worker.desk.heartbeat.beat(process.clock()))  # type: ignore[misc]

    # What they do.

    def _tick(self, process: Process) -> None:
        tick(process.services, clock=process.clock, holder=process.name, budget=10 * MINUTE)

    def _work(self, process: Process) -> None:
        dice = random.Random(self.dice.random())
        worker = make_worker(
            process.services, self.jobs, process.clock, wait=process.wait, chance=dice, name=process.name
        )
        vars(worker.desk.heartbeat)["_lock"] = BatonLock(self.stage)
        self.beats[id(process)] = (process, worker, self.stage.now)
        Hand(worker=worker).work(most=3)

    def _job(self, ctx: Context, payload: object) -> None:
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
        except MinutehandError:
            self.stage.count("refused acts")

    def _act(self, act: str, owner: Scheduler, name: str) -> None:
        expression, job = self.dice.choice(EXPRESSIONS), "once" if name == "once" else "work"
        self.stage.count(act)
        match act:
            case "submit":
                self.one_offs += 1
                key = f"{name}{self.one_offs}"
                run = owner.submit(job, delay=self.dice.choice([0, 0, 30, 300, 1_000]), idempotency_key=key)
                self.seen.submitted.append((one_off_ref("acme", key), int(run.due.timestamp() * 1_000)))
            case "create":
                owner.create_schedule(name, job, expression)
            case "update":
                owner.update_schedule(name, expression=expression)
            case "resume":
                owner.resume_schedule(name)
            case "pause":
                stopped = owner.pause_schedule(name)
                self.seen.stops.append((schedule_owner("acme", name), stopped.revision, self.stage.now))
            case _:
                before = owner.get_schedule(name).revision
                owner.delete_schedule(name)
                self.seen.stops.append((schedule_owner("acme", name), before, self.stage.now))


def history(seed: int, faults: Faults) -> tuple[list[str], History]:
    made = History(seed, faults)
    return made.run(), made


CALM = Faults(crash=0.0, fail=0.0, lose=0.0, throttle=0.0, stall=0.0)
ROUGH = Faults()
WILD = Faults(crash=0.01, fail=0.05, lose=0.05, throttle=0.1, stall=0.004)


def many(seeds: range, faults: Faults) -> Counter[str]:
    totals: Counter[str] = Counter()
    for seed in seeds:
        try:
            found, made = history(seed, faults)
        except BaseException:
            print(f"seed={seed} faults={faults}")  # noqa: T201 (what a failing history is repeated with)
            raise
        assert found == [], f"seed={seed} faults={faults}"
        totals.update(made.stage.counts)
        totals.update(histories=1, calls=made.stage.calls, starts=len(made.seen.leases))
        totals.update(doubles=sum(fence > 1 for _, fence in made.seen.leases), steals=len(made.seen.stolen()))
        totals.update(early=sum(ms > NEAR for _, ms in made.seen.ahead()))
    return totals


def _proof_seeds() -> range:
    first = int(os.environ.get("SEED", "1000"))
    return range(first, first + int(os.environ.get("HISTORIES", "500")))


@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_breaks_a_promise(name: str, faults: Faults) -> None:
    totals = many(range(20), faults)
    print(name, dict(totals))  # noqa: T201 (what a failing history is repeated with)
    assert totals["starts"] > 200


@pytest.mark.proof
@pytest.mark.parametrize(("name", "faults"), [("calm", CALM), ("rough", ROUGH), ("wild", WILD)])
def test_no_history_of_thousands_breaks_a_promise(name: str, faults: Faults) -> None:
    totals = many(_proof_seeds(), faults)
    print(name, dict(totals))  # noqa: T201 (what a failing history is repeated with)


@pytest.mark.parametrize("faults", [CALM, ROUGH, WILD], ids=["calm", "rough", "wild"])
def test_clocks_ten_seconds_off_break_no_promise(faults: Faults) -> None:
    """Without faults no start is a second one, but for the attempts of a job that failed: the oracle knows those."""
    totals = many(range(6), replace(faults, skew=NEAR))
    assert totals["starts"] > 100


@pytest.mark.parametrize("faults", [CALM, ROUGH, WILD], ids=["calm", "rough", "wild"])
def test_clocks_ninety_seconds_off_start_runs_early_late_or_twice_and_lose_none(faults: Faults) -> None:
    """Nor does anything start after a stop, or an at-most-once run twice: no clock has a say in that."""
    totals = many(range(6), replace(faults, skew=FAR))
    assert totals["starts"] > 100
    assert totals["early"] > 0, "this is what such clocks do; where it does not happen, nothing was tried"


@pytest.mark.proof
@pytest.mark.parametrize("skew", [NEAR, FAR])
@pytest.mark.parametrize("faults", [CALM, ROUGH, WILD], ids=["calm", "rough", "wild"])
def test_no_history_of_thousands_under_clocks_apart_loses_anything(faults: Faults, skew: int) -> None:
    totals = many(_proof_seeds(), replace(faults, skew=skew))
    print(skew, dict(totals))  # noqa: T201 (the figures of the proof)


def test_a_seed_is_a_history() -> None:
    one, other = history(7, ROUGH)[1], history(7, ROUGH)[1]
    assert one.stage.calls == other.stage.calls
    assert one.stage.counts == other.stage.counts
    assert list(one.seen.leases) == list(other.seen.leases)
