"""The ticker, modelled: when the message of each fire becomes visible. What is claimed when is planned by the real ``plan_step``.

Schedules are cohorts: one that is planned for real, and how many are like it. Invocations side by side go through equal shares of
the shards, so a few pool, at different moments, stand for all. In a lane the real sizes hold: pages, groups, batches, messages that
share a reading of the clock; each with the real ``delay_for``. A lane takes its entries oldest first, as if its shards were one.
Tables are as warm as at first.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from quarterjack.concurrency.rate_limits import SOON
from quarterjack.domain.policies import Start
from quarterjack.domain.schedule import Revision
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.dynamodb.table_client import READS, STATEMENTS, WRITES
from quarterjack.fires.chain import _FIRES_AT_ONCE
from quarterjack.fires.claim import _BATCH
from quarterjack.fires.context import LOOKAHEAD, PAGE
from quarterjack.fires.plan import ChainPlan, first_entry, plan_chain
from quarterjack.sqs.routing import BATCH
from quarterjack.state.capacity.figures import DATABASE_CALL, PARTITION_WRITES, QUEUE_CALL
from quarterjack.state.start import delay_for
from quarterjack.ticker.fan_out import ALONE, FanOutConfig

from bench.modelled.assumptions import PACED, TICK_CPU, TICK_JITTER
from bench.modelled.lateness import STEP
from bench.modelled.settings import Setting

BIN = 50  # ms in which messages become visible at the same time
_LANES = 4  # that are gone through; they stand for all invocations
_BUDGET = 50 * SECOND  # of a tick
_OLDEST = 90 * DAY
_STEP_WRITES = 2  # of the agenda: the next entry, and this one gone


@dataclass(frozen=True)
class Cohort:
    """Schedules that are planned alike."""

    revision: Revision
    weight: float  # how many


@dataclass
class Visible:
    """What the ticker sent: by the bin in which it becomes visible, how late that is of how many fires."""

    bins: dict[int, Counter[int]] = field(default_factory=dict)  # bars of lateness
    fires: float = 0.0
    passed: float = 0.0  # missed fires that the policy passes over
    steps: float = 0.0
    claims: Counter[int] = field(default_factory=Counter)  # by second
    throttled: float = 0.0  # writes that had to wait for capacity
    busy: float = 0.0  # seconds of invocations
    calls: float = 0.0
    behind: float = 0.0  # s: the latest claim after its fire's time
    since: int = 0  # UTC ms from which on it is asked what had to wait, and what was late

    def add(self, at: float, due: int, fires: float) -> None:
        bars = self.bins.setdefault(int(at) // BIN, Counter())
        bars[max(int(at - due), 0) // STEP] += fires  # type: ignore[assignment]
        self.fires += fires


def run_ticker(
    cohorts: Sequence[Cohort], setting: Setting, *, start: int, end: int, seed: int, since: int = 0
) -> Visible:
    """Ticks from ``start`` until all that is due before ``end`` (UTC ms) was sent. What was late before ``since`` is not noted."""
    visible = Visible(since=since)
    count = min(invocations_of(cohorts, setting), _LANES)
    for number in range(count):
        _Lane(cohorts, setting, share=1 / count, number=number, visible=visible, seed=seed).run(start, end)
    return visible


def spread_of(setting: Setting) -> FanOutConfig:
    """How a tick is spread out."""
    return FanOutConfig(threads=setting.threads, groups=setting.invocations, writes=setting.ticker_writes)


def invocations_of(cohorts: Sequence[Cohort], setting: Setting) -> int:
    """How many invocations the busiest minute of the chains' second steps takes, as ``ticker/fan_out.py`` decides it."""
    minutes = Counter[int]()
    for cohort in cohorts:
        entry = first_entry(cohort.revision)
        if entry is not None:
            step = plan_chain(cohort.revision, after=entry.after, now=entry.due - LOOKAHEAD, oldest=0)
            due = entry.due if step.following is None else step.following.due
            minutes[due // MINUTE] += cohort.weight  # type: ignore[assignment]
    busiest, most = max(minutes.values(), default=0), min(spread_of(setting).most(soon=False), setting.shards)
    return most if busiest > PAGE * setting.shards else max(min(-(-int(busiest) // ALONE), most), 1)


@dataclass
class _Capacity:
    """Of a table: when the next write may begin."""

    free: float = 0.0


class _Lane:
    """One invocation a minute, which stands for several."""

    def __init__(
        self,
        cohorts: Sequence[Cohort],
        setting: Setting,
        *,
        share: float,
        number: int,
        visible: Visible,
        seed: int,
    ) -> None:
        self._invocations = invocations_of(cohorts, setting)
        self._threads = min(setting.threads, -(-setting.shards // self._invocations))
        self._stands_for = self._invocations * share
        self._setting, self._visible = setting, visible
        self._jitter = random.Random(seed)  # the same for all pool: they are invoked together
        self._apart = number * SECOND / _LANES
        self._end = 0
        self._runs, self._agenda = _Capacity(), _Capacity()
        self._cohorts = cohorts
        self._weights: dict[tuple[int, int, int], float] = {}  # (due, after, cohort): entries of this lane
        self._heap: list[tuple[int, int, int]] = []
        for place, cohort in enumerate(cohorts):
            entry = first_entry(cohort.revision)
            if entry is not None:
                self._put((entry.due, entry.after, place), cohort.weight / self._invocations)

    def _put(self, key: tuple[int, int, int], weight: float) -> None:
        if key not in self._weights:
            heapq.heappush(self._heap, key)
        self._weights[key] = self._weights.get(key, 0.0) + weight

    def run(self, start: int, end: int) -> None:
        self._end = end
        free = float(start)
        for minute in range(start, end + 120 * MINUTE, MINUTE):
            began = minute + self._jitter.uniform(0, TICK_JITTER.value * SECOND) + self._apart
            now = max(began, free)
            deadline = began + _BUDGET
            while now < deadline and self._heap and self._heap[0][0] <= now + LOOKAHEAD and self._heap[0][0] < end:
                now = self._page(now)
            self._visible.busy += max(now - began, 0) / SECOND * self._stands_for
            free = now
            if not self._heap or self._heap[0][0] >= end:
                return

    def _page(self, now: float) -> float:
        """A page of entries, planned and followed in groups; when it was done."""
        now += DATABASE_CALL.value
        room, group, fires = float(PAGE), [], 0.0
        while room > 0 and self._heap and self._heap[0][0] <= now + LOOKAHEAD and fires < _FIRES_AT_ONCE:
            key = self._heap[0]
            step = self._planned(key, int(now))
            each = max(len(step.fires), 1)
            weight = min(self._weights[key], room, max((_FIRES_AT_ONCE - fires) / each, 1))
            self._take(key, weight)
            group.append((key, step, weight))
            room -= weight
            fires += weight * len(step.fires)
        return self._follow(group, fires, now)

    def _planned(self, key: tuple[int, int, int], now: int) -> ChainPlan:
        return plan_chain(self._cohorts[key[2]].revision, after=key[1], now=now, oldest=now - _OLDEST)

    def _take(self, key: tuple[int, int, int], weight: float) -> None:
        left = self._weights[key] - weight
        if left > 1e-9:
            self._weights[key] = left
        else:
            del self._weights[key]
            heapq.heappop(self._heap)

    def _follow(
        self, group: Sequence[tuple[tuple[int, int, int], ChainPlan, float]], fires: float, now: float
    ) -> float:
        """Claim and send the fires of a group, then let the chains move on."""
        entries = sum(weight for _, _, weight in group)
        reading, claiming, sending, moving = self._stages(entries, fires)
        pace = self._pace(group, now + reading)
        claim_from = self._begin(self._runs, now + reading, fires, pace, paced=True)
        send_from = claim_from + claiming
        self._claimed(claim_from, max(send_from, self._runs.free), fires)
        for key, step, weight in group:
            self._send(step.fires, weight, send_from, sending, fires)
            passed = sum(fire < self._end for fire in step.passed)
            self._visible.passed += weight * passed * self._stands_for
            self._visible.steps += weight * self._stands_for
            if step.following is not None:
                self._put((step.following.due, step.following.after, key[2]), weight)
        batches = entries / READS + fires / STATEMENTS + fires / BATCH + 2 * entries / WRITES + 1
        self._visible.calls += batches * self._stands_for
        # each thread of an invocation is at one shard, which is one key
        rate = min(self._setting.warm_writes, self._invocations * self._threads * PARTITION_WRITES.value)
        return self._begin(self._agenda, send_from + sending, entries * _STEP_WRITES, rate) + moving

    def _pace(self, group: Sequence[tuple[tuple[int, int, int], ChainPlan, float]], now: float) -> float:
        """Claims a second, of all invocations: those of the share, unless one of the group is due soon."""
        most = self._setting.warm_writes * PACED.value
        earliest = min((step.fires[0] for _, step, _ in group if step.fires), default=0)
        waits = self._setting.ticker_writes > 0 and earliest - SOON > max(now, self._runs.free)
        return min(most, self._setting.ticker_writes) if waits else most

    def _stages(self, entries: float, fires: float) -> tuple[float, float, float, float]:
        """ms of reading, claiming, sending and moving on.

        Threads overlap, as far as the processor and the pool of each stage, which they share, let them.
        """
        side_by_side = self._setting.requests
        cpu = fires * TICK_CPU.value / 1_000
        waits = [
            entries / READS * DATABASE_CALL.value / side_by_side,
            fires / STATEMENTS * DATABASE_CALL.value / side_by_side,
            fires / BATCH * QUEUE_CALL.value / side_by_side,
            2 * entries / WRITES * DATABASE_CALL.value / side_by_side,
        ]
        alone = sum(waits) + cpu
        overlapped = max(cpu, *waits, alone / self._threads) / alone if alone else 1.0
        reading, claiming, sending, moving = waits
        return reading * overlapped, claiming * overlapped, (sending + cpu) * overlapped, moving * overlapped

    def _begin(self, on: _Capacity, now: float, writes: float, rate: float, *, paced: bool = False) -> float:
        """When such writes may begin, at a rate that all invocations share; what has to wait counts as throttled unless paced."""
        needed = writes * self._invocations / rate * SECOND
        begin = max(now, on.free)
        if not paced and begin >= self._visible.since:
            self._visible.throttled += writes * min((begin - now) / needed, 1) * self._stands_for if needed else 0
        on.free = begin + needed
        return begin

    def _claimed(self, begin: float, end: float, fires: float) -> None:
        """Evenly over that time."""
        each = fires * self._stands_for / max(end - begin, 1.0)
        for second in range(int(begin) // SECOND, int(max(end, begin + 1)) // SECOND + 1):
            within = min(max(end, begin + 1), (second + 1) * SECOND) - max(begin, second * SECOND)
            self._visible.claims[second] += max(within, 0.0) * each  # type: ignore[assignment]

    def _send(self, dues: Sequence[int], weight: float, start: float, sending: float, fires: float) -> None:
        """The messages of a step, spread evenly over those of its group, 400 for one reading of the clock."""
        for at, share in _readings(start, sending, fires):
            each = weight * share * self._stands_for
            for due in dues:
                if due >= self._end:  # claimed with others, beyond what is asked about
                    continue
                delay = delay_for(due, Start.PROMPT, int(at))
                accepted = at + sending * share / 2  # on average
                self._visible.add(max(accepted + delay * SECOND, accepted), due, each)
                if due >= self._visible.since:
                    self._visible.behind = max(self._visible.behind, (accepted - due) / SECOND)


def _readings(start: float, sending: float, fires: float) -> Iterator[tuple[float, float]]:
    """When the clock is read, and for which share of the messages."""
    count = max(1, round(fires / _BATCH))
    for number in range(count):
        yield start + sending * number / count, 1 / count
