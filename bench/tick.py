"""What a tick costs: CPU, calls, bytes and write units a fire, with HTTP stubbed below botocore.

python -m bench tick [--quick] [--repeat 3]

Fires due at once, of recurring schedules (cron and rate, sparse and dense) and of one-offs, with payloads of 100 bytes and more; the
first case from 100 to 100,000, so that growth shows. The tick is that of an installed ticker, with its pool and threads, in one
invocation. ``cpu_us_per_fire`` is the minimum of the repetitions, the median stands beside it: other work on the machine only ever
adds.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from quarterjack.concurrency.pools import RequestStats
from quarterjack.domain.names import one_off_ref, schedule_owner
from quarterjack.domain.run import AgendaEntry, EntryKind, RunRow, RunState
from quarterjack.domain.tenants.agenda_layout import AgendaLayout
from quarterjack.dynamodb.items import to_item
from quarterjack.fires.plan import WINDOWS, shift_of
from quarterjack.local.processes import changed_environ
from quarterjack.ports.services import Services
from quarterjack.services import connect
from quarterjack.settings import DEFAULT_REQUESTS, DEFAULT_TICKER_THREADS, Settings
from quarterjack.stores.rows import run_row
from quarterjack.ticker.fan_out import FanOutConfig
from quarterjack.ticker.tick import tick

from bench.report import Table, write
from bench.stub import Exchange, Item, StubbedCloud

NOTHING = nullcontext()
SHARDS = 16
DUE = 1_795_240_800_000  # 2026-11-21T06:00:00Z, the top of an hour
MINUTE = 60_000
GROWTH = (100, 1_000, 10_000, 100_000)
PAYLOADS = (1_000, 10_000)  # bytes, beside the 100 of the others


@dataclass(frozen=True)
class Case:
    """Fires that are all due in one tick."""

    name: str
    expression: str | None  # None: one-offs
    fires_each: int = 1  # that one step claims
    due: int = DUE  # UTC ms of the first of them
    payload: int = 100  # bytes
    sizes: tuple[int, ...] = (1_000, 10_000)


CASES = (
    Case("hourly cron", "0 * * * *", sizes=GROWTH),
    Case("minutely cron", "* * * * *", 10, DUE + MINUTE),  # as its steps go: to the end of ten minutes
    Case("rate(1 hour)", "rate(1 hour)"),
    Case("rate(1 minute)", "rate(1 minute)", 10, DUE + MINUTE),
    Case("one-off, due far ahead when submitted", None),
    *(
        Case(f"{name}, {size // 1_000} KB payload", expression, each, due, size, sizes=(1_000,))
        for size in PAYLOADS
        for name, expression, each, due in (
            ("hourly cron", "0 * * * *", 1, DUE),
            ("minutely cron", "* * * * *", 10, DUE + MINUTE),
        )
    ),
)


def named(name: str) -> Case:
    """A case by its name."""
    return next(case for case in CASES if case.name == name)


def payload_of(size: int) -> str:
    return '{"report":"' + "x" * (size - 13) + '"}'


def shard_of(owner: str) -> int:
    return AgendaLayout(shards=SHARDS).shard_of(owner)


def cloud_of(case: Case, fires: int, *, latency: float = 0.0) -> StubbedCloud:
    """An agenda in which so many fires are due."""
    if case.expression is None:
        return StubbedCloud(entries=list(_one_offs(case, fires)), run=_submitted(case), latency=latency)
    entries, revisions = [], {}
    for owner in islice(_owners(case), fires // case.fires_each):
        shard = shard_of(owner)
        entries.append(
            AgendaEntry(shard=shard, due=case.due, kind=EntryKind.CHAIN, id=f"{owner}#1", after=case.due - 1)
        )
        revisions[owner] = revision(owner, shard, case)
    return StubbedCloud(entries=entries, revisions=revisions, latency=latency)


def _owners(case: Case) -> Iterator[str]:
    """Of dense schedules those whose step begins now, a tenth of all: their windows end within the minute after the last of the fires."""
    owners = (schedule_owner("bench", f"schedule-{number:06d}") for number in count())
    last = case.due - MINUTE + case.fires_each * MINUTE
    return owners if case.fires_each == 1 else (o for o in owners if 0 <= -(last + shift_of(o)) % WINDOWS[0] < MINUTE)


def revision(owner: str, shard: int, case: Case) -> Item:
    return {
        "owner": {"S": owner},
        "number": {"N": "1"},
        "shard": {"N": str(shard)},
        "job": {"S": "bench.job"},
        "rule": {"S": json.dumps({"expression": case.expression})},
        "payload": {"S": payload_of(case.payload)},
        "active_from": {"N": str(case.due - 3_600_000)},
    }


def _one_offs(case: Case, fires: int) -> Iterator[AgendaEntry]:
    for number in range(fires):
        ref = one_off_ref("bench", f"{number:032d}")
        yield AgendaEntry(shard=shard_of(ref.owner), due=case.due, kind=EntryKind.RUN, id=str(ref), created_at=1)


def _submitted(case: Case) -> Item:
    """The row of a one-off, but for its key."""
    payload = payload_of(case.payload)
    ref = one_off_ref("bench", "any")
    run = RunRow(ref=ref, state=RunState.QUEUED, revision=0, job="bench.job", due=DUE, not_before=DUE, payload=payload)
    return to_item(run_row(run))


def stubbed(cloud: StubbedCloud, *, requests: int = DEFAULT_REQUESTS, stats: RequestStats | None = None) -> Services:
    """The real services over a stubbed cloud."""
    endpoint = "http://127.0.0.1:9"
    settings = Settings(prefix="bench", endpoint=endpoint, region="us-east-1", shards=SHARDS, requests=requests)
    with changed_environ({"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}):
        services = connect(settings, stats=stats)
    cloud.attach(services)
    return services


def measure(
    case: Case,
    fires: int,
    exchanges: list[Exchange] | None = None,
    *,
    around: AbstractContextManager[object] = NOTHING,
) -> dict[str, float]:
    """One tick, made within ``around``; figures a fire. The calls and their answers go to ``exchanges``."""
    cloud = cloud_of(case, fires)
    cloud.exchanges = exchanges
    stats = RequestStats()
    services = stubbed(cloud, stats=stats)
    gc.collect()
    gc.freeze()  # what the stub holds is no part of a ticker
    started = time.process_time()
    now, spread = case.due - MINUTE, FanOutConfig(threads=DEFAULT_TICKER_THREADS, stats=stats)
    with around:
        report = tick(services, clock=lambda: now, holder="bench", budget=10**9, spread=spread)
    cpu = time.process_time() - started - cloud.cpu
    gc.unfreeze()
    handled = report.handled
    claims = case.expression is not None
    if handled.messages.sent != fires or handled.agenda.left or handled.fires.claimed != fires * claims:
        raise SystemExit(f"the tick claimed {handled.fires.claimed} and sent {handled.messages.sent} of {fires} fires")
    return figures(cloud, fires, cpu)


def figures(cloud: StubbedCloud, fires: int, cpu: float) -> dict[str, float]:
    return {
        "cpu_us_per_fire": cpu / fires * 1e6,
        "api_calls_per_fire": sum(cloud.calls.values()) / fires,
        "write_units_per_fire": cloud.units / fires,
        "bytes_per_fire": cloud.bytes / fires,
    }


def row(name: str, size: int, runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """A row of the table: minimum and median of the CPU, what was asked for."""
    cpu = [run["cpu_us_per_fire"] for run in runs]
    asked = {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}
    asked |= {"cpu_us_per_fire": round(min(cpu), 1), "cpu_us_median": round(statistics.median(cpu), 1)}
    return {"case": name, "size": size, "repetitions": len(runs)} | asked


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench tick")
    parser.add_argument("--quick", action="store_true", help="up to 1,000 fires")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(arguments)
    measure(CASES[0], 100)  # imports and caches are no part of a warm tick
    rows = [
        row(case.name, size, [measure(case, size) for _ in range(given.repeat)])
        for case in CASES
        for size in case.sizes
        if not (given.quick and size > 1_000)
    ]
    write("tick", rows)
    Table("tick", rows).show()
