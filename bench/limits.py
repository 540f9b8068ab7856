"""What a tenant's rate lets through, and what it costs: several processes submit at once over the embedded cloud.

python -m bench limits [--processes 8] [--rate 50] [--seconds 60]

First without a limit, all together as often as ``--rate`` says; then with ``runs_per_second`` of that, and each asks for two and a
half times its share; then the same with ``waiting_runs`` as well, far above what is accepted. What is accepted is bounded by the rate
times the seconds and one burst, with which the bucket begins.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from typing import Any

from quarterjack import Scheduler, Tenants
from quarterjack.errors import Throttled
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.installation import provision
from quarterjack.services import connect
from quarterjack.settings import Settings

from bench.meter import Meter
from bench.report import Table, write

DELAY = 86_400  # seconds: nothing is sent to a queue meanwhile
WAITING = 100_000  # runs that may wait
FASTER = 2.5  # what they ask for, as a multiple of the limit


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench limits")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args(arguments)
    with LocalCloud() as cloud:
        os.environ.update(cloud.environment)
        settings = Settings(prefix="limits", endpoint=cloud.endpoint, region=cloud.environment["AWS_DEFAULT_REGION"])
        provision(settings)
        Tenants(settings=settings).create("limited", limits={"runs_per_second": given.rate})
        Tenants(settings=settings).create("waiting", limits={"runs_per_second": given.rate, "waiting_runs": WAITING})
        rows = [
            measure(settings, "free", given.processes, given.rate, given.seconds),
            measure(settings, "limited", given.processes, given.rate * FASTER, given.seconds),
            measure(settings, "waiting", given.processes, given.rate * FASTER, given.seconds),
        ]
    write("limits", rows)
    Table("limits", rows).show()


def measure(settings: Settings, tenant: str, processes: int, asked: float, seconds: float) -> dict[str, Any]:
    """So many processes that together submit so often a second for a tenant."""
    context = multiprocessing.get_context("spawn")
    begin = time.time() + 8  # until then all of them have started
    share = (settings, tenant, asked / processes, begin, seconds)
    with context.Pool(processes) as pool:
        found = pool.starmap(submit, [(*share, number) for number in range(processes)], chunksize=1)
    accepted, refused, writes, updates = (sum(column) for column in zip(*found, strict=True))
    return {
        "tenant": tenant,
        "processes": processes,
        "asked": accepted + refused,
        "accepted": accepted,
        "accepted_per_second": round(accepted / seconds, 2),
        "writes_per_accepted": round(writes / accepted, 3),
        "leases_per_accepted": round(updates / accepted, 3),
        "leases_per_process_second": round(updates / processes / seconds, 3),
    }


def submit(
    settings: Settings, tenant: str, asked: float, begin: float, seconds: float, seed: int
) -> tuple[int, int, int, int]:
    """One process: submissions accepted and refused, write units, and single updates (a submission has none of these)."""
    chance, services = random.Random(seed), connect(settings)
    meter, accepted, refused = Meter(services), 0, 0
    scheduler = Scheduler(tenant, settings=settings, services=services, patience=0)
    instants = sorted(begin + chance.random() * seconds for _ in range(round(asked * seconds)))
    for instant in instants:
        time.sleep(max(instant - time.time(), 0))
        try:
            scheduler.submit("bench.nothing", delay=DELAY)
        except Throttled:
            refused += 1
        else:
            accepted += 1
    return accepted, refused, meter.writes, meter.calls["UpdateItem"]
