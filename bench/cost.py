"""What a million runs cost of each kind, from counted calls and one table of prices, beside EventBridge Scheduler.

python -m bench cost [--runs 400]

Calls, write and read units are counted over the services in memory (``bench/modelled/counted.py``), in full batches; their prices stand
in ``bench/modelled/prices.py``. GB-seconds follow from them: each call takes CALL_MS, and a processor what ``tick`` and ``work``
measured, taken from build/bench where they ran. Jobs do nothing: what they take themselves is the same on either side. Left out: logs,
alarms, transfer, free tiers. Batches that are not full cost more: a run that comes alone takes an invocation and its requests for itself.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.modelled.counted import VARIANTS, Counts
from bench.modelled.prices import (
    EVENTBRIDGE,
    GB_SECOND,
    INVOCATION,
    MILLION,
    READ,
    SQS,
    STORAGE,
    WRITE,
    table,
)
from bench.report import Table, write

CALL_MS = (
    8.0  # of one batched request within a region: DynamoDB and SQS answer in single-digit milliseconds; an assumption
)
CPU_US = {"tick": 108.0, "work": 195.0}  # of a fire, of a run: hourly, batches full, on a loaded machine
CORE_MB = 1_769  # Lambda gives a whole core at so many MB, and less in proportion
TICKER_MB, WORKER_MB = 1_769, 512  # infra/roles/ticker.py, infra/quarterjack.py
ROW_OVERHEAD = 100  # bytes that DynamoDB adds to each item
MONTHS = 3  # for which the ledger keeps an ended run: retention_days=90
_DIRECT_MS = 2.0  # of a function that does nothing, called by EventBridge Scheduler; an assumption
_STANDING_TICKS = 60 * 24 * 30
_SHARDS = 16


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench cost")
    parser.add_argument("--runs", type=int, default=400, help="of each kind that are counted")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # jobs that fail are meant to
    cpu = measured_cpu()
    rows = [row(name, given.runs, variant(given.runs).counts(), cpu) for name, variant in VARIANTS.items()]
    write("cost", rows)
    Table("prices", table()).show()
    Table("cost of a million runs, US dollars", rows).show()
    print(
        f"\nan installation that does nothing: ${standing():.2f} a month, its ticks; the pollers of a queue come on top"
    )


def row(name: str, size: int, counts: Counts, cpu: Mapping[str, float]) -> dict[str, Any]:
    """A million runs: what they ask for, and what that costs."""
    seconds = gb_seconds(counts, cpu)
    parts = {
        "writes": counts.writes * WRITE.dollars,
        "reads": counts.reads * READ.dollars,
        "sqs": counts.queue * SQS.dollars,
        "lambda": counts.batches * INVOCATION.dollars + seconds * GB_SECOND.dollars,
        "storage": (counts.row_bytes + ROW_OVERHEAD) / 1e9 * MONTHS * STORAGE.dollars,
    }
    dollars = {f"${part}": round(each * MILLION, 2) for part, each in parts.items()}
    eventbridge = EVENTBRIDGE.dollars + INVOCATION.dollars + _direct_gb_seconds() * GB_SECOND.dollars
    return {
        "case": name,
        "size": size,
        "write_units_per_run": round(counts.writes, 2),
        "read_units_per_run": round(counts.reads, 2),
        "sqs_requests_per_run": round(counts.queue, 3),
        "invocations_per_run": round(counts.batches, 3),
        "gb_s_per_million": round(seconds * MILLION),
        **dollars,
        "$all": round(sum(parts.values()) * MILLION, 2),
        "$eventbridge": round(eventbridge * MILLION, 2),
    }


def gb_seconds(counts: Counts, cpu: Mapping[str, float]) -> float:
    """Of ticker and worker, for one run: their calls one after the other, and their processors' time at their share of a core."""
    ticker = (
        counts.ticker_calls * CALL_MS / 1e3 + (cpu["tick"] * min(counts.ticker_calls, 1) / 1e6) * CORE_MB / TICKER_MB
    )
    worker = counts.worker_calls * CALL_MS / 1e3 + cpu["work"] / 1e6 * CORE_MB / WORKER_MB
    return (ticker * TICKER_MB + worker * WORKER_MB) / 1024


def _direct_gb_seconds() -> float:
    return _DIRECT_MS / 1e3 * WORKER_MB / 1024


def standing() -> float:
    """Dollars a month of ticks in which nothing is due: a query for each shard."""
    each = _SHARDS * READ.dollars / 2 + INVOCATION.dollars
    each += (_SHARDS + 1) * CALL_MS / 1e3 * TICKER_MB / 1024 * GB_SECOND.dollars
    return _STANDING_TICKS * (each + READ.dollars)


def measured_cpu(place: Path = Path("build/bench")) -> dict[str, float]:
    """Microseconds of a fire and of a run, as ``tick`` and ``work`` last measured them here; else as the documentation says."""
    cases = {"tick": "hourly cron", "work": "no-op, batch of 10"}
    found = dict(CPU_US)
    for part, case in cases.items():
        try:
            rows = json.loads((place / f"{part}.json").read_text())
        except (OSError, ValueError):
            continue
        figures = [row["cpu_us_per_fire"] for row in rows if row["case"] == case and row["size"] >= 1_000]
        found[part] = min(figures, default=found[part])
    return found
