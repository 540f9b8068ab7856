"""What schedules cost that are not due: calls and CPU of a tick over none, 100,000 and a million of them.

python -m bench idle [--repeat 5]
"""

from __future__ import annotations

import argparse
import gc
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from quarterjack.domain.times import stamp
from quarterjack.ticker.tick import tick

from bench.report import Table, write
from bench.stub import StubbedCloud, dump
from bench.tick import DUE, SHARDS, stubbed

SIZES = (0, 100_000, 1_000_000)


class Idle(StubbedCloud):
    """So many entries, the first due in an hour; a query finds its place among a shard's keys and answers what is before its end."""

    def __init__(self, schedules: int) -> None:
        super().__init__()
        self._keys = [f"{stamp(DUE + 3_600_000 + n)}#chain#idle/schedule-{n:07d}#1" for n in range(schedules // SHARDS)]

    def _query(self, asked: Any) -> bytes:
        found = bisect_left(self._keys, asked["ExpressionAttributeValues"][":2"]["S"])
        assert not found, "nothing is due"
        return dump({"Items": []})


def measure(schedules: int) -> dict[str, float]:
    cloud = Idle(schedules)
    services = stubbed(cloud)
    gc.collect()
    gc.freeze()  # what the stub holds is no part of a ticker
    started = time.process_time()
    report = tick(services, clock=lambda: DUE, holder="bench")
    cpu = time.process_time() - started - cloud.cpu
    gc.unfreeze()
    assert report.shards == SHARDS
    return {
        "cpu_ms_per_tick": cpu * 1e3,
        "api_calls_per_tick": sum(cloud.calls.values()),
        "bytes_per_tick": cloud.bytes,
    }


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench idle")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args(arguments)
    measure(0)  # imports and caches are no part of a warm tick
    rows = []
    for size in SIZES:
        runs = [measure(size) for _ in range(given.repeat)]
        least = {name: round(min(run[name] for run in runs), 2) for name in runs[0]}
        rows.append({"case": "schedules that are not due", "size": size, "repetitions": len(runs)} | least)
    write("idle", rows)
    Table("idle", rows).show()
