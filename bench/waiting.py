"""What one ticker and one worker process get through where every request takes its time, as DynamoDB's and SQS's do.

python -m bench waiting [--latency 0.005] [--fires 4000] [--repeat 3]

HTTP is answered in the process after ``latency`` seconds. ``busy`` is the share of a core that our code takes meanwhile: where it is
small, requests that wait for each other bound the rate. The rate is that of the fastest repetition.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quarterjack.settings import DEFAULT_REQUESTS, DEFAULT_TICKER_THREADS

from bench import ticker, work
from bench.report import Table, write

CONCURRENCIES = (10, 100)  # runs of a worker at the same time


def measure_tick(fires: int, latency: float) -> tuple[float, float]:
    """Seconds of a tick as installed, and of its processor."""
    return ticker.measure(ticker.HOURLY, fires, latency, requests=DEFAULT_REQUESTS, threads=DEFAULT_TICKER_THREADS)


def measure_work(runs: int, latency: float, concurrency: int) -> tuple[float, float]:
    """Seconds of a worker from its start to the deletion of the last message, and of its processor."""
    case = replace(work.CASES[0], concurrency=concurrency)
    cloud = work.cloud_of(case, runs, latency=latency)
    began = time.perf_counter()
    cpu = work.run_all(case, cloud, runs)
    return time.perf_counter() - began, cpu


def row(name: str, fires: int, found: Sequence[tuple[float, float]], latency: float) -> dict[str, Any]:
    took, cpu = min(found)
    return {
        "part": name,
        "fires": fires,
        "a second": round(fires / took),
        "busy": round(cpu / took, 2),
        "latency_ms": latency * 1e3,
        "repetitions": len(found),
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench waiting")
    parser.add_argument("--latency", type=float, default=0.005, help="seconds that a request takes")
    parser.add_argument("--fires", type=int, default=4_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    measure_tick(100, 0)  # imports and caches are no part of it
    measure_work(100, 0, 10)
    parts: dict[str, Callable[[], tuple[float, float]]] = {"tick": partial(measure_tick, given.fires, given.latency)}
    for concurrency in CONCURRENCIES:
        parts[f"work, {concurrency} at once"] = partial(measure_work, given.fires, given.latency, concurrency)
    rows = [row(name, given.fires, [one() for _ in range(given.repeat)], given.latency) for name, one in parts.items()]
    write("waiting", rows)
    Table(f"every answer after {given.latency * 1e3:g} ms", rows).show()
