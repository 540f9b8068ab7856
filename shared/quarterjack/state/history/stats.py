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
from quarterjack.domain.run import RunState

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
    failed: int = 0  # of these, see ``failed_attempts``
    lateness: dict[int, int] = field(default_factory=dict)  # runs by the step of the time from due to the first start
    duration: dict[int, int] = field(default_factory=dict)  # the same: from the first start to the end
    errors: dict[str, int] = field(default_factory=dict)  # runs by the class of their last failure

    @property
    def runs(self) -> int:
        return sum(self.outcomes.values())

    def add(self, entry: HistoryEntry) -> None:
        _count(self.outcomes, str(entry.state), entry.skipped or 1)
        self.attempts += entry.attempt
        self.failed += failed_attempts(entry)
        if entry.started_at is not None:
            _count(self.lateness, step_of(entry.started_at - entry.due))
            _count(self.duration, step_of(entry.at - entry.started_at))
        if entry.error_type is not None:
            _count(self.errors, self._named(entry.error_type))

    def merge(self, other: Tally) -> None:
        self.attempts += other.attempts
        self.failed += other.failed
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
        return [self.outcomes, self.attempts, self.failed, self.lateness, self.duration, self.errors]


def tally_of(listed: Sequence[Any]) -> Tally:
    """The reverse of ``as_list``, after JSON."""
    outcomes, attempts, failed, lateness, duration, errors = listed
    late, took = ({int(step): int(number) for step, number in one.items()} for one in (lateness, duration))
    counts = {"attempts": int(attempts), "failed": int(failed)}
    return Tally(outcomes=dict(outcomes), lateness=late, duration=took, errors=dict(errors), **counts)


def failed_attempts(entry: HistoryEntry) -> int:
    """The attempts of an ended run that failed, timed out or lost their worker; the last one of a cancelled run is not counted."""
    ended_well = entry.state in (RunState.SUCCEEDED, RunState.CANCELLED)
    return max(entry.attempt - ended_well, 0)


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
    versions: dict[str, Tally] = field(default_factory=dict)  # by application version, of runs that are assigned to one

    def add(self, entry: HistoryEntry) -> None:
        self.jobs.setdefault(entry.job, Tally()).add(entry)
        if entry.schedule is not None:
            self.schedules.setdefault(entry.schedule, Tally()).add(entry)
        if entry.app_version is not None:
            self.versions.setdefault(entry.app_version, Tally()).add(entry)

    def columns(self) -> tuple[dict[str, Tally], dict[str, Tally], dict[str, Tally]]:
        return self.jobs, self.schedules, self.versions

    def merge(self, other: Stats) -> None:
        for mine, theirs in zip(self.columns(), other.columns(), strict=True):
            for name, tally in theirs.items():
                mine.setdefault(name, Tally()).merge(tally)


def encode(stats: Stats) -> bytes:
    """Statistics as bytes; equal ones give equal bytes."""
    columns = [{name: tally.as_list() for name, tally in sorted(one.items())} for one in stats.columns()]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return zlib.compress(text.encode(), 9)


def encode_parts(stats: Stats) -> list[bytes]:
    """The same in parts that each fit into an item; every name is in one of them."""
    number = max(1, -(-sum(map(len, stats.columns())) // _NAMES))
    found = [Stats() for _ in range(number)]
    for place, column in enumerate(stats.columns()):
        for name, tally in column.items():
            found[crc32(name.encode()) % number].columns()[place][name] = tally
    return [encode(one) for one in found]


def decode(body: bytes) -> Stats:
    """The reverse of ``encode``. Raises Unreadable."""
    try:
        jobs, schedules, versions = json.loads(zlib.decompress(body))
        return Stats(*({name: tally_of(listed) for name, listed in one.items()} for one in (jobs, schedules, versions)))
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
