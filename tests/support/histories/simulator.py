"""The stage: many processes run the real flow over one installation in memory, interleaved at every call, with faults and a seed.

Every process is a thread (a greenlet), but only one runs at a time: it hands the baton back before each of its calls. So whoever is chosen
next may step in between any two calls of another, which may also stall there, die there, or never learn what its call did. Time is virtual.

Every opportunity for a fault is numbered by kind, and what struck is noted. A script of such strikes in place of the dice lets a history
happen again with some of them only: that is how ``tests.support.histories.shrink`` finds the few that matter.
"""

from __future__ import annotations

import random
import secrets
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from weakref import WeakSet

from greenlet import getcurrent, greenlet
from quarterjack.domain.times import DAY
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.fires import audit_entry
from quarterjack.ports.services import Services
from quarterjack.state.backpressure import Limits
from quarterjack.testing import Crash, Detail, Hook, Memory
from quarterjack.testing.memory.queues import MemoryQueue, Stored
from quarterjack.worker.permits import CapHolding

LIMIT = 300.0  # seconds of real time after which a process that keeps the baton is stuck; a busy machine may give it no core for a minute


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Chances at each call (a message, a tick where it says so), and how far clocks differ."""

    crash: float = 0.002  # of the process, before the call or after it
    fail: float = 0.01  # without effect
    lose: float = 0.01  # with effect, but no answer
    throttle: float = 0.02  # of each item of a batch
    stall: float = 0.001  # for up to ten minutes
    part: float = 0.0  # the process cannot reach one service for up to five minutes
    repeat: float = 0.0  # of each message: it comes twice
    delay: float = 0.0  # of each message: it comes minutes late
    missed: float = 0.15  # of each tick
    doubled: float = 0.25  # of each tick: another one at the same time
    paced: float = 0.3  # of each tick: its claims wait for their turn
    handed: float = 0.3  # of each tick: its second shard is handed over to a process of its own
    dropped: float = 0.1  # of each of these: accepted, and then done by nobody
    refused: float = 0.2  # and so many are not accepted
    skew: int = 8_000  # ms: each process is off by as much at the most


NONE = Faults(
    crash=0.0, fail=0.0, lose=0.0, throttle=0.0, stall=0.0, missed=0.0, doubled=0.0, paced=0.0, handed=0.0, skew=0
)
CALM = Faults(crash=0.0, fail=0.0, lose=0.0, throttle=0.0, stall=0.0)
ROUGH = Faults()
WILD = Faults(crash=0.01, fail=0.05, lose=0.05, throttle=0.1, stall=0.004)
HOSTILE = Faults(
    crash=0.006, fail=0.02, lose=0.03, throttle=0.05, stall=0.003, part=0.003, repeat=0.1, delay=0.05, missed=0.25
)
Strike = tuple[str, int]  # a kind of fault, and which of its opportunities


class Process(Hook):
    """One process: a thread that runs when it is given the baton, and the hook around its calls."""

    def __init__(self, stage: Stage, name: str, skew: int) -> None:
        self.stage, self.name, self.skew = stage, name, skew
        self.services: Services = replace(stage.memory.connect(self, attempts=2, rounds=1), wait=self.wait)
        self.wakes = stage.now  # not chosen before
        self.threads: list[_Thread] = []
        self.dead = False
        self._parted: tuple[str, int] = ("", 0)  # the service that it cannot reach, until when (UTC ms)

    def clock(self) -> int:
        thread = _this_thread()
        if thread is not None:
            thread.looked = self.stage.now
        return self.stage.now + self.skew

    @property
    def looked(self) -> int:
        """UTC ms at which the present thread last looked at its clock: what it writes now, it may have decided then, and stalled."""
        thread = _this_thread()
        return self.stage.now if thread is None else thread.looked

    def wait(self, seconds: float) -> None:
        """Sleep, as far as this process's clock can tell."""
        self.stage.yield_until(self.stage.now + int(seconds * 1_000))

    def start(self, body: Callable[[], object]) -> None:
        """A further thread of this process."""
        self.threads.append(_Thread(self, body))

    def before_call(self, operation: str, detail: Detail) -> Collection[int]:
        stage, faults = self.stage, self.stage.faults
        stage.yield_until(0)
        stage.calls += 1
        if stage.strikes("crash before", faults.crash / 2):
            self._die(detail)
        if stage.strikes("part", faults.part):
            self._parted = (service_of(detail), stage.now + stage.dice_of_last("part").randint(1, 300) * 1_000)
            stage.tell(self, f"cannot reach {self._parted[0]} for {(self._parted[1] - stage.now) // 1_000} s")
        if self._parted[0] == service_of(detail) and stage.now < self._parted[1]:
            stage.tell(self, f"{detail.place}.{detail.verb} finds nobody")
            stage.count("unreachable")
            stage.unanswered(self, detail)
            raise Unavailable("cannot be reached")
        if stage.strikes("fail", faults.fail):
            stage.tell(self, f"{detail.place}.{detail.verb} fails")
            stage.unanswered(self, detail)
            raise Unavailable("injected")
        places = [place for place in range(len(detail.items)) if stage.strikes("throttle", faults.throttle)]
        if places:
            stage.unanswered(self, detail)
            stage.tell(
                self, f"{detail.place}.{detail.verb} is throttled at {[detail.items[place] for place in places]}"
            )
        return places

    def after_call(self, operation: str, detail: Detail) -> None:
        stage = self.stage
        stage.tell(self, f"{detail.place}.{detail.verb}", detail)
        stage.observe(self, detail)
        if stage.strikes("crash after", stage.faults.crash / 2):
            self._die(detail)
        if stage.strikes("lose", stage.faults.lose):
            stage.tell(self, f"{detail.place}.{detail.verb}: its answer is lost")
            stage.unanswered(self, detail)
            raise Unavailable("its answer was lost")

    def _die(self, detail: Detail) -> None:
        """All its threads die at their present call."""
        self.dead = True
        self.stage.tell(self, f"DIES at {detail.place}.{detail.verb}")
        raise Crash


def service_of(detail: Detail) -> str:
    """Which of AWS's services a call goes to."""
    if detail.place.startswith("work"):
        return "SQS"
    return {"dead": "SQS", "payloads": "S3"}.get(detail.place, "DynamoDB")


class _Thread:
    """One thread of a process, between two handings over of the baton. A greenlet is enough, and switches in a tenth of a thread's time."""

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self.process, self._body = process, body
        self.wakes = 0
        self.looked = process.stage.now  # UTC ms
        self._greenlet = greenlet(self._run)
        self._greenlet.thread = self

    @property
    def over(self) -> bool:
        return bool(self._greenlet.dead)

    def _run(self) -> None:
        try:
            if not self.process.dead:
                self._body()
        except Crash:
            pass
        except QuarterjackError as problem:
            self.process.stage.errors.append(problem)
        except BaseException as problem:  # noqa: BLE001 (it ends the history and is raised there)
            self.process.stage.defects.append(problem)

    def run(self) -> None:
        """Give it the baton until it hands it back."""
        self._greenlet.parent = getcurrent()  # who started it may be another thread of the history
        signal.setitimer(signal.ITIMER_REAL, LIMIT)
        try:
            self._greenlet.switch()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def hand_back(self, wakes: int) -> None:
        self.wakes = wakes
        self._greenlet.parent.switch()
        if self.process.dead:
            raise Crash


def _this_thread() -> _Thread | None:
    """The thread of the history that asks; None outside of it."""
    return getattr(getcurrent(), "thread", None)


class Stuck(BaseException):
    """A process waits for a lock that another holds over a call. It is no Exception, so that no code of the process handles it."""


def _stuck(*_: object) -> None:
    thread = _this_thread()
    raise Stuck(f"{thread and thread.process.name} does not hand the baton back")


class Drawn:
    """What processes draw without being given dice (ids, marks, the first of several parts), of a seed: so a seed is one history."""

    def __init__(self, seed: int) -> None:
        self._dice, self._turns = Random(f"{seed}/drawn"), count()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While the block runs, in all threads."""
        before = uuid.uuid4, secrets.token_hex, random.randrange, audit_entry._turns
        uuid.uuid4, secrets.token_hex, random.randrange, audit_entry._turns = (
            self._uuid,
            self._token_hex,
            self._dice.randrange,
            self._turns,
        )
        try:
            yield
        finally:
            uuid.uuid4, secrets.token_hex, random.randrange, audit_entry._turns = before

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._dice.getrandbits(128), version=4)

    def _token_hex(self, nbytes: int | None = None) -> str:
        return self._dice.randbytes(nbytes or 16).hex()


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


class BatonCaps(dict[str, CapHolding]):
    """What a process has of caps, with locks that hand the baton on."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def setdefault(self, key: str, holding: CapHolding) -> CapHolding:
        if key not in self:
            vars(holding)["lock"] = BatonLock(self._stage)
        return super().setdefault(key, holding)


@dataclass
class Stage:
    """The installation, the time, the dice, the processes, and what was seen."""

    seed: int
    now: int  # UTC ms
    faults: Faults
    random: Random = field(init=False)
    processes: list[Process] = field(default_factory=list)
    errors: list[QuarterjackError] = field(default_factory=list)  # that ended a process, as its caller would see them
    defects: list[BaseException] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    limits: Limits = field(default_factory=Limits)  # past which its tickers hold a queue back
    stripes: int = 1  # of the default queue
    priorities: bool = False  # whether it has lanes
    low_age: int = DAY  # ms after which a low run that waits counts as normal
    script: frozenset[Strike] | None = None  # what strikes, in place of the dice
    struck: list[Strike] = field(default_factory=list)
    timeline: list[str] | None = None  # what happened, line by line, if anybody wants to read it
    only: Callable[[Process], bool] | None = None  # the processes that go on; None: all
    observer: Callable[[Process, Detail], None] = lambda process, detail: None
    unanswered: Callable[[Process, Detail], None] = lambda process, detail: None  # of a call, or of items of it

    def __post_init__(self) -> None:
        signal.signal(signal.SIGALRM, _stuck)
        self.random = Random(self.seed)
        self._fate = Random(f"{self.seed}/faults")
        self.drawn = Drawn(self.seed)
        self._opportunities: Counter[str] = Counter()
        self._began = self.now
        self._mailed: WeakSet[Stored] = WeakSet()
        self.memory = Memory(
            lambda: self.now,
            shards=2,
            random=self.random,
            stripes={None: self.stripes},
            prioritised=[None] if self.priorities else [],
            low_age=self.low_age,
            limits=self.limits,
        )
        self._names = 0

    def observe(self, process: Process, detail: Detail) -> None:
        if detail.verb == "send" and (self.faults.repeat or self.faults.delay):
            for queue in (*self.memory.stripes.values(), self.memory.dead):
                self._mail(queue, process)
        self.observer(process, detail)

    def _mail(self, queue: MemoryQueue, process: Process) -> None:
        """What SQS may do to messages that were just sent."""
        for message in queue:
            if message not in self._mailed:
                self._mailed.add(message)
                if self.strikes("delay", self.faults.delay):
                    seconds = self.dice_of_last("delay").randint(1, 1_200)
                    queue.hold_back(message, seconds)
                    self.tell(process, f"what it sent comes {seconds} s late")
                if self.strikes("repeat", self.faults.repeat):
                    seconds = self.dice_of_last("repeat").randint(0, 600)
                    self._mailed.add(queue.put(message.body, seconds))
                    self.tell(process, f"what it sent comes again after {seconds} s")

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    # Faults.

    def strikes(self, kind: str, chance: float) -> bool:
        """Whether a fault of that kind happens here."""
        if not chance:
            return False
        self._opportunities[kind] += 1
        strike = (kind, self._opportunities[kind])
        hit = self._fate.random() < chance if self.script is None else strike in self.script
        if hit:
            self.struck.append(strike)
            self.count(kind)
        return hit

    def dice_of_last(self, kind: str) -> Random:
        """Dice of that one strike: what they say does not depend on the other strikes."""
        return Random(f"{self.seed}/{kind}/{self._opportunities[kind]}")

    def tell(self, process: Process, what: str, detail: Detail | None = None) -> None:
        """A line of the timeline."""
        if self.timeline is not None:
            about = "" if detail is None else " " + " ".join(str(item) for item in detail.items)
            self.timeline.append(f"{(self.now - self._began) / 1_000:10.3f}  {process.name:<14} {what}{about}")

    def process(self, kind: str, body: Callable[[Process], object] | None) -> Process:
        """A process that is about to start; None: it is given threads later."""
        self._names += 1
        skew = self.random.randint(-self.faults.skew, self.faults.skew)
        made = Process(self, f"{kind}-{self._names}", skew)
        if body is not None:
            self.start(made, lambda: body(made))
        return made

    def start(self, process: Process, body: Callable[[], object]) -> None:
        """Let a process go on with a further thread, also one that had none left."""
        process.start(body)
        if process not in self.processes:
            self.processes.append(process)

    def process_of_thread(self) -> Process | None:
        """Whose thread it is that asks."""
        thread = _this_thread()
        return None if thread is None else thread.process

    def yield_until(self, wakes: int) -> None:
        """Hand the baton back; go on when the time has come and the dice say so."""
        thread = _this_thread()
        if thread is not None:
            thread.hand_back(wakes)

    def step(self) -> bool:
        """Let one process that can go on do so until its next call; False if there is none."""
        ready = [
            thread
            for process in self.processes
            if (process.wakes <= self.now and (self.only is None or self.only(process))) or process.dead
            for thread in process.threads
            if not thread.over and (thread.wakes <= self.now or process.dead)
        ]
        if not ready:
            return False
        thread = self.random.choice(ready)
        process = thread.process
        if not process.dead and self.strikes("stall", self.faults.stall):
            process.wakes = self.now + self.dice_of_last("stall").choice([30_000, 120_000, 600_000])
            self.tell(process, f"stalls for {(process.wakes - self.now) // 1_000} s")
            return True
        with self.drawn.in_place():
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
