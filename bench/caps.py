"""Permits of a concurrency cap while runs wait for them and workers are killed, stalled and stopped: over the embedded cloud.

python -m bench caps [--cap 5] [--runs 5000] [--kills 50] [--every 12] [--workers 3] [--concurrency 5] [--lease 4] [--lasts 1]

A tenant with ``concurrent_runs`` submits one-offs, and a worker in turn is killed, stalled (SIGSTOP, and SIGCONT after two leases) or
stopped (SIGTERM) every so many seconds, and replaced at once. Leases last ``lease`` seconds, not 60, and with them the permits of who died.
``held`` is the share of permits that were not free, at looks twice a second while runs waited; ``working`` the share of their time in
which a job ran, from its begin to its end, its worker's death or the end of its lease; ``most at once`` counts these; ``most held`` is
the most that a look found taken. ``sent`` and ``received`` are messages a run, ``starts`` attempts a run.

Exits with 1 if more jobs ran at once than the cap says, or one never ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quarterjack import Tenants
from quarterjack.fires.flow.wait_queue import read_permits
from quarterjack.local.cloud import LocalCloud, reached_by_this_process
from quarterjack.services import connect, system_clock
from quarterjack.state.tenants.caps import ALL, ConcurrencyCap

from bench.hurried.__main__ import hurry as shorten_leases
from bench.hurried.crew import Hurried, hurried
from bench.hurried.messages import FOLDER, count_messages, messages_of
from bench.progress import Stage, say
from bench.report import Table, write

PERIOD = "5"  # seconds between ticks
_PATIENCE = 240.0  # seconds beyond what the runs take
_LOOK, _COUNT = 0.5, 3.0  # seconds between two looks at the permits, and at how many runs have ended
_KINDS = ("kill", "stall", "stop")


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    row = measure(asked)
    write("caps", [row])
    Table("caps", [row]).show()
    if max(row["most at once"], row["most held"]) > asked.cap or row["missing"]:
        raise SystemExit(1)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="quarterjack-bench-") as name, LocalCloud() as cloud:
        folder = Path(name)
        count_messages(name)
        shorten_leases(asked.lease)  # this process looks at permits, too
        with (
            reached_by_this_process({FOLDER: name, **cloud.environment}),
            hurried(cloud, folder / "hurried", lease=asked.lease) as hurry,
        ):
            Tenants(settings=hurry.settings).set(
                "default", limits={"concurrent_runs": asked.cap, "concurrency_strict": 1}
            )
            hurry.start("ticker", "ticker", "--period", PERIOD)
            for number in range(asked.workers):
                hurry.start_worker(f"worker-{number}", concurrency=asked.concurrency)
            seen = Seen(hurry, asked)
            with ThreadPoolExecutor(9) as pool:
                submitting = pool.submit(submit, hurry, asked, pool)
                seen.watch()
                submitting.result()
        row: dict[str, Any] = {"cap": asked.cap, "runs": asked.runs, "lease": asked.lease, "lasts": asked.lasts}
        row |= {f"{kind}s": seen.faults.count(kind) for kind in _KINDS}
        messages = messages_of(folder)
        row |= {what: round(messages[what] / asked.runs, 3) for what in ("sent", "received")}
        return row | seen.figures() | {"load": round(os.getloadavg()[0], 1)}


def submit(hurry: Hurried, asked: argparse.Namespace, pool: ThreadPoolExecutor) -> None:
    stage, payload = Stage("submitted", asked.runs), {"to": str(hurry.to), "seconds": asked.lasts}
    hurry.scheduler.wait_for(
        hurry.scheduler.submit("hurried.spell", payload).id, timeout=_PATIENCE
    )  # workers are there
    for number, _ in enumerate(
        pool.map(lambda _: hurry.scheduler.submit("hurried.spell", payload), range(1, asked.runs))
    ):
        stage.at(number)
    stage.done()


@dataclass
class Seen:
    """What is done to workers, and what an outsider sees meanwhile."""

    hurry: Hurried
    asked: argparse.Namespace
    faults: list[str] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)  # by process: when its leases were over (s)
    stalled: list[tuple[int, float]] = field(
        default_factory=list
    )  # processes that went on, and the end of their leases
    looks: list[int] = field(default_factory=list)  # permits that were not free, while runs waited
    most: int = 0
    spans: list[tuple[float, float, str]] = field(default_factory=list)  # of jobs

    def watch(self) -> None:
        """Until all runs have ended, or for too long."""
        asked, services, over = self.asked, connect(self.hurry.settings), threading.Event()
        cap = ConcurrencyCap(tenant="default", job=ALL, most=asked.cap)
        deadline = (
            time.monotonic() + asked.runs / asked.cap * asked.lasts * 2 + asked.kills * 3 * asked.lease + _PATIENCE
        )
        following, counted, done = time.monotonic() + asked.every, 0.0, 0
        while done < asked.runs and time.monotonic() < deadline:
            now = time.monotonic()
            self.hurry.replace_ended()
            if len(self.faults) < asked.kills and now >= following:
                following = now + asked.every
                self.strike()
                say(f"{len(self.faults)} faults, {done} of {asked.runs} runs have ended")
            if now >= counted + _COUNT:
                counted, done = now, len({line["run"] for line in self.hurry.lines("end")})
            permits = read_permits(cap, services).current(system_clock())
            self.most = max(self.most, permits.used())
            if permits.has_queue:
                self.looks.append(permits.used())
            over.wait(_LOOK)
        self.spans = list(self.of_jobs())

    def strike(self) -> None:
        """The next fault, at the next worker."""
        number, kind = len(self.faults), _KINDS[len(self.faults) % len(_KINDS)]
        place = (number + number // len(_KINDS)) % self.asked.workers  # each worker meets each kind
        worker = self.hurry.children[f"worker-{place}"]
        self.faults.append(kind)
        if kind == "kill":
            worker.kill()
            self.ended[worker.pid] = time.time()
        elif kind == "stop":
            worker.terminate()
        else:
            os.kill(worker.pid, signal.SIGSTOP)
            self.ended.setdefault(worker.pid, time.time() + self.asked.lease)
            threading.Timer(2 * self.asked.lease, self._wake, [worker.pid]).start()

    def _wake(self, pid: int) -> None:
        """It goes on with jobs of which it has lost the leases, and with new ones."""
        self.stalled.append((pid, self.ended.pop(pid)))
        with suppress(ProcessLookupError):  # all is over meanwhile
            os.kill(pid, signal.SIGCONT)

    def of_jobs(self) -> Iterator[tuple[float, float, str]]:
        """From when to when runs had leases, by what their jobs say (s), and which."""
        ends = {(line["run"], line["attempt"]): line["at"] for line in self.hurry.lines("end")}
        lines = self.hurry.lines("begin")
        begins = {(line["run"], line["attempt"]): line["at"] for line in lines}
        for line in lines:
            at, pid, run, attempt = line["at"], line["pid"], line["run"], line["attempt"]
            until = min(ends.get((run, attempt), time.time()), self.ended.get(pid, float("inf")))
            until = min(until, begins.get((run, attempt + 1), until))
            until = min([until, *(over for stopped, over in self.stalled if stopped == pid and at < over)])
            yield at, max(until, at), run

    def figures(self) -> dict[str, Any]:
        going = most = 0
        edges = sorted([(at, 1) for at, _, _ in self.spans] + [(until, -1) for _, until, _ in self.spans])
        for _, step in edges:  # at the same moment an end comes first
            going += step
            most = max(most, going)
        length = max(until for _, until, _ in self.spans) - min(at for at, _, _ in self.spans)
        working = sum(until - at for at, until, _ in self.spans) / (self.asked.cap * length)
        return {
            "seconds": round(length),
            "held": round(sum(self.looks) / max(len(self.looks), 1) / self.asked.cap, 3),
            "working": round(working, 3),
            "most at once": most,
            "most held": self.most,
            "starts": round(len(self.spans) / self.asked.runs, 3),
            "missing": self.asked.runs - len({line["run"] for line in self.hurry.lines("end")}),
        }


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench caps", description=__doc__)
    parser.add_argument("--cap", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--every", type=float, default=12.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=5)
    parser.add_argument("--lease", type=float, default=4.0)
    parser.add_argument("--lasts", type=float, default=1.0)
    return parser.parse_args(arguments)
