"""Schedules that fire for one minute, and what became of each fire: by the workers' log lines, and by the ledger."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack.domain.names import schedule_owner
from quarterjack.domain.run import RunRow, RunState

from bench.aws_proof.deployment import AGO, Deployment
from bench.aws_proof.jobs import BEGAN, NOTE
from bench.endtoend import in_threads
from bench.observed.figures import MS, Fire, percentile
from bench.observed.witness import Began
from bench.progress import say

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
ENDED = frozenset({RunState.SUCCEEDED, RunState.DEAD, RunState.CANCELLED, RunState.LOST})
_LOOK = 2.0  # seconds between looks
_SECONDS = 60  # of a minute
_TRIES, _MORE, _FEW = 3, 3, 1_000  # with so much more lead each time; more schedules are not created anew


@dataclass(frozen=True, kw_only=True)
class Load:
    """Schedules and all their fires."""

    name: str  # with which the names of its schedules begin, before a hyphen
    names: Sequence[str]
    fires: Sequence[Fire]

    @property
    def first(self) -> int:
        """UTC ms."""
        return min(due for _, due in self.fires)

    @property
    def last(self) -> int:
        """UTC ms."""
        return max(due for _, due in self.fires)


@dataclass(frozen=True, kw_only=True)
class Fires:
    """What is to be put on: ``number`` schedules that fire every ``every`` seconds of one minute, evenly over its seconds."""

    name: str
    number: int
    every: int
    start: str = "prompt"
    job: str = NOTE
    threads: int = 8
    lead: float = 30.0  # seconds from the last schedule to the first fire
    a_second: float = 50.0  # so many schedules are created a second at least
    options: Mapping[str, Any] = field(default_factory=dict)


def put_on(deployment: Deployment, fires: Fires) -> Load:
    """Create the schedules as if it were some minutes ago, so that the ticker claims every fire; returns them.

    On a loaded machine a few schedules may take longer than the lead. Then they are deleted, and others get more time. Raises
    TimeoutError if that does not help, or if there are many.
    """
    for further in reversed(range(_TRIES)):
        load = _created(deployment, fires)
        if time.time() * MS <= load.first:
            deployment.tick()
            return load
        if not further or fires.number > _FEW:
            break
        say(f"{load.name}: not created before the first fire; again, with a lead of {fires.lead * _MORE:.0f} s")
        in_threads(deployment.scheduler().delete_schedule, load.names, fires.threads, f"{load.name}: schedules deleted")
        fires = replace(fires, name=f"{fires.name}.again", lead=fires.lead * _MORE)
    raise TimeoutError(
        f"{fires.name}: {fires.number} schedules were not created before their first fire: "
        f"{fires.a_second:.0f} a second are allowed for, and {fires.lead:.0f} s; run it nearer to the region, or with a smaller RATE"
    )


def _created(deployment: Deployment, fires: Fires) -> Load:
    room = fires.lead + fires.number / fires.a_second
    minute = (datetime.now(UTC) + timedelta(seconds=room + _SECONDS - 1)).replace(second=0, microsecond=0)
    scheduler = deployment.scheduler(ago=AGO)

    def create(number: int) -> list[Fire]:
        name, phase = f"{fires.name}-{number:06}", number % fires.every
        cron = f"{phase}/{fires.every} {minute:%M %H %d %m} *"
        options: dict[str, Any] = {"start": fires.start, "payload": name, **fires.options}
        scheduler.create_schedule(name, fires.job, cron, **options)
        seconds = range(phase, _SECONDS, fires.every)
        return [(name, int((minute + timedelta(seconds=second)).timestamp() * MS)) for second in seconds]

    made = in_threads(create, range(fires.number), fires.threads, f"{fires.name}: schedules created")
    return Load(name=fires.name, names=[of[0][0] for of in made], fires=[fire for of in made for fire in of])


def wait_until(moment: float) -> None:
    """Wait for an instant (UTC ms)."""
    threading.Event().wait(max(moment / MS - time.time(), 0))


def rows(deployment: Deployment, load: Load, *, threads: int = 8) -> list[RunRow]:
    """The ledger's runs of the load's fires."""
    ledger, tenant = deployment.services().ledger, deployment.settings.tenant

    def of(name: str) -> list[RunRow]:
        owner = schedule_owner(tenant, name)
        return list(ledger.window(owner, after=load.first - MS, upto=load.last))

    return [row for found in in_threads(of, load.names, threads, "ledger: schedules read") for row in found]


def wait_for_end(deployment: Deployment, loads: Sequence[Load], patience: float, *, threads: int = 8) -> list[RunRow]:
    """The runs of the loads, as soon as all have ended, at most ``patience`` seconds after the last is due."""
    wait_until(max(load.last for load in loads))
    wanted, deadline = sum(len(load.fires) for load in loads), time.monotonic() + patience
    while True:
        found = [row for load in loads for row in rows(deployment, load, threads=threads)]
        if sum(row.state in ENDED for row in found) >= wanted or time.monotonic() > deadline:
            return found
        threading.Event().wait(_LOOK)


def witnessed(deployment: Deployment, *, since: float) -> list[Began]:
    """What the jobs said since then (UTC ms), from the logs of the default queue's worker."""
    logs = deployment.cloud.client("logs")
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=f"/aws/lambda/{deployment.function('worker')}",
        filterPattern=f'"{BEGAN}"',
        startTime=int(since) - _SECONDS * MS,
    )
    return list(_began(event["message"] for page in pages for event in page["events"]))


def _began(messages: Iterator[str]) -> Iterator[Began]:
    for message in messages:
        with suppress(ValueError, KeyError, TypeError):  # a line of somebody else who has the word in it
            line = json.loads(message)
            if line["event"] == BEGAN:
                yield Began(line["whose"], int(line["due_ms"]), float(line["began_ms"]))


def wait_for_witness(deployment: Deployment, wanted: int, *, since: float, of: str, patience: float) -> list[Began]:
    """What the jobs of schedules called ``of``-… said, once that are so many lines. Logs arrive some seconds late."""
    deadline = time.monotonic() + patience
    while True:
        began = [one for one in witnessed(deployment, since=since) if one.key.startswith(f"{of}-")]
        if len(began) >= wanted or time.monotonic() > deadline:
            return began
        threading.Event().wait(_LOOK)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """By nearest rank; nothing of nothing."""
    ordered = sorted(seconds)
    return {name: round(percentile(ordered, share), 3) for name, share in SHARES.items()} if ordered else {}


def within(seconds: Sequence[float], most: float, of: int) -> float:
    """Per cent of ``of``."""
    return 100 * sum(each <= most for each in seconds) / of if of else 0.0
