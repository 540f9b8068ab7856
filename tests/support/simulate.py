"""``make proof FOR=600 SEED=1``: histories of all kinds, on all cores, for as long as it is told.

Ends with ``histories=… executions=… faults=… violations=…``, and with 1 if anything broke. What broke is shrunk and told; the whole
timeline goes to ``build/proof/``. ``python -m tests.support.simulate --only 12345`` plays one seed again, and ``--kind described``
plays histories of that kind alone.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import multiprocessing
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from quarterjack.domain.times import HOUR

from tests.support.arguments import number, seconds
from tests.support.histories.capped import Capped, Flowing
from tests.support.histories.dense import Dense
from tests.support.histories.described import Described
from tests.support.histories.ended import Ended
from tests.support.histories.exclusive import Exclusive
from tests.support.histories.explained import Explained
from tests.support.histories.filling import Filling
from tests.support.histories.governed import Governed
from tests.support.histories.granted import Granted
from tests.support.histories.history import FAR, History
from tests.support.histories.laned import Laned
from tests.support.histories.moved import Moved, RecordedMoves
from tests.support.histories.outages import Outages
from tests.support.histories.parked import Parked
from tests.support.histories.pipelines import Pipelines
from tests.support.histories.pressed import Pressed
from tests.support.histories.purged import Purged
from tests.support.histories.recorded import Recorded, Unfollowed
from tests.support.histories.rich import Brief, Rich
from tests.support.histories.shrink import about, shrink
from tests.support.histories.simulator import CALM, HOSTILE, ROUGH, WILD, Faults
from tests.support.histories.spread import Spread
from tests.support.histories.versions import Versions


class Patient(Filling):
    """Backfills under hostile faults: each message that comes twenty minutes late takes its place in the window."""

    quiet = 2 * HOUR


KINDS: tuple[type[History], ...] = (*(Rich, Brief, Exclusive, Brief, Patient, History, Brief) * 3, Dense, Pressed)
# Played when asked for by name.
ALONE: dict[str, type[History]] = {
    "described": Described,
    "history": Recorded,
    "gap": Unfollowed,
    "why": Explained,
    "moved": Moved,
    "recorded moves": RecordedMoves,
    "outages": Outages,
    "granted": Granted,
    "lanes": Laned,
    "capped": Capped,
    "flow": Flowing,
    "governed": Governed,
    "spread": Spread,
    "purged": Purged,
    "parked": Parked,
    "pipelines": Pipelines,
    "versions": Versions,
    "ended": Ended,
}
CLASSES: tuple[Faults, ...] = (
    HOSTILE,
    ROUGH,
    WILD,
    HOSTILE,
    replace(HOSTILE, skew=FAR),
    replace(CALM, skew=0, repeat=0.3),
    replace(WILD, skew=FAR),
)
BUILD = Path("build/proof")
_REPORTED = 5  # violations that are shrunk and told in full
_SHOWN = 30  # strikes


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one history was and came to."""

    seed: int
    kind: str
    executions: int  # leases that were granted
    calls: int
    faults: Counter[str]
    violations: list[str]
    durations: dict[str, list[int]]  # ms, by kind of act, where the history logs them


def history_of(seed: int, kind: str | None = None) -> History:
    """The history of a seed: its kind, its faults, and everything that happens in it."""
    if kind is not None:
        return ALONE[kind](seed, CLASSES[seed % len(CLASSES)])
    return KINDS[seed % len(KINDS)](seed, CLASSES[seed // len(KINDS) % len(CLASSES)])


def counts_of(seed: int, kind: str) -> Counter[str]:
    """What happened in a history of that kind, in which nothing may break a promise."""
    history = history_of(seed, kind)
    assert history.judged() == [], f"python -m tests.support.simulate --kind {kind} --only {seed}"
    return history.stage.counts


def play(seed: int, kind: str | None = None) -> Result:
    """One history."""
    made = history_of(seed, kind)
    try:
        found = made.judged()
    except Exception as problem:  # noqa: BLE001 (a defect of the code under test, or of the harness: both are findings)
        found = [f"defect: {problem!r}"]
    struck = Counter(kind for kind, _ in made.stage.struck if not kind.startswith("act "))
    struck["unreachable"] = made.stage.counts["unreachable"]
    return Result(
        seed=seed,
        kind=type(made).__name__,
        executions=len(made.seen.leases),
        calls=made.stage.calls,
        faults=struck,
        violations=found,
        durations=made.durations(),
    )


def results(first: int, seconds: float, processes: int, most: int | None, kind: str | None = None) -> Iterator[Result]:
    """Histories from seed ``first`` on, until so many seconds are over or ``most`` are played."""
    deadline = time.monotonic() + seconds
    seeds = itertools.count(first) if most is None else iter(range(first, first + most))
    until = itertools.takewhile(lambda _: time.monotonic() < deadline, seeds)
    with multiprocessing.get_context("spawn").Pool(processes, logging.disable, [logging.CRITICAL]) as pool:
        window = [pool.apply_async(play, (seed, kind)) for seed in itertools.islice(until, 2 * processes)]
        while window:
            yield window.pop(0).get()
            window += [pool.apply_async(play, (seed, kind)) for seed in itertools.islice(until, 1)]


def report(result: Result, kind: str | None = None) -> None:
    """Tell what broke, by how little."""
    say(f"seed={result.seed} kind={result.kind} violations={result.violations[:3]}")
    if result.violations[0].startswith("defect"):
        return
    found = shrink(lambda: history_of(result.seed, kind))
    if found is None or not found.violations:
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"{result.seed}.txt"
    path.write_text("\n".join([*found.violations, *map(str, found.strikes), *found.timeline]) + "\n")
    say(f"  {len(found.strikes)} strikes suffice: {found.strikes[:_SHOWN]}")
    for line in (*about(found.timeline, found.violations[0]), f"  {found.violations[0]}", f"  all of it: {path}"):
        say(line)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--for", dest="seconds", type=seconds, default=60.0, help="seconds (60)")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 60 * 1_000, help="of the first history")
    parser.add_argument("--histories", type=number, help="at most so many")
    parser.add_argument("--only", type=int, help="one seed, and report on it")
    parser.add_argument("--processes", type=number, default=os.cpu_count() or 1)
    parser.add_argument("--kind", choices=sorted(ALONE), help="histories of this kind alone")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first, most = (given.seed, given.histories) if given.only is None else (given.only, 1)
    executions = broken = calls = 0
    faults: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    durations: dict[str, list[int]] = {}
    began = time.monotonic()
    for result in results(first, given.seconds, given.processes, most, given.kind):
        kinds[result.kind] += 1
        executions, calls, faults = executions + result.executions, calls + result.calls, faults + result.faults
        for act, lasted in result.durations.items():
            durations.setdefault(act, []).extend(lasted)
        if result.violations:
            broken += len(result.violations)
            if broken - len(result.violations) < _REPORTED:
                report(result, given.kind)
    say(f"seeds from {first}; {calls:,} calls in {time.monotonic() - began:.0f} s; kinds: {dict(kinds)}")
    say(f"faults by kind: {dict(faults.most_common())}")
    for act, lasted in sorted(durations.items()):
        say(f"  {act}: {len(lasted):,} times, median {statistics.median(lasted):.0f} ms, longest {max(lasted):,} ms")
    say(f"histories={kinds.total()} executions={executions} faults={faults.total()} violations={broken}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
