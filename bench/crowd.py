"""How late the runs of 999 tenants start while one more submits a hundred times its share: over the embedded cloud.

python -m bench crowd [alone flooded] [--tenants 999] [--rate 20] [--share 1] [--times 100] [--processes 8] [--seconds 60]

Every tenant has the installation's limit ``runs_per_second``, which is ``--share``. The 999 submit ``--rate`` one-offs a second together,
at random instants. The flood is of ``--processes`` processes that submit ``--times`` the share together and do not wait. Lateness is from
the submission to the start. Exits with 1 if a run did not start, or the flood was accepted more than 5 % above its limit and one burst.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from quarterjack import Scheduler, Tenants
from quarterjack.domain.tenants.profile import INSTALLATION
from quarterjack.errors import Throttled
from quarterjack.local.cloud import LocalCloud
from quarterjack.services import connect
from quarterjack.settings import Settings

from bench.observed import jobs, witness
from bench.observed.crew import ours, wait_for
from bench.observed.figures import percentile
from bench.report import Table, write

CASES = ("alone", "flooded")
OTHERS, FLOOD = "others", "flood"  # what the witness knows runs by
_STARTED = 8.0  # seconds until all processes have started
_TOLERATED = 1.05


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    rows = [measure(case, asked) for case in asked.cases or CASES]
    write("crowd", rows)
    Table("crowd", rows).show()
    most = asked.share * (asked.seconds * _TOLERATED + 1)
    if any(row["missing"] or row["flood accepted"] > most for row in rows):
        raise SystemExit(1)


def measure(case: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One case over a cloud of its own."""
    with LocalCloud() as cloud, ours(cloud, workers=2, concurrency=10, period=20.0) as running:
        Tenants(settings=running.settings).set(INSTALLATION, limits={"runs_per_second": asked.share})
        begin, flooding = time.time() + _STARTED, asked.processes if case == "flooded" else 0
        share = (running.settings, begin, asked.seconds, asked.share * asked.times / asked.processes)
        with multiprocessing.get_context("spawn").Pool(max(flooding, 1)) as pool:
            floods = [pool.apply_async(flood, (*share, number)) for number in range(flooding)]
            expected = submit(running.settings, begin, asked)
            answers = [each.get() for each in floods]
        accepted, refused = (sum(column) for column in zip(*answers, (0, 0), strict=True))
        wait_for(running, expected + accepted, 60)
        began = list(witness.read(running.folder))
    late = sorted(one.at - one.due for one in began if one.key == OTHERS)
    return {
        "case": case,
        "runs": expected,
        "p50 s": round(percentile(late, 0.5) / 1e3, 3),
        "p99 s": round(percentile(late, 0.99) / 1e3, 3),
        "flood asked": accepted + refused,
        "flood accepted": accepted,
        "missing": expected + accepted - len(began),
        "load": round(os.getloadavg()[0], 1),
    }


def submit(settings: Settings, begin: float, asked: argparse.Namespace) -> int:
    """The runs of the others, by eight threads; how many."""
    chance, services = random.Random(1), connect(settings)
    instants = sorted(begin + chance.random() * asked.seconds for _ in range(round(asked.rate * asked.seconds)))

    def submit_one(number: int) -> None:
        time.sleep(max(instants[number] - time.time(), 0))
        tenant = f"t{number % asked.tenants}"
        Scheduler(tenant, settings=settings, services=services).submit(jobs.NAME, OTHERS)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(submit_one, range(len(instants))))
    return len(instants)


def flood(settings: Settings, begin: float, seconds: float, rate: float, seed: int) -> tuple[int, int]:
    """One process of the flood: submissions accepted and refused."""
    chance, accepted, refused = random.Random(seed), 0, 0
    scheduler = Scheduler("flood", settings=settings, patience=0)
    for instant in sorted(begin + chance.random() * seconds for _ in range(round(rate * seconds))):
        time.sleep(max(instant - time.time(), 0))
        try:
            scheduler.submit(jobs.NAME, FLOOD)
        except Throttled:
            refused += 1
        else:
            accepted += 1
    return accepted, refused


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench crowd", description=__doc__)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    parser.add_argument("--tenants", type=int, default=999)
    parser.add_argument("--rate", type=float, default=20)
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("--times", type=float, default=100)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    return parser.parse_args(arguments)
