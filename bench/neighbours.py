"""How late a quiet tenant's runs start beside a tenant with a backlog: over the embedded cloud, with fair queues and without.

python -m bench neighbours [alone fair unfair capped] [--runs 5000] [--seconds 200] [--workers 2] [--concurrency 10]

Tenant A submits ``--runs`` one-offs of a second each, as fast as it can. From then on, for ``--seconds``, tenant B has a schedule every
ten seconds and submits a one-off every ten seconds. ``alone`` is B without A. ``fair`` plays SQS's fair queues as AWS documents them
(``quarterjack/local/emulator/messages.py``); ``unfair`` delivers in the order in which messages became visible, and so does ``capped``,
where A may have half of the workers' slots (``concurrent_runs``). Lateness is from the time
at which a run was due to its first start. Exits with 1 if a run of B did not start.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Rule, Scheduler, Tenants
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.engine import FAIR_QUEUES
from quarterjack.services import system_clock

from bench.observed import jobs, witness
from bench.observed.crew import Ours, ours, wait_for
from bench.observed.figures import percentile
from bench.progress import Stage, say
from bench.report import Table, write

CASES = ("alone", "fair", "unfair", "capped")
EVERY = 10  # seconds
PERIOD = 20.0  # seconds between ticks
FLOOD, FIRES, ONE_OFFS = "flood", "fires", "one-offs"  # what the witness knows runs by


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    rows = [measure(case, asked) for case in asked.cases or CASES]
    write("neighbours", rows)
    Table("neighbours", rows).show()
    if any(row[f"{what} missing"] for row in rows for what in (FIRES, ONE_OFFS)):
        raise SystemExit(1)


def measure(case: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One case over a cloud of its own."""
    fairness = {FAIR_QUEUES: "false" if case in ("unfair", "capped") else "true"}
    with (
        LocalCloud(variables=fairness) as cloud,
        ours(cloud, workers=asked.workers, concurrency=asked.concurrency, period=PERIOD) as running,
    ):
        flood = 0 if case == "alone" else asked.runs
        if case == "capped":
            half = asked.workers * asked.concurrency // 2
            Tenants(settings=running.settings).set("a", limits={"concurrent_runs": half})
        submitted = submit(running, flood, case)
        begun = witness.count(running.folder)
        say(f"{case}: {flood - begun:,} runs of A wait; B's are due for {asked.seconds} s")
        one_offs = be_quiet(running, asked.seconds)
        fires = one_offs  # as many: both every ten seconds
        wait_for(running, flood + fires + one_offs, flood / asked.workers / asked.concurrency + 60)
        began = list(witness.read(running.folder))
    return {
        "case": case,
        "submitted a second": submitted,
        "A waited": flood - begun,
        **figures(FIRES, fires, began),
        **figures(ONE_OFFS, one_offs, began),
        "load": round(os.getloadavg()[0], 1),
    }


def submit(running: Ours, runs: int, case: str) -> float:
    """A's runs, by eight threads; how many a second."""
    scheduler, stage, begin = Scheduler("a", settings=running.settings), Stage(f"{case}: submitted", runs), time.time()
    with ThreadPoolExecutor(8) as pool:
        for number, _ in enumerate(pool.map(lambda _: scheduler.submit(jobs.LASTS, FLOOD), range(runs))):
            stage.at(number)
    return round(runs / (time.time() - begin), 1)


def be_quiet(running: Ours, seconds: int) -> int:
    """B's schedule and its one-offs, from now on; how many of each."""
    quiet = Scheduler("b", settings=running.settings)
    first = datetime.fromtimestamp(system_clock() // 1_000 + EVERY, UTC)
    last = first + timedelta(seconds=seconds)
    every = f"rate({EVERY} seconds, from={first:%Y-%m-%dT%H:%M:%SZ})"
    quiet.create_schedule("b", jobs.NAME, Rule(expression=every, end=last - timedelta(seconds=1)), payload=FIRES)
    count = 0
    while (at := first + timedelta(seconds=count * EVERY)) < last:
        threading.Event().wait(max((at - datetime.now(UTC)).total_seconds(), 0))
        quiet.submit(jobs.NAME, ONE_OFFS)
        count += 1
    return count


def figures(what: str, expected: int, began: Sequence[witness.Began]) -> dict[str, Any]:
    """The lateness of the runs of one kind, and how many did not start."""
    late = sorted(one.at - one.due for one in began if one.key == what)
    shown = {
        f"{what} {name} s": round(percentile(late, share) / 1e3, 2) for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    return shown | {f"{what} missing": expected - len(late)}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench neighbours", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    parser.add_argument("--runs", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=10)
    return parser.parse_args(arguments)
