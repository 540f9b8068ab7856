"""How many fires one ticker takes a second where each request takes its time: requests one by one and side by side, shards too.

python -m bench ticker [--latency 0.01] [--size 4000] [--repeat 3]

HTTP is answered below botocore after ``latency`` seconds. Before and after are measured in one run, in turns; ``ratio`` is to the first
row of the case. The rate is that of the fastest repetition.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from typing import Any

from quarterjack.settings import DEFAULT_REQUESTS, DEFAULT_TICKER_THREADS
from quarterjack.ticker.fan_out import FanOutConfig
from quarterjack.ticker.tick import tick

from bench.report import Table, write
from bench.tick import MINUTE, Case, cloud_of, named, stubbed

SIZE = 4_000
HOURLY, MINUTELY = named("hourly cron"), named("minutely cron")
ONE_OFFS = named("one-off, due far ahead when submitted")
WAYS: dict[str, dict[str, Any]] = {
    "one by one": {"requests": 1, "threads": 1},
    "8 side by side": {"requests": 8, "threads": 1},
    "one by one, 4 shards at once": {"requests": 1, "threads": 4},
    "8 side by side, 4 shards at once (as installed)": {
        "requests": DEFAULT_REQUESTS,
        "threads": DEFAULT_TICKER_THREADS,
    },
}


def measure(case: Case, fires: int, latency: float, *, requests: int, threads: int) -> tuple[float, float]:
    """Seconds of one tick, and of its processor."""
    cloud = cloud_of(case, fires, latency=latency)
    spread = FanOutConfig(threads=threads)
    services = stubbed(cloud, requests=requests, stats=spread.stats)
    gc.collect()
    began, worked = time.perf_counter(), time.process_time()
    now = case.due - MINUTE
    report = tick(services, clock=lambda: now, holder="bench", budget=10**9, spread=spread)
    took, cpu = time.perf_counter() - began, time.process_time() - worked - cloud.cpu
    if report.handled.messages.sent != fires or report.handled.agenda.left:
        raise SystemExit(f"the tick sent {report.handled.messages.sent} of {fires} fires")
    return took, cpu


def compared(case: Case, fires: int, latency: float, repeat: int) -> list[dict[str, Any]]:
    """Every way, in turns."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(repeat):
        for name, options in WAYS.items():
            runs[name].append(measure(case, fires, latency, **options))
    rates = {name: fires / min(took for took, _ in found) for name, found in runs.items()}
    first = next(iter(rates.values()))
    return [
        {
            "case": case.name,
            "size": fires,
            "requests": name,
            "fires_a_second": round(rate),
            "ratio": round(rate / first, 2),
            "cpu_us_per_fire": round(min(cpu for _, cpu in runs[name]) / fires * 1e6, 1),
            "latency_ms": latency * 1e3,
            "repetitions": repeat,
        }
        for name, rate in rates.items()
    ]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench ticker")
    parser.add_argument("--latency", type=float, default=0.01, help="seconds that a request takes")
    parser.add_argument("--size", type=int, default=SIZE, help="fires")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    measure(HOURLY, 100, 0.0, requests=8, threads=4)  # imports and caches are no part of a warm tick
    rows = [
        row for case in (HOURLY, MINUTELY, ONE_OFFS) for row in compared(case, given.size, given.latency, given.repeat)
    ]
    write("ticker", rows)
    Table("ticker", rows).show()
