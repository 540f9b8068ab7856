"""What is promised of one run, measured on the local cloud with real processes.

    python -m bench runs [PART] [--runs 1000] [--slice 20]

PART is one of crashes, at-most-once, slices, soft-cancel, cancel-before-start, writes, restart; without it all of them. Exits with 1
if a promise is broken. Crashes happen under a lease of HURRY seconds, everything else under the one of production.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from quarterjack import Context, Registry, Retry, RunState, Scheduler
from quarterjack.domain.times import SECOND
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.services import connect, system_clock
from quarterjack.state.lease import HEARTBEAT, LEASE, SKEW
from quarterjack.testing.cloud import fresh_settings
from quarterjack.testing.process import Hand, make_worker

from bench.hurried.crashes import Figures, crash_runs
from bench.hurried.crew import Hurried, hurried
from bench.hurried.sliced import slice_runs
from bench.meter import Meter
from bench.report import Table, write

HURRY = 4.0  # seconds of a lease where workers crash
WORKERS = 3
HELD = 5  # runs of a worker that is killed
RESTART = (LEASE + SKEW) / SECOND + 5  # seconds
Row = dict[str, Any]


class Broken(SystemExit):
    """A promise does not hold."""


def must(row: Row, **expected: object) -> Row:
    """The row, unless one of its figures is not what is promised."""
    wrong = {name: row[name] for name, value in expected.items() if row[name] != value}
    if wrong:
        raise Broken(f"{row}\nbroken: {wrong}, expected {expected}")
    return row


@dataclass(frozen=True)
class Bench:
    """A cloud, and what was asked for."""

    cloud: LocalCloud
    folder: Path
    runs: int
    slice: float
    rows: list[Row] = field(default_factory=list)

    def hurried(self, name: str, lease: float) -> Any:
        return hurried(self.cloud, self.folder / name, lease=lease)


# Crashes.


def crashes(bench: Bench) -> Row:
    """Steps and effects of jobs that crash their worker with p = 0.2 an attempt."""
    with bench.hurried("crashes", HURRY) as hurry:
        figures = crash_runs(hurry, bench.runs, workers=WORKERS, job="hurried.crash", within=4.0 * bench.runs + 60)
    return judged(figures)


def at_most_once(bench: Bench) -> Row:
    """The same, where no run may start twice."""
    with bench.hurried("once", HURRY) as hurry:
        figures = crash_runs(hurry, bench.runs, workers=WORKERS, job="hurried.crash-once", within=4.0 * bench.runs + 60)
    return judged(figures)


def judged(figures: Figures) -> Row:
    names = ("unended", "unexplained", "ambiguous", "missing", "keyed_twice", "started_twice", "untold")
    return must(figures.row, **dict.fromkeys(names, 0))


# Slices.


def slices(bench: Bench) -> Row:
    """A job of ten slices on Lambda's handler."""
    run, invocations, seconds = slice_runs(bench.cloud, bench.folder, count=10, length=bench.slice)
    row = {"state": str(run.state), "attempt": run.attempt, "resumed": run.slices, "failed": len(run.failed_attempts)}
    row |= {"invocations": invocations, "seconds": round(seconds, 1)}
    return must(row, state="SUCCEEDED", attempt=1, resumed=9, failed=0, invocations=10)


# Cancellation.


def soft_cancel(bench: Bench, count: int = 20) -> Row:
    """How long a running job takes to see that it was cancelled; each is asked at a moment of its own."""
    with bench.hurried("soft", LEASE / SECOND) as hurry:
        hurry.start_worker(concurrency=count)
        ids = [hurry.scheduler.submit("hurried.wait", {"to": str(hurry.to)}).id for _ in range(count)]
        assert hurry.until(lambda: len(hurry.lines("start")) == count, 30), hurry.logs()
        asked, chance = {}, Random(1)
        for run_id in ids:
            threading.Event().wait(chance.uniform(0, HEARTBEAT / SECOND / count))
            hurry.scheduler.cancel_run(run_id)
            asked[run_id] = time.time()
        assert hurry.until(lambda: len(hurry.lines("cancelled")) == count, 2 * HEARTBEAT / SECOND), hurry.logs()
        seen = sorted(line["at"] - asked[line["run"]] for line in hurry.lines("cancelled"))
        states = {str(hurry.scheduler.wait_for(run_id).state) for run_id in ids}
    row = {"runs": count, "median_s": round(seen[count // 2], 1), "slowest_s": round(seen[-1], 1), "states": states}
    row["within_a_heartbeat"] = seen[-1] <= HEARTBEAT / SECOND + 1  # 1 s for the beat itself
    return must(row, within_a_heartbeat=True, states={"CANCELLED"})


def cancel_before_start(bench: Bench) -> Row:
    """Runs whose messages are on their way, cancelled before they are due, with workers that wait for them."""
    with bench.hurried("before", LEASE / SECOND) as hurry:
        hurry.start_worker("worker-1")
        hurry.start_worker("worker-2")
        payload, delay = {"to": str(hurry.to), "seconds": 0}, 20 + bench.runs / 25
        ids = [hurry.scheduler.submit("hurried.sleep", payload, delay=delay).id for _ in range(bench.runs)]
        due = time.monotonic() + delay
        began = time.monotonic()
        cancelled = sum(hurry.scheduler.cancel_run(run_id).state is RunState.CANCELLED for run_id in ids)
        took = time.monotonic() - began
        hurry.until(lambda: time.monotonic() > due + 5, due + 10 - time.monotonic(), look=1)
        started = len(hurry.lines("start"))
    row = {
        "runs": bench.runs,
        "cancelled": cancelled,
        "started": started,
        "ms_a_cancel": round(took / bench.runs * 1e3, 1),
    }
    return must(row, cancelled=bench.runs, started=0)


# Writes.


def writes(bench: Bench) -> Row:
    """Items written a run, at the API; a worker's share."""
    settings, count = fresh_settings(bench.cloud), 20
    services, registry = connect(settings), Registry()
    worker = make_worker(services, registry, system_clock, wait=threading.Event().wait)
    soon = Retry(max_attempts=2, base=0.0)
    registry.job("plain")(lambda ctx, payload: None)
    registry.job("once", delivery="at_most_once")(lambda ctx, payload: None)
    registry.job("step")(lambda ctx, payload: ctx.step("s", int))

    @registry.job("retry", retry=soon)
    def retry(ctx: Context, _: Any) -> None:
        if ctx.attempt == 1:
            raise ConnectionError

    @registry.job("beats")
    def beats(_ctx: Context, _: Any) -> None:
        for _ in range(5):
            worker.heartbeat.beat(system_clock())

    scheduler, meter = Scheduler(settings=settings, jobs=registry), Meter(services)

    def of(job: str, deliveries: int) -> float:
        ids = [scheduler.submit(job).id for _ in range(count)]
        before, outcomes = meter.writes, 0
        while outcomes < count * deliveries:
            outcomes += len(Hand(worker=worker).work())
        assert {scheduler.get_run(run_id).state for run_id in ids} == {RunState.SUCCEEDED}
        return (meter.writes - before) / count

    plain = of("plain", 1)
    row: Row = {"plain": plain, "one_retry": of("retry", 2) - plain, "heartbeat": (of("beats", 1) - plain) / 5}
    row |= {"at_most_once": of("once", 1) - plain, "step": of("step", 1) - plain}
    return must(row, plain=2, one_retry=3, heartbeat=1, at_most_once=1, step=4)


# Restart.


def restart(bench: Bench) -> Row:
    """Runs held by a worker that is killed; how long until another has started each again."""
    with bench.hurried("restart", LEASE / SECOND) as hurry:
        killed_after = hold_and_kill(hurry)
    row = {"runs": HELD, "first_s": round(killed_after[0], 1), "last_s": round(killed_after[-1], 1), "limit_s": RESTART}
    row["in_time"] = killed_after[-1] <= RESTART
    return must(row, in_time=True)


def hold_and_kill(hurry: Hurried) -> list[float]:
    """Seconds from the death of a worker to the second start of each of its runs, in order."""
    hurry.start_worker("worker-1", concurrency=HELD)
    for _ in range(HELD):
        hurry.scheduler.submit("hurried.sleep", {"to": str(hurry.to), "seconds": 600})
    assert hurry.until(lambda: len(hurry.lines("start")) == HELD, 30), hurry.logs()
    hurry.start_worker("worker-2", concurrency=HELD)
    hurry.children.pop("worker-1").kill()
    killed = time.time()
    assert hurry.until(lambda: len(hurry.lines("start")) == 2 * HELD, RESTART + 60), hurry.logs()
    return sorted(line["at"] - killed for line in hurry.lines("start") if line["attempt"] > 1)


PARTS: dict[str, Callable[[Bench], Row]] = {
    "crashes": crashes,
    "at-most-once": at_most_once,
    "slices": slices,
    "soft-cancel": soft_cancel,
    "cancel-before-start": cancel_before_start,
    "writes": writes,
    "restart": restart,
}


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench runs")
    parser.add_argument("part", nargs="?", choices=list(PARTS))
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--slice", type=float, default=20.0)
    asked = parser.parse_args(arguments)
    chosen = [asked.part] if asked.part else list(PARTS)
    with (
        LocalCloud() as cloud,
        reached_by_this_process(cloud.environment),
        tempfile.TemporaryDirectory(prefix="quarterjack-bench-") as folder,
    ):
        bench = Bench(cloud, Path(folder), asked.runs, asked.slice)
        for name in chosen:
            row = {"part": name, **PARTS[name](bench)}
            Table(name, [{"figure": key, "value": value} for key, value in row.items()]).show()
            bench.rows.append(row | {"states": str(row.get("states", ""))})
    write("runs", bench.rows)
