"""Histories: many processes run the real flow over one installation in memory, interleaved at every call, with faults and a seed.

Every process is a thread, but only one runs at a time: it hands the baton back before each of its calls. So whoever is chosen next may
step in between any two calls of another, which may also stall there, die there, or never learn what its call did. Time is virtual.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from minutehand.errors import MinutehandError, Unavailable
from minutehand.flow.ports import Services
from minutehand.testing import Crash, Detail, Hook, Memory

LIMIT = 20.0  # seconds of real time after which a process that does not hand the baton back is called stuck


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Chances at each call, and how far clocks differ."""

    crash: float = 0.002
    fail: float = 0.01  # without effect
    lose: float = 0.01  # with effect, but no answer
    throttle: float = 0.02  # of each item of a batch
    stall: float = 0.001  # for up to ten minutes
    skew: int = 8_000  # ms: each process is off by as much at the most


NONE = Faults(crash=0.0, fail=0.0, lose=0.0, throttle=0.0, stall=0.0, skew=0)


class Process(Hook):
    """One process: a thread that runs when it is given the baton, and the hook around its calls."""

    def __init__(self, stage: Stage, name: str, skew: int) -> None:
        self.stage, self.name, self.skew = stage, name, skew
        self.services: Services = stage.memory.connect(self, attempts=2, rounds=1)
        self.wakes = stage.now  # not chosen before
        self.threads: list[_Thread] = []
        self.dead = False

    def clock(self) -> int:
        return self.stage.now + self.skew

    def wait(self, seconds: float) -> None:
        """Sleep, as far as this process's clock can tell."""
        self.stage.yield_until(self.stage.now + int(seconds * 1_000))

    def start(self, body: Callable[[], object]) -> None:
        """A further thread of this process."""
        self.threads.append(_Thread(self, body))

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        stage = self.stage
        stage.yield_until(0)
        faults, dice = stage.faults, stage.random
        stage.calls += 1
        if dice.random() < faults.crash:
            self._die()
        if dice.random() < faults.fail:
            stage.count("failed")
            raise Unavailable("injected")
        if faults.throttle and detail.items:
            places = [place for place in range(len(detail.items)) if dice.random() < faults.throttle]
            stage.count("throttled", len(places))
            return places
        return ()

    def after_call(self, operation: str, detail: Detail) -> None:
        stage = self.stage
        stage.observe(self, detail)
        if stage.random.random() < stage.faults.crash:
            self._die()
        if stage.random.random() < stage.faults.lose:
            stage.count("lost answers")
            raise Unavailable("its answer was lost")

    def _die(self) -> None:
        """All its threads die at their present call."""
        self.dead = True
        self.stage.count("crashed")
        raise Crash


class _Thread:
    """One thread of a process, between two handings over of the baton."""

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self.process, self._body = process, body
        self.wakes = 0
        self._mine, self._back = threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._back.acquire()
        self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._mine.acquire()
        _current.thread = self
        try:
            if not self.process.dead:
                self._body()
        except Crash:
            pass
        except MinutehandError as problem:
            self.process.stage.errors.append(problem)
        except BaseException as problem:  # noqa: BLE001 (it ends the history and is raised there)
            self.process.stage.defects.append(problem)
        self.over = True
        self._back.release()

    def run(self) -> None:
        """Give it the baton until it hands it back."""
        self._mine.release()
        if not self._back.acquire(timeout=LIMIT):
            raise RuntimeError(f"{self.process.name} does not hand the baton back")

    def hand_back(self, wakes: int) -> None:
        self.wakes = wakes
        self._back.release()
        self._mine.acquire()
        if self.process.dead:
            raise Crash


_current = threading.local()


class BatonLock:
    """In place of a lock that is held over a call: who waits for it hands the baton back, or nobody could ever free it."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._taken = stage, False

    def __enter__(self) -> None:
        while self._taken:
            self._stage.yield_until(0)
        self._taken = True

    def __exit__(self, *_: object) -> None:
        self._taken = False


@dataclass
class Stage:
    """The installation, the time, the dice, the processes, and what was seen."""

    seed: int
    now: int  # UTC ms
    faults: Faults
    random: random.Random = field(init=False)
    processes: list[Process] = field(default_factory=list)
    errors: list[MinutehandError] = field(default_factory=list)  # that ended a process, as its caller would see them
    defects: list[BaseException] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    observer: Callable[[Process, Detail], None] = lambda process, detail: None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.memory = Memory(lambda: self.now, shards=2, random=self.random)
        self._names = 0

    def observe(self, process: Process, detail: Detail) -> None:
        self.observer(process, detail)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def process(self, kind: str, body: Callable[[Process], object]) -> Process:
        """A process that is about to start."""
        self._names += 1
        skew = self.random.randint(-self.faults.skew, self.faults.skew)
        made = Process(self, f"{kind}-{self._names}", skew)
        made.start(lambda: body(made))
        self.processes.append(made)
        return made

    def yield_until(self, wakes: int) -> None:
        """Hand the baton back; go on when the time has come and the dice say so."""
        thread: Any = getattr(_current, "thread", None)
        if thread is not None:
            thread.hand_back(wakes)

    def step(self) -> bool:
        """Let one process that can go on do so until its next call; False if there is none."""
        ready = [
            thread
            for process in self.processes
            if process.wakes <= self.now or process.dead
            for thread in process.threads
            if not thread.over and (thread.wakes <= self.now or process.dead)
        ]
        if not ready:
            return False
        thread = self.random.choice(ready)
        process = thread.process
        if not process.dead and self.random.random() < self.faults.stall:
            process.wakes = self.now + self.random.choice([30_000, 120_000, 600_000])
            self.count("stalled")
            return True
        thread.run()
        if thread.over:
            process.threads.remove(thread)
            if not process.threads:
                self.processes.remove(process)
        if self.defects:
            raise self.defects[0]
        return True

    def next_wake(self) -> int | None:
        """When the next process can go on; None if none ever will."""
        times = [max(process.wakes, thread.wakes) for process in self.processes for thread in process.threads]
        return min(times, default=None)

    def close(self) -> None:
        """End what is still under way."""
        for process in list(self.processes):
            process.dead = True
        while self.step():
            pass
