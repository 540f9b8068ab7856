"""Statistics of ended runs, small enough to keep for each hour and day: counts, and histograms of times in steps of 19 %."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any
from zlib import crc32

from quarterjack.domain.history.entry import HistoryEntry
from quarterjack.domain.message import GARBAGE, unreadable

_STEPS = 4  # of a histogram for each doubling of a time
_MOST_ERRORS = 20  # error types that are counted by name in one tally
_NAMES = 1_000  # of one part
OTHER = "other"  # the rest


@dataclass
class Tally:
    """What is counted of some runs."""

    outcomes: dict[str, int] = field(
        default_factory=dict
    )  # runs by state; the row of a gap counts for its missed fires
    attempts: int = 0  # begun
    lateness: dict[int, int] = field(default_factory=dict)  # runs by the step of the time from due to the first start
    duration: dict[int, int] = field(default_factory=dict)  # the same: from the first start to the end
    errors: dict[str, int] = field(default_factory=dict)  # runs by the class of their last failure

    @property
    def runs(self) -> int:
        return sum(self.outcomes.values())

    def add(self, entry: HistoryEntry) -> None:
        _count(self.outcomes, str(entry.state), entry.skipped or 1)
        self.attempts += entry.attempt
        if entry.started_at is not None:
            _count(self.lateness, step_of(entry.started_at - entry.due))
            _count(self.duration, step_of(entry.at - entry.started_at))
        if entry.error_type is not None:
            _count(self.errors, self._named(entry.error_type))

    def merge(self, other: Tally) -> None:
        self.attempts += other.attempts
        for mine, theirs in (
            (self.outcomes, other.outcomes),
            (self.lateness, other.lateness),
            (self.duration, other.duration),
        ):
            for key, number in theirs.items():
                _count(mine, key, number)
        for error, number in other.errors.items():
            _count(self.errors, self._named(error), number)

    def _named(self, error: str) -> str:
        return error if error in self.errors or len(self.errors) < _MOST_ERRORS else OTHER

    def as_list(self) -> list[Any]:
        return [self.outcomes, self.attempts, self.lateness, self.duration, self.errors]


def tally_of(listed: Sequence[Any]) -> Tally:
    """The reverse of ``as_list``, after JSON."""
    outcomes, attempts, lateness, duration, errors = listed
    late, took = ({int(step): int(number) for step, number in one.items()} for one in (lateness, duration))
    return Tally(outcomes=dict(outcomes), attempts=int(attempts), lateness=late, duration=took, errors=dict(errors))


def _count(counts: dict[Any, int], key: Any, number: int = 1) -> None:
    counts[key] = counts.get(key, 0) + number


def step_of(ms: int) -> int:
    """The step of a time; 0: none."""
    return 0 if ms <= 0 else 1 + int(_STEPS * log2(ms))


def time_of(step: int) -> float:
    """The middle of a step in ms."""
    return 0.0 if step <= 0 else float(2 ** ((step - 0.5) / _STEPS))


def quantile(steps: Mapping[int, int], share: float) -> float | None:
    """The time (ms) that this share of the runs does not exceed, to about 9 %; None without runs."""
    left = share * sum(steps.values())
    for step in sorted(steps):
        left -= steps[step]
        if left <= 1e-9:
            return time_of(step)
    return None


@dataclass
class Stats:
    """The tallies of an hour or a day."""

    jobs: dict[str, Tally] = field(default_factory=dict)  # by job
    schedules: dict[str, Tally] = field(default_factory=dict)  # by schedule; one-offs have none

    def add(self, entry: HistoryEntry) -> None:
        self.jobs.setdefault(entry.job, Tally()).add(entry)
        if entry.schedule is not None:
            self.schedules.setdefault(entry.schedule, Tally()).add(entry)

    def merge(self, other: Stats) -> None:
        for mine, theirs in ((self.jobs, other.jobs), (self.schedules, other.schedules)):
            for name, tally in theirs.items():
                mine.setdefault(name, Tally()).merge(tally)


def encode(stats: Stats) -> bytes:
    """Statistics as bytes; equal ones give equal bytes."""
    columns = [{name: tally.as_list() for name, tally in sorted(one.items())} for one in (stats.jobs, stats.schedules)]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return zlib.compress(text.encode(), 9)


def encode_parts(stats: Stats) -> list[bytes]:
    """The same in parts that each fit into an item; every name is in one of them."""
    number = max(1, -(-(len(stats.jobs) + len(stats.schedules)) // _NAMES))
    found = [Stats() for _ in range(number)]
    for name, tally in stats.jobs.items():
        found[crc32(name.encode()) % number].jobs[name] = tally
    for name, tally in stats.schedules.items():
        found[crc32(name.encode()) % number].schedules[name] = tally
    return [encode(one) for one in found]


def decode(body: bytes) -> Stats:
    """The reverse of ``encode``. Raises Unreadable."""
    try:
        jobs, schedules = json.loads(zlib.decompress(body))
        return Stats(*({name: tally_of(listed) for name, listed in one.items()} for one in (jobs, schedules)))
    except (*GARBAGE, zlib.error) as problem:
        raise unreadable("statistics of the history", problem) from problem


def outcomes_of(stats: Stats) -> dict[str, int]:
    """All runs of some statistics by state."""
    found = Tally()
    for tally in stats.jobs.values():
        found.merge(tally)
    return found.outcomes


def total(several: Iterable[Stats]) -> Stats:
    found = Stats()
    for one in several:
        found.merge(one)
    return found
