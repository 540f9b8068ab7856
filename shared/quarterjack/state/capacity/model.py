"""The capacity model: how late the last of many fires of one instant starts, and where an installation stops growing. Pure.

    due ──0 to 1 s──► visible ──workers grow in number──► as many as may be ──► the last starts
                                 │ rate rises evenly       │ rate is level: functions, pollers, slots, or the table's writes

``bench/modelled`` simulates the same inputs second by second, with the planning code that ships; a test holds the two together. Nothing
of it was measured on AWS.
"""

from __future__ import annotations

from math import inf, sqrt

from quarterjack.state.capacity.figures import (
    AHEAD,
    CLAIM_WRITES,
    COLD_START,
    DATABASE_CALL,
    DEFAULT_FUNCTIONS,
    JOB,
    NEW_TABLE_WRITES,
    PARTITION_WRITES,
    POLLER_BATCHES,
    POLLER_CALLS,
    PROCESS_MOST,
    PROCESS_RUN,
    QUEUE_CALL,
    RUN_WRITES,
    SHARDS,
    STANDARD_MOST,
    STANDARD_RAMP,
    STANDARD_START,
    STEP_WRITES,
    TICKER_WRITES,
    WORK_CPU,
)
from quarterjack.values import value

GOAL = 2.0  # seconds within which the fires of an instant shall start
QUIET = 100  # fires of an instant below which nothing is asked or said

_BATCH = 10  # messages of an invocation
_CALLS = 0.2  # seconds from visible to leased: delivery and three calls, at the 99th percentile of bench/modelled
_PROMPT = 1.0  # seconds within which a message of start="prompt" is visible
_WINDOWS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400)  # seconds


@value(kw_only=True)
class Stack:
    """What starts the runs of a queue. The defaults are those of the CDK construct in a fresh account."""

    stripes: int = 1  # SQS queues that the queue consists of
    functions: int | None = int(
        DEFAULT_FUNCTIONS.value
    )  # Lambda functions at once, of all stripes; None: as many as pollers give
    pollers: int | None = None  # provisioned ones of each stripe; None: standard polling
    batch: int = _BATCH  # runs of a function
    warm: bool = False  # whether functions are started already
    processes: int = 0  # worker processes; 0: Lambda functions work
    slots: int = 0  # runs at once of all worker processes
    writes: float = NEW_TABLE_WRITES.value  # units a second that the table of runs takes
    shards: int = int(SHARDS.value)  # of the agenda
    ticker_writes: int = int(TICKER_WRITES.value)  # units a second of a tick's claims; 0: no limit
    job_ms: float = JOB.value

    @property
    def first(self) -> float:
        """Runs that start in a second before the number of workers grows."""
        if self.processes:
            return min(self.slots / (PROCESS_RUN.value + self.job_ms) * 1_000, self.processes * PROCESS_MOST.value)
        if self.pollers is not None:
            receives = self.pollers * self.stripes * POLLER_CALLS.value * self.batch
            return min(receives, self._rate(self.pollers * self.stripes * POLLER_BATCHES.value))
        return self._rate(STANDARD_START.value * self.stripes)

    @property
    def growth(self) -> float:
        """Further runs a second, each second while messages wait."""
        if self.processes or self.pollers is not None:
            return 0.0
        return STANDARD_RAMP.value / 60 * self.stripes * self.batch / self._held

    @property
    def level(self) -> float:
        """Runs that start in a second at the most, whatever waits."""
        written = self.writes / RUN_WRITES.value
        if self.processes or self.pollers is not None:
            return min(self.first, written)
        return min(self._rate(STANDARD_MOST.value * self.stripes), written)

    @property
    def claims(self) -> float:
        """Fires that the ticker claims in a second."""
        shards = self.shards * PARTITION_WRITES.value / STEP_WRITES.value
        return min(shards, self.ticker_writes or self.writes) / CLAIM_WRITES.value

    @property
    def steady(self) -> float:
        """Fires a second that start without waiting for further workers, claims of the same table included."""
        return min(self.first, self.writes / (RUN_WRITES.value + CLAIM_WRITES.value))

    @property
    def _held(self) -> float:
        """Seconds that a batch has its function."""
        calls = 3 * DATABASE_CALL.value + 2 * QUEUE_CALL.value
        return (calls + self.job_ms + self.batch * WORK_CPU.value / 1_000) / 1_000

    def _rate(self, batches: float) -> float:
        return min(batches, inf if self.functions is None else self.functions) * self.batch / self._held


def lateness(fires: int, stack: Stack) -> float:
    """Seconds from an instant until 99 % of so many fires of it have started, as ``start="prompt"`` starts them."""
    cold = 0.0 if stack.warm or stack.processes else COLD_START.value / 1_000
    claimed = fires / stack.claims - AHEAD.value
    written = fires * (CLAIM_WRITES.value + RUN_WRITES.value) / stack.writes - AHEAD.value
    return max(_drained(fires, stack), _PROMPT, claimed, written) + cold + _CALLS


def _drained(fires: float, stack: Stack) -> float:
    """Seconds in which workers whose number grows from the first message on start so many runs."""
    first, level = min(stack.first, stack.level), stack.level
    if level <= 0:
        return inf
    growth = stack.growth
    until = (level - first) / growth if growth else 0.0  # seconds until the rate is level
    growing = first * until + growth * until**2 / 2
    if fires <= growing:
        return (sqrt(first**2 + 2 * growth * fires) - first) / growth
    return until + (fires - growing) / level


def is_late(fires: int, stack: Stack) -> bool:
    """Whether so many fires of an instant take longer than GOAL, and longer than a single one does."""
    late = lateness(fires, stack)
    return fires >= QUIET and late > GOAL and late > lateness(1, stack)


def window(fires: int, stack: Stack) -> int | None:
    """The shortest usual ``spread`` (seconds) over which so many fires start without waiting; None: no such is long enough."""
    return next((seconds for seconds in _WINDOWS if fires / seconds <= stack.steady), None)


def late_words(fires: int, at: str, queue: str, stack: Stack) -> str | None:
    """Say how late the fires of an instant start, and the remedy; None: they are in time."""
    if not is_late(fires, stack):
        return None
    seconds = window(fires, stack)
    spread = "" if seconds is None else f"spread them by Rule(window={seconds}) or Queue(spread={seconds}), or "
    return (
        f"{fires:,} fires of queue {queue} are due at {at}: by the capacity model the last of them start "
        f"{lateness(fires, stack):,.0f} s late; {spread}give the queue more {_more(fires, stack)}"
    )


def _more(fires: int, stack: Stack) -> str:
    workers = "worker processes" if stack.processes else "pollers (`pollers`, `stripes`)"
    is_table = fires / (stack.writes / RUN_WRITES.value) > _PROMPT
    return f"{workers}, and warm the table of runs (its warm throughput)" if is_table else workers
