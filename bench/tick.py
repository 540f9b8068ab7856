"""What a tick costs: CPU, calls, bytes and writes a fire, with HTTP stubbed below botocore.

python -m bench tick [--fires 1000,10000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minutehand.flow.tick import tick
from minutehand.model.entry import Entry, EntryKind
from minutehand.model.names import schedule_owner, shard_of
from minutehand.services import connect
from minutehand.settings import Settings

from bench.report import Table, write
from bench.stub import StubbedCloud

_SHARDS = 16
_DUE = 1_795_240_800_000  # 2026-11-21T06:00:00Z, the top of an hour
_PAYLOAD = '{"report":"' + "x" * 87 + '"}'  # 100 bytes


@dataclass(frozen=True)
class Case:
    """Schedules that are all due in one tick."""

    name: str
    expression: str
    fires_each: int  # that one step claims
    due: int = _DUE  # UTC ms of the first of them


CASES = (
    Case("hourly cron, full ledger", "0 * * * *", 1),
    Case("minutely cron, full ledger", "* * * * *", 10, _DUE + 60_000),  # as its steps go: to the end of ten minutes
    Case("rate(1 hour), full ledger", "rate(1 hour)", 1),
)


def entries_and_revisions(case: Case, fires: int) -> tuple[list[Entry], dict[str, dict[str, Any]]]:
    """An agenda in which so many fires are due."""
    entries, revisions = [], {}
    for number in range(fires // case.fires_each):
        owner = schedule_owner("bench", f"schedule-{number:06d}")
        shard = shard_of(owner, _SHARDS)
        due = case.due
        entries.append(Entry(shard=shard, due=due, kind=EntryKind.CHAIN, id=f"{owner}#1", after=due - 1))
        revisions[owner] = {
            "owner": {"S": owner},
            "number": {"N": "1"},
            "shard": {"N": str(shard)},
            "job": {"S": "bench.job"},
            "rule": {"S": json.dumps({"expression": case.expression})},
            "payload": {"S": _PAYLOAD},
            "active_from": {"N": str(due - 3_600_000)},
        }
    return entries, revisions


def measure(case: Case, fires: int) -> dict[str, float]:
    """One tick; figures a fire."""
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
    services = connect(Settings(prefix="bench", endpoint="http://127.0.0.1:9", region="us-east-1", shards=_SHARDS))
    cloud = StubbedCloud(*entries_and_revisions(case, fires))
    ledger: Any = services.ledger
    work: Any = services.work
    cloud.attach(ledger._client.raw, work._client.raw)
    gc.collect()
    started = time.process_time()
    now = case.due - 60_000
    report = tick(services, clock=lambda: now, holder="bench", budget=10**9)
    cpu = time.process_time() - started - cloud.cpu
    done = report.handled.claimed
    if done != fires or report.handled.sent != fires or report.handled.left:
        raise SystemExit(f"the tick claimed {done} and sent {report.handled.sent} of {fires} fires")
    return {
        "cpu_us_per_fire": cpu / done * 1e6,
        "api_calls_per_fire": sum(cloud.calls.values()) / done,
        "write_units_per_fire": cloud.written / done,
        "bytes_per_fire": cloud.bytes / done,
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench tick")
    parser.add_argument("--fires", default="1000,10000")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    rows = []
    measure(CASES[0], 100)  # imports and caches are no part of a warm tick
    for case in CASES:
        for size in (int(text) for text in given.fires.split(",")):
            runs = [measure(case, size) for _ in range(given.repeat)]
            figures = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
            rows.append({"case": case.name, "size": size, "repetitions": given.repeat} | figures)
    write("tick", rows)
    Table("tick", rows).show()
