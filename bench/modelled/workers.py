"""Lambda on SQS, modelled: when a message that is visible has its lease. Second by second in bins, first come, first served.

Pollers, functions at once, new environments, messages in flight and the table's writes bound how many batches begin in a bin; what does
not begin waits. A batch holds its function until its runs have settled.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from quarterjack.state.capacity.figures import (
    COLD_START,
    DATABASE_CALL,
    POLLER_BATCHES,
    POLLER_CALLS,
    QUEUE_CALL,
    STANDARD_MOST,
    STANDARD_RAMP,
    STANDARD_START,
    WORK_CPU,
)

from bench.modelled.assumptions import DOUBLING, ENVIRONMENTS_RAMP, IN_FLIGHT, PROVISIONED_RAMP
from bench.modelled.lateness import Lateness
from bench.modelled.settings import Setting
from bench.modelled.ticker import BIN, Visible

_BATCH = 10
_PER_SECOND = 1_000 / BIN
_LONGEST = 6 * 3_600  # seconds after which a model that still has a backlog gives up


@dataclass
class Worked:
    """What became of the messages."""

    lateness: Lateness = field(default_factory=Lateness)  # at the committed lease, calls left out
    started: float = 0.0
    left: float = 0.0  # that never began: the model gave up
    batches: float = 0.0
    cold: float = 0.0
    most_functions: float = 0.0
    most_waiting: float = 0.0
    throttled: float = 0.0  # leases that had to wait for the table
    function_seconds: float = 0.0
    seconds: float = 0.0  # from the first message to the last start


class _Pollers:
    """How many batches may be at work at once."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        provisioned = setting.pollers is not None
        kept = (setting.pollers or 0) * POLLER_BATCHES.value
        most = max(setting.most_pollers or 0, setting.pollers or 0) * POLLER_BATCHES.value
        self._now = (kept if provisioned else STANDARD_START.value) * setting.queues
        self._most = (most if provisioned else STANDARD_MOST.value) * setting.queues
        ramp = PROVISIONED_RAMP.value if provisioned else STANDARD_RAMP.value
        self._step = ramp / 60 / _PER_SECOND * setting.queues

    @property
    def batches(self) -> float:
        flying = self._setting.queues * IN_FLIGHT.value / _BATCH
        return min(self._now, self._setting.functions, flying)

    @property
    def receives(self) -> float:
        """In one bin."""
        if self._setting.pollers is None:
            return float("inf")
        return self._now / POLLER_BATCHES.value * POLLER_CALLS.value / _PER_SECOND

    def grow(self) -> None:
        """Messages wait."""
        self._now = min(self._most, self._now + self._step)


class Table:
    """Writes that the table of runs takes; it doubles after it was asked for more for half an hour."""

    def __init__(self, setting: Setting) -> None:
        self.rate, self._quota = setting.warm_writes, setting.quota_writes
        self._pressed = 0.0

    def press(self, seconds: float) -> None:
        self._pressed += seconds
        if self._pressed >= DOUBLING.value:
            self.rate, self._pressed = min(self.rate * 2, max(self._quota, self.rate)), 0.0


def run_workers(visible: Visible, setting: Setting) -> Worked:
    """From the first visible message to the last start."""
    return _Shift(visible, setting).run()


class _Shift:
    def __init__(self, visible: Visible, setting: Setting) -> None:
        self._bins: Mapping[int, Counter[int]] = visible.bins
        self._claims = visible.claims
        self._since = visible.since
        self._setting = setting
        self._pollers, self._table = _Pollers(setting), Table(setting)
        self._waiting: deque[tuple[int, Counter[int], float, float]] = deque()  # bin, bars, of them, still waiting
        self._backlog = 0.0
        self._busy = 0.0
        self._ends: dict[int, tuple[float, float]] = {}  # bin: batches that end there, their runs
        self._warm = setting.warm_functions
        self._fresh = ENVIRONMENTS_RAMP.value  # environments that may be made at once
        self.worked = Worked()
        self._before = Worked()  # what nobody asks about

    def run(self) -> Worked:
        if not self._bins:
            return self.worked
        now = first = min(self._bins)
        last = max(self._bins)
        while (now <= last or self._backlog > 1e-6) and now - first < _LONGEST * _PER_SECOND:
            self._one(now)
            now += 1
        self.worked.left = self._backlog
        self.worked.seconds = (now - first) / _PER_SECOND
        return self.worked

    def _one(self, now: int) -> None:
        """One bin."""
        came = self._bins.get(now)
        if came is not None:
            fires = sum(came.values())
            self._waiting.append((now, came, fires, fires))
            self._backlog += fires
        ended, settled = self._ends.pop(now, (0.0, 0.0))
        self._busy -= ended
        self._warm = min(self._warm, self._setting.functions)
        self._fresh = min(self._fresh + ENVIRONMENTS_RAMP.value / 10 / _PER_SECOND, ENVIRONMENTS_RAMP.value)
        if self._backlog > 0:
            self._begin(now, settled)
        noted = self._noted(now)
        noted.most_waiting = max(noted.most_waiting, self._backlog)
        self.worked.function_seconds += self._busy / _PER_SECOND

    def _noted(self, now: int) -> Worked:
        """Where it is noted how late a bin's starts are."""
        return self.worked if now * BIN >= self._since else self._before

    def _begin(self, now: int, settled: float) -> None:
        """As many batches as may begin."""
        idle = max(self._warm - self._busy, 0.0)
        slots = min(self._pollers.batches - self._busy, self._pollers.receives, idle + self._fresh)
        leases = self._table.rate / _PER_SECOND - settled - self._claims[now * BIN // 1_000] / _PER_SECOND
        runs = min(self._backlog, max(slots, 0.0) * _BATCH)
        if runs > leases:
            self._noted(now).throttled += runs - max(leases, 0.0)
            self._table.press(1 / _PER_SECOND)
            runs = max(leases, 0.0)
        if runs > 0:
            batches = min(max(runs / _BATCH, min(slots, runs)), slots)  # spread over all that poll
            cold = max(batches - idle, 0.0)
            self._fresh -= cold
            self._warm = max(self._warm, self._busy + batches)
            self._start(now, runs, cold / batches)
            self._hold(now, batches, cold, runs)
        if self._backlog > 1e-6:
            self._pollers.grow()

    def _start(self, now: int, runs: float, cold: float) -> None:
        """So many runs, those that wait longest first."""
        self.worked.started += runs
        lateness = self._noted(now).lateness
        self._backlog = max(self._backlog - runs, 0.0)
        while runs > 1e-9 and self._waiting:
            came, bars, of, left = self._waiting.popleft()
            taken = min(left, runs)
            wait = (now - came) * BIN
            lateness.add_all(bars, wait, taken / of * (1 - cold))
            if cold > 0:
                lateness.add_all(bars, wait + COLD_START.value, taken / of * cold)
            runs -= taken
            if left - taken > 1e-9:
                self._waiting.appendleft((came, bars, of, left - taken))

    def _hold(self, now: int, batches: float, cold: float, runs: float) -> None:
        """Keep the functions until their runs have settled."""
        worked = self.worked
        worked.batches += batches
        worked.cold += cold
        self._busy += batches
        noted = self._noted(now)
        noted.most_functions = max(noted.most_functions, self._busy)
        takes = duration(self._setting.job_ms, runs / batches)
        for part, ms in ((batches - cold, takes), (cold, takes + COLD_START.value)):
            if part > 0:
                at = now + max(1, round(ms / BIN))
                ended, settled = self._ends.get(at, (0.0, 0.0))
                self._ends[at] = (ended + part, settled + runs * part / batches)


def duration(job_ms: float, runs: float) -> float:
    """ms of a warm batch: visibility, revisions, lease, the jobs side by side, settlement, deletion."""
    return 3 * DATABASE_CALL.value + 2 * QUEUE_CALL.value + job_ms + runs * WORK_CPU.value / 1_000
