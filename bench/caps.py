"""How busy the slots of a concurrency cap are while runs wait for them and workers are killed: over the embedded cloud.

python -m bench caps [--cap 5] [--runs 5000] [--kills 50] [--every 5] [--workers 2] [--concurrency 10]

A tenant with ``concurrent_runs`` submits one-offs of a second each. When all of them were submitted, a worker is killed every so many
seconds, in turn, and replaced at once. ``held`` is the share of slots that were not free, at looks twice a second while runs waited;
``working`` the share of the slots' time in which a job ran; ``most at once`` counts jobs from their begin to their end or their worker's;
``starts a run`` are attempts. A killed worker's slots are free again after 85 s at the most.

Exits with 1 if more jobs ran at once than the cap says, or one never ran.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from minutehand import Scheduler, Tenants
from minutehand.fires.lines import read_slots
from minutehand.local.cloud import LocalCloud
from minutehand.services import connect, system_clock
from minutehand.state.tenants.slots import ALL, ConcurrencyCap

from bench.observed import jobs, witness
from bench.observed.crew import Ours, ours
from bench.progress import Stage, say
from bench.report import Table, write

PERIOD = 60.0  # seconds between ticks
LASTS = 1_000  # ms of a job
_LOST = 85.0  # seconds for which a killed worker's slots are nobody's
_PATIENCE = 300.0  # seconds beyond what the runs take


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    row = measure(asked)
    write("caps", [row])
    Table("caps", [row]).show()
    if row["most at once"] > asked.cap or row["missing"]:
        raise SystemExit(1)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    with (
        LocalCloud() as cloud,
        ours(cloud, workers=asked.workers, concurrency=asked.concurrency, period=PERIOD) as running,
    ):
        Tenants(settings=running.settings).set("a", limits={"concurrent_runs": asked.cap})
        scheduler, stage = Scheduler("a", settings=running.settings), Stage("submitted", asked.runs)
        with ThreadPoolExecutor(8) as pool:
            for number, _ in enumerate(
                pool.map(lambda one: scheduler.submit(jobs.LASTS, f"r{one}"), range(asked.runs))
            ):
                stage.at(number)
        killed, held = kill_some(running, asked)
        began = {int(place.stem): spans(place, killed) for place in running.folder.glob("*.began")}
    row: dict[str, Any] = {"cap": asked.cap, "runs": asked.runs, "kills": len(killed), "held": held}
    return row | figures(began, asked) | {"load": round(os.getloadavg()[0], 1)}


def kill_some(running: Ours, asked: argparse.Namespace) -> tuple[Mapping[int, float], float]:
    """Kill workers until it was often enough, and wait for all runs.

    Returns when each process was killed (UTC ms), and the share of slots that were held.
    """
    killed, looks, services = dict[int, float](), list[int](), connect(running.settings)
    cap = ConcurrencyCap(tenant="a", job=ALL, most=asked.cap)
    workers = [name for name in running.crew.names if name.startswith("worker")]
    deadline = time.monotonic() + asked.runs / asked.cap * 2 + asked.kills * _LOST + _PATIENCE
    following = time.monotonic() + asked.every
    while len(distinct(running.folder)) < asked.runs and time.monotonic() < deadline:
        if len(killed) < asked.kills and time.monotonic() >= following:
            following = time.monotonic() + asked.every
            name = workers[len(killed) % len(workers)]
            process = running.crew[name]
            process.kill()
            killed[process.pid] = time.time() * 1e3
            running.crew.replace_ended()
            say(f"{len(killed)} killed, {len(distinct(running.folder))} of {asked.runs} runs have begun")
        slots = read_slots(cap, services).current(system_clock())
        if slots.has_line:
            looks.append(slots.used())
        threading.Event().wait(0.5)
    threading.Event().wait(2 * LASTS / 1e3)  # the last jobs end
    return killed, round(sum(looks) / max(len(looks), 1) / asked.cap, 3)


def distinct(folder: Path) -> set[str]:
    """The runs that have begun."""
    return {one.key for one in witness.read(folder)}


def spans(place: Path, killed: Mapping[int, float]) -> list[tuple[float, float, str]]:
    """From when to when jobs of one process ran (UTC ms), and whose."""
    end = killed.get(int(place.stem), float("inf"))
    lines = (line.split() for line in place.read_text().splitlines())
    return [(float(at), min(float(at) + LASTS, end), key) for key, _, at in lines]


def figures(began: Mapping[int, Sequence[tuple[float, float, str]]], asked: argparse.Namespace) -> dict[str, Any]:
    every = [span for of in began.values() for span in of]
    edges = sorted([(at, 1) for at, _, _ in every] + [(until, -1) for _, until, _ in every])
    going = most = 0
    for _, step in edges:  # at the same moment an end comes first
        going += step
        most = max(most, going)
    length = max(until for _, until, _ in every) - min(at for at, _, _ in every)
    working = sum(until - at for at, until, _ in every) / (asked.cap * length)
    return {
        "seconds": round(length / 1e3),
        "working": round(working, 3),
        "most at once": most,
        "starts a run": round(len(every) / asked.runs, 3),
        "missing": asked.runs - len({key for _, _, key in every}),
    }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench caps", description=__doc__)
    parser.add_argument("--cap", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--every", type=float, default=5.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=10)
    return parser.parse_args(arguments)
