"""What a million runs cost of each kind, from counted calls and one table of prices, beside EventBridge Scheduler.

python -m bench cost [--runs 400] [--markdown]

Calls, write and read units are counted over the services in memory (``bench/modelled/counted.py``), in full batches; bytes of log are
measured on the real functions (``bench/modelled/log_bytes.py``); their prices stand in ``bench/modelled/prices.py``. GB-seconds follow
from the calls: each takes CALL_MS, and a processor what ``tick`` and ``work`` measured, taken from build/bench where they ran. Jobs do
nothing: what they take themselves is the same on either side. Left out: alarms and metrics (``bench idle_bill``), transfer, free tiers.
Batches that are not full cost more: a run that comes alone takes an invocation and its requests for itself.

``--markdown`` prints the tables of docs/explanation/performance.md, for the processor times that are written there.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.modelled.counted import VARIANTS, Counts
from bench.modelled.log_bytes import BATCH, LOG_BYTES, PLATFORM
from bench.modelled.prices import (
    EVENTBRIDGE,
    GB_SECOND,
    INVOCATION,
    LOGS,
    LOGS_KEPT,
    MILLION,
    READ,
    RECOVERY,
    SQS,
    STORAGE,
    WRITE,
    table,
)
from bench.report import Table, write

CALL_MS = (
    8.0  # of one batched request within a region: DynamoDB and SQS answer in single-digit milliseconds; an assumption
)
RUNS = 400  # of each kind that are counted
CPU_US = {"tick": 108.0, "work": 195.0}  # of a fire, of a run: hourly, batches full, on a loaded machine
CORE_MB = 1_769  # Lambda gives a whole core at so many MB, and less in proportion
TICKER_MB, WORKER_MB = 1_769, 512  # infra/roles/periodic.py, infra/quarterjack.py
ROW_OVERHEAD = 100  # bytes that DynamoDB adds to each item
MONTHS = 3  # for which the ledger keeps an ended run: retention_days=90
PASSES = 13  # of the auditor through the ledger in that time: one a week
READ_UNIT = 4_096  # bytes
FIRES_AN_HOUR = {"hourly": 1, "minutely": 60}  # of a schedule, by the first word of a variant
ENTRY = 4  # write units of an owner's act for its audit entry: tests/unit/owner/test_audit_costs.py
_DIRECT_MS = 2.0  # of a function that does nothing, called by EventBridge Scheduler; an assumption
_STANDING_TICKS = 60 * 24 * 30
_SHARDS = 16


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench cost")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each kind that are counted")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the documentation")
    given = parser.parse_args(arguments)
    if given.markdown:
        print(markdown(table_rows(CPU_US, given.runs)))
        return
    rows = table_rows(measured_cpu(), given.runs)
    write("cost", rows)
    Table("prices", table()).show()
    Table("cost of a million runs, US dollars", rows).show()
    print(
        f"\nan installation that does nothing: ${standing():.2f} a month, its ticks; the pollers of a queue come on top"
    )


def table_rows(cpu: Mapping[str, float], runs: int) -> list[dict[str, Any]]:
    """A row for each kind of run, of which so many are counted."""
    logging.disable(logging.WARNING)  # jobs that fail are meant to
    try:
        return [row(name, runs, variant(runs).counts(), cpu) for name, variant in VARIANTS.items()]
    finally:
        logging.disable(logging.NOTSET)


def row(name: str, size: int, counts: Counts, cpu: Mapping[str, float]) -> dict[str, Any]:
    """A million runs: what they ask for, and what that costs."""
    seconds = gb_seconds(counts, cpu)
    parts = {
        "writes": counts.writes * WRITE.dollars,
        "reads": counts.reads * READ.dollars,
        "sqs": counts.queue * SQS.dollars,
        "lambda": counts.batches * INVOCATION.dollars + seconds * GB_SECOND.dollars,
        "storage": _stored(counts) / 1e9 * MONTHS * STORAGE.dollars,
        "recovery": _stored(counts) / 1e9 * MONTHS * RECOVERY.dollars,
        "logs": _log_bytes(counts) / 1e9 * (LOGS.dollars + LOGS_KEPT.dollars),
        "auditor": audit_reads(_stored(counts), FIRES_AN_HOUR.get(name.partition(",")[0], 0)) * READ.dollars,
    }
    dollars = {f"${part}": round(each * MILLION, 2) for part, each in parts.items()}
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
        "$eventbridge": round(direct() * MILLION, 2),
    }


def direct() -> float:
    """A run by EventBridge Scheduler and a function that does nothing and logs nothing of its own."""
    call = EVENTBRIDGE.dollars + INVOCATION.dollars + _direct_gb_seconds() * GB_SECOND.dollars
    return call + PLATFORM / 1e9 * (LOGS.dollars + LOGS_KEPT.dollars)


def _stored(counts: Counts) -> float:
    """Bytes of a run's row as DynamoDB bills them."""
    return counts.row_bytes + ROW_OVERHEAD


def _log_bytes(counts: Counts) -> float:
    """Of all attempts of a run: each has its part of a full batch."""
    return counts.batches * BATCH * LOG_BYTES["run"] + LOG_BYTES["fire"]


def audit_reads(row_bytes: float, fires: int) -> float:
    """Read units of the auditor for one run: the ledger's scan each week, and the two hours that it reads of a schedule each hour.

    ``fires``: of its schedule in an hour; 0: it has none. A scan is read eventually consistently, for half a unit.
    """
    scan = PASSES * row_bytes / READ_UNIT / 2
    return scan + ((1 + max(1.0, 2 * fires * row_bytes / READ_UNIT)) / fires if fires else 0.0)


# The tables of the documentation.


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Both of them."""
    return f"{runs_table(rows)}\n\n{besides_table()}"


def runs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A million runs of each kind."""
    columns = {
        "run": "{case}",
        "write units": "{write_units_per_run:.1f}",
        "read units": "{read_units_per_run:.1f}",
        "SQS requests": "{sqs_requests_per_run:.2f}",
        "invocations": "{invocations_per_run:.2f}",
        "$ writes": "{$writes:.2f}",
        "$ reads, SQS, Lambda": "{rest:.2f}",
        "$ storage": "{$storage:.2f}",
        "$ recovery": "{$recovery:.2f}",
        "$ logs": "{$logs:.2f}",
        "$ auditor": "{$auditor:.2f}",
        "$ all": "{$all:.2f}",
    }
    lines = [list(columns), ["---"] * len(columns)]
    for each in rows:
        rest = sum(each[f"${part}"] for part in ("reads", "sqs", "lambda"))
        lines.append([cell.format_map({**each, "rest": rest}) for cell in columns.values()])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def besides_table() -> str:
    """What is not of every run."""
    kept = LOGS.dollars + LOGS_KEPT.dollars
    rows = [
        ("an owner's act (create, update, pause, trigger …): its audit entry", f"{ENTRY} write units", ENTRY * WRITE.dollars),
        ("a run that has an invocation for itself: its log", f"{LOG_BYTES['run alone']:,} bytes", LOG_BYTES["run alone"] / 1e9 * kept),
        ("a log line of 300 bytes of a job's own", "300 bytes", 300 / 1e9 * kept),
        ("EventBridge Scheduler and a function that it calls, with Lambda's own log lines", f"{PLATFORM} bytes of log", direct()),
    ]  # fmt: skip
    lines = [f"| {what} | {units} | {dollars * MILLION:.2f} |" for what, units, dollars in rows]
    return "\n".join(["| beside it | counted | $ a million |", "|---|---|---|", *lines])


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
