"""Tickers and workers as real processes over the embedded cloud: lateness, missing and double starts, drain rate, CPU.

    python -m bench endtoend [CASE ...] [--schedules 1000] [--workers 2] [--concurrency 100]

A case is one of CASES, such as ``exact`` or ``"burst of 1000"``; without one, all of them. One of schedules takes three to four
minutes: schedules begin to fire at a full minute that is at least LEAD seconds away, and fire for a minute. Stages are reported on
stderr; the row and the table are on stdout. Exits with 1 if a fire was missing or double.

The cloud is one Python process on the same cores: ``cloud %`` is the share of a core that it took while fires were due.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from quarterjack import Scheduler
from quarterjack.domain.policies import StartWord
from quarterjack.local.cloud import LocalCloud
from quarterjack.services import system_clock

from bench.meter import niceness
from bench.observed import jobs, witness
from bench.observed.crew import Running, ours, wait_for
from bench.observed.figures import Fire, rate, spent, starts
from bench.observed.inside import inside
from bench.progress import Stage, say
from bench.report import Table, write

T = TypeVar("T")
R = TypeVar("R")
Row = dict[str, Any]
PERIOD = 20.0  # seconds between ticks: else a case would take minutes before it begins
LEAD = 45  # seconds from the last schedule to the first fire, so that a tick comes between
AGO = 200_000  # ms: all is created as if so long ago, else the SDK itself would claim and send the first fires
EVERY, MINUTE = 10, 60  # seconds
_WARM, _RUNS_TO_WARM = "warm", 100
_DRAIN = 60.0  # seconds after the last fire is due


@dataclass(frozen=True)
class Case:
    """What is due, and how it is to start."""

    name: str
    put_on: Callable[[Scheduler, argparse.Namespace, Case], list[Fire]]
    start: StartWord = "prompt"
    fires: int = 0  # of a burst
    together: bool = False  # all fires of ten seconds at one of them; else at each a tenth of them
    concurrency: int = 0  # of a worker, where the case needs its own
    inside: bool = False  # in one process, over services in memory


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    rows = []
    for case in CASES:
        if case.name in asked.cases or not asked.cases:
            rows.append(one(case, asked))
            print(rows[-1], flush=True)
    write("endtoend", rows)
    Table("end to end", rows).show()
    if any(row["missing"] or row["double"] or row["unexpected"] for row in rows):
        raise SystemExit(1)


def one(case: Case, asked: argparse.Namespace) -> Row:
    """A case on an installation of its own."""
    say(f"{case.name}: starting {'ticker and worker in this process' if case.inside else 'cloud, ticker and workers'}")
    concurrency = case.concurrency or asked.concurrency
    if case.inside:
        with inside(concurrency=concurrency, period=PERIOD) as running:
            return measure(case, asked, running)
    with (
        LocalCloud() as cloud,
        ours(cloud, workers=asked.workers, concurrency=concurrency, period=PERIOD) as processes,
    ):
        return measure(case, asked, processes)


def measure(case: Case, asked: argparse.Namespace, running: Running) -> Row:
    """Put it on, wait for all that is due, and count."""
    warmed = warm(running)
    before = running.cpu()
    fires = case.put_on(running.scheduler(lambda: system_clock() - AGO), asked, case)
    first, last = (moment(of for _, of in fires) for moment in (min, max))
    put_on = running.cpu()
    say(f"{case.name}: waiting {first / 1e3 - time.time():.0f} s for the first fire; load {os.getloadavg()[0]:.1f}")
    until(first)
    at_first, began_at = running.cpu(), time.time()
    stage = Stage(f"{case.name}: fires begun", len(fires))
    wait_for(
        running,
        warmed + len(fires),
        last / 1e3 - time.time() + _DRAIN,
        lambda begun: stage.at(begun - warmed),
    )
    stage.done()
    at_last, lasted = running.cpu(), time.time() - began_at
    until(time.time() * 1e3 + 2_000)  # what began is settled, and its message deleted
    used = spent(before, running.cpu(), len(fires))
    for name in {"cloud", "process"} & set(used):  # these took part in putting it on
        used[name] = spent(put_on, running.cpu(), len(fires))[name]
    began = [one for one in witness.read(running.folder) if one.key != _WARM]
    return {
        "case": case.name,
        **starts(fires, began),
        "a second": round(rate(began) or 0) if case.fires else "",
        "cpu_us_per_fire": round(used["ticker"] + used["worker"], 1) if "worker" in used else "",
        **{f"{name} us": used.get(name, "") for name in ("ticker", "worker", "cloud", "process")},
        "cloud %": round((at_last["cloud"] - at_first["cloud"]) / lasted * 100) if "cloud" in used else "",
        "nice": niceness(running.pids()),
        "load": round(os.getloadavg()[0], 1),
    }


def warm(running: Running) -> int:
    """Let every worker have run some: its clients are made, its connections open. How many that were."""
    say(f"warming the workers with {_RUNS_TO_WARM} runs")
    scheduler = running.scheduler(system_clock)
    for _ in range(_RUNS_TO_WARM):
        scheduler.submit(jobs.NAME, _WARM)
    wait_for(running, _RUNS_TO_WARM, _DRAIN)
    until(time.time() * 1e3 + 1_000)
    return _RUNS_TO_WARM


def until(moment: float) -> None:
    """Wait for an instant (UTC ms)."""
    threading.Event().wait(max(moment / 1e3 - time.time(), 0))


def now() -> datetime:
    """The present, UTC; tests set it."""
    return datetime.now(UTC)


def recurring(scheduler: Scheduler, asked: argparse.Namespace, case: Case) -> list[Fire]:
    """Schedules that fire every ten seconds of one minute; the fires."""
    room = asked.schedules / 60 + LEAD  # seconds; so many schedules are created a second at least
    minute = (now() + timedelta(seconds=room + 60)).replace(second=0, microsecond=0)
    names = [(f"bench-{number:05}", 0 if case.together else number % EVERY) for number in range(asked.schedules)]

    def create(of: tuple[str, int]) -> list[Fire]:
        name, phase = of
        cron = f"{phase}/{EVERY} {minute:%M %H %d %m} *"
        scheduler.create_schedule(name, jobs.NAME, cron, start=case.start, payload=name)
        instants = (minute + timedelta(seconds=second) for second in range(phase, MINUTE, EVERY))
        return [(name, int(instant.timestamp() * 1e3)) for instant in instants]

    made = in_threads(create, names, asked.threads, f"{case.name}: schedules created")
    return [fire for fires in made for fire in fires]


def burst(scheduler: Scheduler, asked: argparse.Namespace, case: Case) -> list[Fire]:
    """One-offs that are due at one instant; the fires."""
    due = now().replace(microsecond=0) + timedelta(seconds=case.fires / 60 + LEAD)
    names = [f"burst-{number:05}" for number in range(case.fires)]

    def submit(name: str) -> Fire:
        scheduler.submit(jobs.NAME, name, run_at=due, idempotency_key=name, start=case.start)
        return name, int(due.timestamp() * 1e3)

    return in_threads(submit, names, asked.threads, f"{case.name}: runs submitted")


def in_threads(call: Callable[[T], R], values: Sequence[T], threads: int, what: str) -> list[R]:
    """The results of the calls in order, with progress."""
    stage, results = Stage(what, len(values)), list[R]()
    with ThreadPoolExecutor(threads) as pool:
        for result in pool.map(call, values):
            results.append(result)
            stage.at(len(results))
    stage.done()
    return results


ALL_AT_ONCE = 1_000  # runs of a worker that wait for one instant, or run at it
CASES = (
    Case("prompt", recurring),
    Case("exact", recurring, start="exact", concurrency=ALL_AT_ONCE),
    Case("prompt, together", recurring, together=True),
    Case("exact, together", recurring, start="exact", together=True, concurrency=ALL_AT_ONCE),
    Case("burst of 1000", burst, fires=1_000),
    Case("burst of 10000", burst, fires=10_000),
    Case("prompt, in memory", recurring, inside=True),
    Case("exact, in memory", recurring, start="exact", inside=True, concurrency=ALL_AT_ONCE),
    Case("prompt, together, in memory", recurring, together=True, inside=True),
    Case("exact, together, in memory", recurring, start="exact", together=True, inside=True, concurrency=ALL_AT_ONCE),
    Case("burst of 10000, in memory", burst, fires=10_000, inside=True),
)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench endtoend", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *(case.name for case in CASES)])
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--threads", type=int, default=8, help="that create and submit")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
