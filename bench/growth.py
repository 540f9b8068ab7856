"""What a worker process weighs after long mixed work: its memory every ten seconds, and what it holds every few minutes.

    python -m bench growth [--for 3600] [--rate 12] [--trace] [--name growth]

One worker as ``quarterjack local`` starts it, over the embedded cloud: plain jobs, results, failures with retries, async jobs,
progress, cancelled runs, recorded steps, fires of schedules, and now and then a process of its own; payloads of 1 B to 100 KB.
Samples go to ``build/bench/NAME.csv`` and what the worker holds to ``NAME.jsonl``, with ``--trace`` by place of allocation.
"""

from __future__ import annotations

import argparse
import random
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from quarterjack import Scheduler
from quarterjack.errors import QuarterjackError
from quarterjack.local.installation import LocalInstallation, installation

from bench.progress import say
from bench.report import Table, write
from bench.weighed import mixed

SAMPLE, LOOK, PAUSE = 10.0, 900.0, 0.02  # seconds
SCHEDULES = 30  # a fire of each every 30 s
SEED = 7
MIX = {"plain": 40, "echo": 20, "fails": 12, "awaits": 12, "looks_up": 8, "steps": 7, "isolated": 0.5}
BIG = 100_000
_KB = re.compile(r"^(Rss|Pss|Pss_Anon|Private_Dirty):\s+(\d+) kB", re.MULTILINE)


class Load:
    """Submits what is due of the mix, later if the cloud is slow; some of what looks up is cancelled a moment later."""

    def __init__(self, scheduler: Scheduler, rate: float, size: int) -> None:
        self._scheduler, self._rate, self._size = scheduler, rate, size
        self._random, self._began = random.Random(SEED), time.monotonic()
        self._to_cancel: list[tuple[float, str]] = []
        self.submitted = 0

    def next(self) -> bool:
        """Submit one if one is due, and cancel what is; False if there is nothing to do now."""
        now = time.monotonic()
        if self._to_cancel and self._to_cancel[0][0] < now:
            with suppress(QuarterjackError):
                self._scheduler.cancel_run(self._to_cancel.pop(0)[1])
        if self.submitted >= (now - self._began) * self._rate:
            return False
        self.submitted += 1
        with suppress(QuarterjackError):
            self._submit(*self._random.choices(list(MIX), list(MIX.values())))
        return True

    def _submit(self, kind: str) -> None:
        payload: dict[str, Any] = {"text": "x" * int(self._size ** self._random.random())}
        if kind == "fails":
            payload["succeeds_at"] = self._random.choice((2, 3, 3, 9))
        if kind == "looks_up":
            payload["seconds"] = self._random.choice((0.2, 1.0, 25.0))
        run = self._scheduler.submit(f"growth.{kind}", payload)
        if kind == "looks_up" and payload["seconds"] > 1 and len(self._to_cancel) < 2:
            self._to_cancel.append((time.monotonic() + 2, run.id))


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    folder = Path("build/bench").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    held = folder / f"{asked.name}.jsonl"
    held.unlink(missing_ok=True)
    with installation(jobs=[mixed.__name__], workers=1) as running:
        running.wait_until_ready(threading.Event())
        samples = follow(running, asked, folder / f"{asked.name}.csv", held)
    rows = [samples[len(samples) * part // 10] for part in range(10)] + samples[-1:]
    write(asked.name, samples)
    Table(f"a worker, {asked.rate:g} submissions a second", rows).show()


def follow(running: LocalInstallation, asked: argparse.Namespace, table: Path, held: Path) -> list[dict[str, float]]:
    scheduler = Scheduler(settings=running.settings)
    for number in range(SCHEDULES):
        scheduler.create_schedule(
            f"growth-{number}", "growth.plain", "rate(30 seconds)", payload={"text": "x" * number}
        )
    samples: list[dict[str, float]] = []
    load, began, looks = Load(scheduler, asked.rate, asked.size), time.monotonic(), 1
    with table.open("w") as sink:
        while (passed := time.monotonic() - began) < asked.seconds:
            if not load.next():
                threading.Event().wait(PAUSE)
            if passed >= looks * asked.look:
                looks += 1
                look_inside(scheduler, held, trace=asked.trace)
            if passed >= len(samples) * SAMPLE:
                samples.append(
                    {"s": round(passed), "submitted": load.submitted, **weight(running.processes["worker-1"].pid)}
                )
                if len(samples) == 1:
                    print(*samples[0], sep=",", file=sink)
                print(*samples[-1].values(), sep=",", file=sink, flush=True)
                running.processes.replace_ended()
    say(f"{load.submitted:,} submitted")
    last = look_inside(scheduler, held, trim=True)
    scheduler.wait_for(last, timeout=60)
    return samples


def look_inside(scheduler: Scheduler, held: Path, *, trace: bool = False, trim: bool = False) -> str:
    """``trim``: then give back to the system what the allocator holds without need, and say how much that was."""
    return scheduler.submit("growth.holds", {"file": str(held), "trace": trace, "trim": trim}).id


def weight(pid: int) -> dict[str, float]:
    """Megabytes of a process, and its threads."""
    place = Path("/proc", str(pid))
    found = {
        name.lower() + "_mb": round(int(kilobytes) / 1_024, 2)
        for name, kilobytes in _KB.findall((place / "smaps_rollup").read_text())
    }
    return found | {"threads": len(list((place / "task").iterdir()))}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench growth", description=__doc__)
    parser.add_argument("--for", dest="seconds", type=float, default=3_600.0)
    parser.add_argument("--rate", type=float, default=12.0, help="submissions a second")
    parser.add_argument("--size", type=int, default=BIG, help="bytes of the largest payload")
    parser.add_argument(
        "--look",
        type=float,
        default=LOOK,
        help="seconds between two looks inside; each leaves up to 0.5 MB",
    )
    parser.add_argument("--trace", action="store_true", help="trace allocations: slow, and heavier itself")
    parser.add_argument("--name", default="growth")
    return parser.parse_args(arguments)
