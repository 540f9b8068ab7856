"""Many schedules on the local cloud: creating, listing, an upsert and an apply of what is so already, bulk operations.

    python -m bench schedules [--schedules 10000] [--bulk retag pause resume delete]

Exits with 1 if a page of 100 takes more than 100 ms (p99), an unchanged upsert or apply writes anything, or a bulk pause does less
than 200 a second.
The cloud is one process beside this one, so rates are those of two cores and not of DynamoDB. Where others use the machine too, look at
the processor time of a call: ``cpu ms`` here and ``cloud ms`` in the cloud.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from quarterjack import Context, Scheduler, job
from quarterjack.declare import declaration
from quarterjack.sdk.schedules.bulk import BulkAction
from quarterjack.services import connect
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings, running_cloud

from bench.meter import Meter, cpu
from bench.report import Table, write

Row = dict[str, Any]
THREADS = 8
LIMITS = {"page_p99_ms": 100.0, "pauses_a_second": 200.0}
OWNED = "bench.schedules"  # who declares them
BULK: dict[str, Row] = {"retag": {"tags": {"env": "prod"}}, "pause": {}, "resume": {}, "delete": {}}


@job("bench.nothing")
def nothing(ctx: Context, payload: Any) -> None:
    """What is measured is the scheduler."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--bulk", nargs="*", choices=list(BULK), default=list(BULK))
    asked = parser.parse_args(arguments)
    with running_cloud() as cloud:
        Watch.cloud = cloud.pid
        rows = measure(fresh_settings(cloud, shards=16), asked.schedules, asked.bulk)
    Table(f"{asked.schedules:,} schedules", rows).show()
    write("schedules", rows)
    figures = {row["what"]: row for row in rows}
    slow = figures["page of 100"]["p99 ms"] > LIMITS["page_p99_ms"]
    wrote = figures["upsert, unchanged"]["writes"] != 0 or figures["apply, unchanged"]["writes"] != 0
    late = "pause" in asked.bulk and figures["bulk pause"]["a second"] < LIMITS["pauses_a_second"]
    if slow or wrote or late:
        raise SystemExit(1)


def measure(settings: Settings, count: int, acts: Sequence[BulkAction]) -> list[Row]:
    """Each in turn, on the same schedules."""
    wishes = [wish(number) for number in range(count)]
    return [
        upserted("create", settings, wishes),
        upserted("upsert, unchanged", settings, wishes),
        applied("apply, unchanged", settings, wishes),
        *listed(settings, count),
        *(bulk(settings, act, **BULK[act]) for act in acts),
    ]


def wish(number: int) -> Row:
    """One of many: all different, none due today."""
    return {
        "name": f"team-{number % 20:02}/report-{number:05}",
        "job": "bench.nothing",
        "expression": f"{number % 60} {number // 60 % 24} 1 1 *",
        "timezone": "Europe/Berlin",
        "payload": {"customer": number},
        "tags": {"team": f"{number % 20}"},
        "managed_by": OWNED,
    }


def upserted(what: str, settings: Settings, wishes: Sequence[Row]) -> Row:
    """All of them, by some threads with one SDK."""
    scheduler, meter = connected(settings)
    watch = Watch()
    with ThreadPoolExecutor(THREADS) as pool:
        changes = set(pool.map(lambda given: scheduler.upsert_schedule(**given).change, wishes))
    return row(what, len(wishes), watch, meter) | {"note": ", ".join(sorted(changes))}


def applied(what: str, settings: Settings, wishes: Sequence[Row]) -> Row:
    """What `quarterjack apply` does: compare all, carry out what differs."""
    scheduler, meter = connected(settings)
    found = [
        declaration(place="bench", **{key: value for key, value in one.items() if key != "managed_by"})
        for one in wishes
    ]
    watch = Watch()
    plan = scheduler.compare_declared(found, managed_by=OWNED)
    done = scheduler.carry_out(plan)
    assert not done.failed, done.failed
    note = ", ".join(sorted({str(change.act) for change in plan.changes}))
    return row(what, len(found), watch, meter) | {"note": note}


def listed(settings: Settings, count: int) -> list[Row]:
    """Every page of 100 from the first to the last; a prefix; a tag that a twentieth has; one that nobody has."""
    scheduler, meter = connected(settings)
    return [
        paged("page of 100", scheduler, meter, count),
        paged("page of 100 of a prefix", scheduler, meter, count // 20, prefix="team-07/"),
        paged("page of 100 of a tag", scheduler, meter, count // 20, tag=("team", "7")),
        paged("call that finds no tag", scheduler, meter, 0, tag="nobody"),
    ]


def paged(what: str, scheduler: Scheduler, meter: Meter, expected: int, **wanted: Any) -> Row:
    times, found, cursor, watch = [], 0, None, Watch()
    calls = meter.of("Query")
    while True:
        start = time.perf_counter()
        page = scheduler.list_schedules(limit=100, cursor=cursor, **wanted)
        times.append((time.perf_counter() - start) * 1e3)
        found, cursor = found + len(page.items), page.cursor
        if cursor is None:
            break
    assert found == expected, f"{what}: {found} instead of {expected}"
    times.sort()
    figures = {"median ms": round(times[len(times) // 2], 1), "p99 ms": round(times[int(len(times) * 0.99)], 1)}
    made = row(what, len(times), watch, None) | figures
    return made | {"note": f"{(meter.of('Query') - calls) / len(times):.0f} queries each"}


def bulk(settings: Settings, action: BulkAction, **given: Any) -> Row:
    """All of them, as fast as it goes."""
    scheduler, meter = connected(settings)
    watch = Watch()
    done = scheduler.bulk(action, prefix="team-", rate=1_000, **given)
    assert not done.failed, done.failed
    return row(f"bulk {action}", done.count, watch, meter)


def connected(settings: Settings) -> tuple[Scheduler, Meter]:
    """An SDK as a new process has it, metered, its connections made."""
    services = connect(settings)
    scheduler = Scheduler(settings=settings, services=services)
    scheduler.list_schedules(limit=1)
    control: Any = services.schedules
    return scheduler, Meter(services, control._control._connection.client)


class Watch:
    """What has passed since it was made, in seconds: on the wall, of this process's time, of the cloud's."""

    cloud: ClassVar[int]  # its process id

    def __init__(self) -> None:
        self._began = self._now()

    def passed(self) -> list[float]:
        return [now - began for now, began in zip(self._now(), self._began, strict=True)]

    def _now(self) -> list[float]:
        return [time.perf_counter(), time.process_time(), cpu(self.cloud)]


def row(what: str, count: int, watch: Watch, meter: Meter | None) -> Row:
    wall, own, cloud = watch.passed()
    spent = {"cpu ms": round(own / count * 1e3, 1), "cloud ms": round(cloud / count * 1e3, 1)}
    writes = "" if meter is None else meter.writes
    empty = {"median ms": "", "p99 ms": "", "note": ""}
    return {"what": what, "calls": count, "a second": round(count / wall), "writes": writes, **spent, **empty}
