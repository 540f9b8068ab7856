"""The same work for other schedulers and for ours, one after the other on this machine: CPU, lateness, throughput.

    python -m bench peers [NAME ...] [--cases recurring burst drain] [--size 1000] [--drain 3000] [--minutes 15] [--page FILE]

``recurring`` is SIZE schedules that all fire at once, every 10 s of half a minute; ``burst`` is SIZE one-offs that are due at one
instant, ``drain`` are more, if it is asked for. What cannot be set up is listed with the reason, as is what ``--minutes`` leave no time
for: once all is installed, a run ends within them. CPU is that of a scheduler's and its workers' processes; that of its database (ours:
of the embedded cloud, a Python program that stands for DynamoDB and SQS) stands apart.
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
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bench import endtoend
from bench.meter import cpu_of_tree, niceness
from bench.observed import figures, witness
from bench.peers import servers
from bench.peers.install import Missing, environment
from bench.peers.page import page, shown, with_ratios
from bench.peers.plan import BURST, EVERY, HALF, OURS, RECURRING, TIMES, Plan, Row, in_order
from bench.peers.processes import Peers, peers
from bench.report import Table, write

START, THOUSAND = 12, 10  # seconds to start, and to put on a thousand
_AWHILE = 40.0  # seconds after the last fire was due
_ENDS = 20.0  # seconds in which a server and processes start and end
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
    durable: bool = True  # whether its jobs survive a kill; the others are measured by name alone

    @property
    def key(self) -> str:
        return re.split(r"[\[=]", self.packages[0])[0]


_APSCHEDULER = ("apscheduler==3.11.3", "psycopg2-binary==2.9.13", "sqlalchemy==2.1.9")
PEERS = (
    Peer("APScheduler, memory", _APSCHEDULER, None, ("memory",), ("memory",), durable=False),
    Peer("APScheduler cron, memory", _APSCHEDULER, None, ("cron",), (), durable=False),
    Peer("APScheduler, PostgreSQL", _APSCHEDULER, _POSTGRES, ("postgres",), ("postgres",)),
    Peer("Celery, Redis", ("celery[redis]==5.7.0",), _REDIS, ("worker", "beat"), ("worker", "submit")),
    Peer("arq, Redis", ("arq==0.28.0",), _REDIS, ("worker",), ("worker", "submit")),
    Peer("DBOS, PostgreSQL", ("dbos==3.4.0",), _POSTGRES, ("all",), ("all",)),
    Peer(
        "procrastinate, PostgreSQL",
        ("procrastinate==3.10.0", "psycopg[binary]==3.3.9"),
        _POSTGRES,
        ("worker",),
        ("worker", "submit"),
    ),
)


def main(arguments: Sequence[str] = ()) -> None:
    asked = parse(arguments)
    prepare(asked)
    rows = list(measured(asked))
    with_ratios(rows)
    write("peers", rows)
    asked.page.parent.mkdir(parents=True, exist_ok=True)
    asked.page.write_text(page(rows))
    print(f"{asked.page}: the page")
    Table(f"beside peers; load average {os.getloadavg()[0]:.1f} at the end", [shown(row) for row in rows]).show()
    if len({row["nice"] for row in rows if "nice" in row}) > 1:
        raise SystemExit("the kernel preferred some of these processes to others (nice): the rows cannot be compared")


def prepare(asked: argparse.Namespace) -> None:
    """Install what is asked for, before the time counts. What cannot be had is said in its row."""
    for peer in PEERS:
        if peer.name in chosen(asked, RECURRING):
            with suppress(Missing, OSError, subprocess.SubprocessError):
                environment(peer.key, peer.packages)


def chosen(asked: argparse.Namespace, kind: str) -> list[str]:
    """The schedulers of a case: those that are named, or else ours and all whose jobs survive a kill."""
    able = [OURS, *(peer.name for peer in PEERS if kind == RECURRING or peer.burst)]
    if asked.names:
        return [name for name in able if any(name.lower().startswith(given.lower()) for given in asked.names)]
    passing = {peer.name for peer in PEERS if not peer.durable}
    return [name for name in able if name not in passing]


def measured(asked: argparse.Namespace, now: Callable[[], float] = time.monotonic) -> Iterator[Row]:
    """Row by row, each printed when it is there."""
    end = now() + asked.minutes * 60
    for kind, size in ((RECURRING, asked.size), (BURST, asked.size), ("drain", asked.drain)):
        for name in chosen(asked, kind) if kind in asked.cases else ():
            row = {"case": kind, "size": size, "scheduler": name}
            if now() + longest(kind, size) > end:
                row["reason"] = f"no time is left of --minutes {asked.minutes:g}"
            else:
                row |= one(kind, size, name)
            print(json.dumps(row), flush=True)
            yield row


def longest(kind: str, size: int) -> float:
    """Seconds that a row takes at the most: recurring ones begin with a minute or its half."""
    waits = HALF + EVERY * TIMES if kind == RECURRING else EVERY * TIMES
    return lead(size) + waits + _AWHILE + _ENDS


def lead(size: int) -> float:
    """Seconds until so many schedules or one-offs are put on."""
    return START + THOUSAND * max(size / 1_000, 1)


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
        plan = Plan(kind, size, half_minute(lead(size)) if kind == RECURRING else int(time.time() + lead(size)))
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
    """Wait for its fires; what they took. CPU is taken before a schedule's fourth fire, a fire of those that have begun."""
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


def half_minute(after: float) -> int:
    """The first that begins at least so many seconds from now (UTC seconds)."""
    return -int(-(time.time() + after) // HALF) * HALF


def sleep_until(at: float) -> None:
    time.sleep(max(at - time.time(), 0))


def _driver(url: str, peer: Peer) -> str:
    return url.replace("postgresql:", "postgresql+psycopg2:") if "APScheduler" in peer.name else url


# Ours.

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


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench peers", description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names; without one, ours and all that survive a kill")
    parser.add_argument("--cases", nargs="*", choices=(RECURRING, BURST, "drain"), default=[RECURRING, BURST])
    parser.add_argument("--size", type=int, default=1_000)
    parser.add_argument("--drain", type=int, default=3_000)
    parser.add_argument("--minutes", type=float, default=15.0, help="of measuring, at the most")
    parser.add_argument("--page", type=Path, default=Path("build/bench/peers.md"), help="file of the page in Markdown")
    return parser.parse_args(arguments)
