"""The same work for other schedulers and for ours, one after the other on this machine: CPU, lateness, throughput.

    python -m bench peers [NAME ...] [--cases recurring together burst drain] [--size 1000] [--drain 3000]

``recurring`` is SIZE schedules that all fire at once, every 10 s of a minute; ``burst`` is SIZE one-offs that are due at one instant,
``drain`` are more. What cannot be set up is listed with the reason. CPU is that of a scheduler's and its workers' processes; that
of its database (ours: of the embedded cloud, a Python program that stands for DynamoDB and SQS) stands apart.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from bench import endtoend
from bench.meter import cpu_of_tree, niceness
from bench.observed import figures, witness
from bench.peers import servers
from bench.peers.install import Missing, environment
from bench.peers.plan import BURST, EVERY, RECURRING, TIMES, Plan, in_order
from bench.peers.processes import Peers, peers
from bench.report import Table, write

Row = dict[str, Any]
START, THOUSAND = 12, 10  # seconds to start, and to put on a thousand
_AWHILE = 40.0  # seconds after the last fire was due
_LOOK = 0.1
_POSTGRES, _REDIS = "postgres", "redis"
_SERVERS: dict[str, Callable[[], AbstractContextManager[servers.Server]]] = {
    _POSTGRES: servers.postgres,
    _REDIS: servers.redis,
}


@dataclass(frozen=True)
class Peer:
    """How one is run: its processes by their roles, one started when the other is set up."""

    name: str
    packages: tuple[str, ...]  # the first is what it is
    server: str | None
    recurring: tuple[str, ...]
    burst: tuple[str, ...]  # none: what differs is how it recurs

    @property
    def key(self) -> str:
        return re.split(r"[\[=]", self.packages[0])[0]


_APSCHEDULER = ("apscheduler==3.11.3", "psycopg2-binary==2.9.13", "sqlalchemy==2.1.9")
PEERS = (
    Peer("APScheduler, memory", _APSCHEDULER, None, ("memory",), ("memory",)),
    Peer("APScheduler cron, memory", _APSCHEDULER, None, ("cron",), ()),
    Peer("APScheduler, PostgreSQL", _APSCHEDULER, _POSTGRES, ("postgres",), ("postgres",)),
    Peer("Celery, Redis", ("celery[redis]==5.7.0",), _REDIS, ("worker", "beat"), ("worker", "submit")),
    Peer("arq, Redis", ("arq==0.28.0",), _REDIS, ("worker",), ("worker", "submit")),
    Peer("DBOS, PostgreSQL", ("dbos==3.4.0",), _POSTGRES, ("all",), ("all",)),
)


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    rows = list(measured(asked))
    with_ratios(rows)
    write("peers", rows)
    Table(f"beside peers; load average {os.getloadavg()[0]:.1f} at the end", [shown(row) for row in rows]).show()
    if len({row["nice"] for row in rows if "nice" in row}) > 1:
        raise SystemExit("the kernel preferred some of these processes to others (nice): the rows cannot be compared")


def measured(asked: argparse.Namespace) -> Iterator[Row]:
    """Row by row, each printed when it is there."""
    for kind, size in ((RECURRING, asked.size), (BURST, asked.size), ("drain", asked.drain)):
        if kind not in asked.cases:
            continue
        for name in [OURS, *(peer.name for peer in PEERS if kind == RECURRING or peer.burst)]:
            if not asked.names or any(name.lower().startswith(given.lower()) for given in asked.names):
                row = {"case": kind, "size": size, "scheduler": name} | one(kind, size, name)
                print(json.dumps(row), flush=True)
                yield row


def one(kind: str, size: int, name: str) -> Row:
    """A scheduler at one work; the reason if it cannot be had."""
    try:
        if name == OURS:
            return ours(kind, size)
        peer = next(peer for peer in PEERS if peer.name == name)
        return beside(peer, RECURRING if kind == RECURRING else BURST, size)
    except (Missing, OSError, subprocess.SubprocessError) as problem:
        return {"reason": " ".join(str(problem).split())[-300:]}


# A peer.


def beside(peer: Peer, kind: str, size: int) -> Row:
    """One peer at one work."""
    python = environment(peer.key, peer.packages)
    with ExitStack() as stack:
        url, server = ("", 0) if peer.server is None else stack.enter_context(_SERVERS[peer.server]())
        lead = START + THOUSAND * max(size / 1_000, 1)
        plan = Plan(kind, size, whole_minute(lead) if kind == RECURRING else int(time.time() + lead))
        plan = replace(plan, database=_driver(url, peer), redis=url)
        roles = peer.recurring if kind == RECURRING else peer.burst
        running = stack.enter_context(peers(python, f"bench.peers.with_{peer.key}", plan, roles[:1]))
        before = running.cpu(), server and cpu_of_tree(server)
        for role in roles[1:]:
            running.start(role)
        if kind == RECURRING:
            sleep_until(plan.first - 1)
            before = running.cpu(), server and cpu_of_tree(server)
        return figures_of(running, plan, before, server) | {"version": peer.packages[0]}


def figures_of(running: Peers, plan: Plan, before: tuple[float, float], server: int) -> Row:
    """Wait for its fires; what they took. CPU is taken before a schedule's seventh fire, a fire of those that have begun."""
    wanted = len(plan.fires)
    wait_for(running.folder, wanted, plan.first + EVERY * TIMES - 0.5)
    sleep_until(
        min(time.time() + 0.5, plan.first + EVERY * TIMES - 0.2) if plan.kind == RECURRING else time.time() + 0.5
    )
    count = max(witness.count(running.folder), 1)
    used = running.cpu() - before[0]
    of_server = (cpu_of_tree(server) - before[1]) / count * 1e6 if server else 0.0
    wait_for(running.folder, wanted, plan.first + EVERY * TIMES + _AWHILE)
    found = list(witness.read(running.folder))
    began = list(in_order(found, plan)) if plan.kind == RECURRING else found
    return {
        **figures.starts(plan.fires, began),
        "a second": round(figures.rate(began) or 0) if plan.kind == BURST else "",
        "cpu_us_per_fire": round(used / count * 1e6, 1),
        "server us": round(of_server, 1),
        "nice": niceness([*running.pids, *filter(None, [server])]),
        "load": round(os.getloadavg()[0], 1),
    }


def wait_for(folder: Path, fires: int, upto: float) -> None:
    while witness.count(folder) < fires and time.time() < upto:
        time.sleep(_LOOK)


def whole_minute(lead: float) -> int:
    """The first that begins at least so many seconds from now (UTC seconds)."""
    return -int(-(time.time() + lead) // 60) * 60


def sleep_until(at: float) -> None:
    time.sleep(max(at - time.time(), 0))


def _driver(url: str, peer: Peer) -> str:
    return url.replace("postgresql:", "postgresql+psycopg2:") if "APScheduler" in peer.name else url


# Ours.

OURS = "Quarterjack, embedded cloud"
_FIRES = 2_000  # of which our floor is taken


def ours(kind: str, size: int) -> Row:
    """The same work on the embedded cloud; beside it what our processes take where answers cost nothing."""
    case = next(case for case in endtoend.CASES if case.name == "prompt, together")
    if kind != RECURRING:
        case = replace(next(case for case in endtoend.CASES if case.fires), fires=size)
    asked = endtoend.parse(["--schedules", str(size)])
    row = endtoend.one(case, asked)
    names = ("fires", "missing", "double", "unexpected", *(f"{name} ms" for name in figures.SHARES), "a second")
    found = {name: row[name] for name in (*names, "cpu_us_per_fire", "nice", "load")}
    return found | {"server us": row["cloud us"], "sockets us": over_sockets()}


@cache
def over_sockets() -> float:
    """Ticker and worker together, a recurring fire, microseconds; in a process of its own, into which nothing else is loaded."""
    subprocess.run([sys.executable, "-m", "bench", "sockets", "--fires", str(_FIRES)], check=True, capture_output=True)
    rows = json.loads(Path("build/bench/sockets.json").read_text())
    used: list[float] = [row["cpu_us_per_fire"] for row in rows[:2]]  # work, and a tick of hourly schedules
    return round(sum(used), 1)


# The table.


def with_ratios(rows: Sequence[Row]) -> None:
    """Add to each row what its scheduler takes of CPU beside ours at the same work: over 1, ours takes less."""
    mine = {row["case"]: row for row in rows if row["scheduler"] == OURS}
    for row in rows:
        base = mine.get(row["case"], {})
        for name, key in (("of ours", "cpu_us_per_fire"), ("of sockets", "sockets us")):
            known = "cpu_us_per_fire" in row and base.get(key)
            row[name] = round(row["cpu_us_per_fire"] / base[key], 2) if known else ""


_COLUMNS = (
    "case",
    "scheduler",
    "fires",
    "missing",
    "double",
    "p50 ms",
    "p99 ms",
    "max ms",
    "a second",
    "cpu_us_per_fire",
)
_MORE = ("server us", "sockets us", "of ours", "of sockets", "nice", "load", "reason")


def shown(row: Row) -> Row:
    return {name: row.get(name, "") for name in (*_COLUMNS, *_MORE)}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench peers", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names; without one, all of them")
    parser.add_argument("--cases", nargs="*", choices=(RECURRING, BURST, "drain"), default=[RECURRING, BURST, "drain"])
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--drain", type=int, default=3_000)
    return parser.parse_args(arguments)
