"""Durable waits and pipelines over the embedded cloud: a hop of a chain of children or of tasks, and the answer to a signal.

    python -m bench hops [--links 50] [--signals 50] [--peers]

A hop is the time from the start of a child to the start of the next one: the child ends, its parent is woken, leased and called again, and
submits the next child. In a pipeline, the end of a task starts the next one. An answer is the time from the call of ``Scheduler.signal``
to the end of the run that waited.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from quarterjack import Registry, pipeline
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.pipelines.handles import TaskHandle
from quarterjack.domain.run import RunState
from quarterjack.local.cloud import LocalCloud
from quarterjack.services import connect, system_clock
from quarterjack.state.waits.asked import child_ref

from bench.observed import jobs
from bench.observed.crew import Ours, ours
from bench.peers import servers
from bench.peers.install import HOME, Missing, environment
from bench.progress import say
from bench.report import Table, write

_PATIENCE = 120.0  # seconds


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=50, help="children of the chain, one after the other")
    parser.add_argument("--signals", type=int, default=50, help="runs that wait, answered one after the other")
    parser.add_argument("--peers", action="store_true", help="DBOS beside ours: installs it and PostgreSQL")
    asked = parser.parse_args(arguments)
    with LocalCloud() as cloud, ours(cloud, workers=1, concurrency=20, period=20.0) as running:
        rows = [
            _figures("chain, a hop", _hops(running, asked.links)),
            _figures("pipeline, a hop", _tasks(running, asked.links)),
            _figures("signal, to the end", _answers(running, asked.signals)),
        ]
    if asked.peers:
        rows += [_dbos(asked.links), _prefect(asked.links)]
    write("hops", rows)
    Table("hops", rows).show()


def _dbos(links: int) -> dict[str, Any]:
    """The chain of DBOS, which calls no queue: a workflow starts the next one in its own process, and polls for its result."""
    say(f"DBOS: a chain of {links} workflows")
    try:
        python = environment("dbos", ("dbos==3.4.0",))
        with servers.postgres() as (url, _):
            command = [str(python), "-m", "bench.peers.hops_dbos", url, str(links)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE + links)
    except (Missing, subprocess.SubprocessError) as problem:
        return {"what": f"DBOS: {problem}"}
    return _figures("DBOS over PostgreSQL, a hop", json.loads(done.stdout.splitlines()[-1]))


def _prefect(links: int) -> dict[str, Any]:
    """The chain of Prefect: a flow that calls another one in its own process, and tells the server of both."""
    say(f"Prefect: a chain of {links} flows")
    try:
        python = environment("prefect", ("prefect==3.9.1",))
        command = [str(python), "-m", "bench.peers.hops_prefect", str(links)]
        told = {
            "PREFECT_HOME": str(HOME.resolve() / "prefect-home"),
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "DO_NOT_TRACK": "1",
        }
        told |= {"PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        patience = _PATIENCE + 5 * links
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=patience, env=os.environ | told
        )
    except (Missing, subprocess.SubprocessError) as problem:
        return {"what": f"Prefect: {problem}"}
    return _figures("Prefect over SQLite, a hop", json.loads(done.stdout.splitlines()[-1]))


def _figures(what: str, ms: list[float]) -> dict[str, Any]:
    return {
        "what": what,
        "number": len(ms),
        "median ms": round(statistics.median(ms), 1),
        "p95 ms": round(statistics.quantiles(ms, n=20)[-1], 1),
        "longest ms": round(max(ms), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def _hops(running: Ours, links: int) -> list[float]:
    """From the start of a child to that of the next one (ms). The first chain warms the worker."""
    scheduler = running.scheduler(system_clock)
    for number in (5, links):
        say(f"a chain of {number} children")
        run = scheduler.submit(jobs.CHAIN, number)
        assert scheduler.wait_for(run.id, _PATIENCE + links).result == number
    ledger = connect(running.settings).ledger
    refs = [child_ref(parse_run_id(run.id), f"link-{number}") for number in range(links)]
    found = ledger.look(refs).found
    starts = [found[ref].started_at or 0 for ref in refs]
    return [float(second - first) for first, second in pairwise(starts)]


def _tasks(running: Ours, links: int) -> list[float]:
    """From the start of a task to that of the next one (ms), in a pipeline of so many, each after the one before."""
    scheduler = running.scheduler(system_clock)
    for number in (5, links):
        say(f"a pipeline of {number} tasks")
        with pipeline(f"bench-{number}", registry=Registry()) as declared:
            before: list[TaskHandle] = []
            for place in range(number):
                before = [declared.task(jobs.LINK, name=f"task_{place}", after=before)]
        scheduler.upsert_pipeline(declared)
        run = scheduler.trigger(declared.name)
        assert scheduler.wait_for(run.id, _PATIENCE + links).state is RunState.SUCCEEDED
    starts = [task.started_at.timestamp() * 1e3 for task in scheduler.pipeline_run(run.id).tasks if task.started_at]
    return [second - first for first, second in pairwise(starts)]


def _answers(running: Ours, signals: int) -> list[float]:
    """From the call that signals to the end of the run (ms)."""
    scheduler = running.scheduler(system_clock)
    say(f"{signals} runs wait for a signal")
    waiting = [scheduler.submit(jobs.SLEEPER).id for _ in range(signals)]
    deadline = time.monotonic() + _PATIENCE
    while any(scheduler.get_run(run_id).state is not RunState.PARKED for run_id in waiting):
        assert time.monotonic() < deadline, "they did not park"
        running.look()
    lasted = []
    for run_id in waiting:
        began = system_clock()
        scheduler.signal(run_id, "go", 1)
        ended = scheduler.wait_for(run_id, _PATIENCE).ended_at
        assert ended is not None
        lasted.append(ended.timestamp() * 1e3 - began)
    return lasted
