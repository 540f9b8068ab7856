"""What an isolated attempt takes from the submission of a job that does nothing to its settled end, over services in memory.

python -m bench isolated [--repeat 20]

*new interpreter*: a process is started for the attempt, which imports the job's module. *imported anew*: it is forked from a process that
has imported the package but no jobs, as where the import of a job's module leaves a thread. *preloaded*: it is forked from one that has
imported the job's module. The three take turns, so that they have the same machine.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from statistics import median

from quarterjack import RunState, Scheduler
from quarterjack.isolation import PreloadedParent, modules_of, perform_isolated
from quarterjack.jobs import Registry
from quarterjack.services import system_clock
from quarterjack.testing import Memory
from quarterjack.testing.process import Hand, make_worker
from quarterjack.worker.execution.executor import ThreadedExecutor

from bench.isolated import large, small
from bench.report import Table, write


def attempt(jobs: Registry, parent: PreloadedParent) -> float:
    """Milliseconds of one run."""
    memory = Memory(system_clock)
    worker = make_worker(memory.connect(), jobs, system_clock, wait=threading.Event().wait)
    scheduler = Scheduler("bench", jobs=jobs, services=memory.connect(), clock=system_clock)
    hand = Hand(worker=replace(worker, executor=ThreadedExecutor(), isolated=partial(perform_isolated, parent)))
    (name,) = jobs.names()
    started = time.perf_counter()
    run = scheduler.submit(name)
    hand.work()
    took = time.perf_counter() - started
    assert scheduler.get_run(run.id).state is RunState.SUCCEEDED
    return took * 1e3


def started_for_it(jobs: Registry) -> float:
    """The same with a process that is started for this attempt alone. Its end is not counted."""
    with closing(PreloadedParent(modules_of(jobs))) as parent:
        return attempt(jobs, parent)


def measure(case: str, jobs: Registry, repeat: int) -> list[dict[str, object]]:
    with ExitStack() as opened:
        bare, preloaded = (
            opened.enter_context(closing(PreloadedParent(modules))) for modules in ([], modules_of(jobs))
        )
        ways: dict[str, Callable[[], float]] = {
            "new interpreter": lambda: started_for_it(jobs),
            "imported anew": lambda: attempt(jobs, bare),
            "preloaded": lambda: attempt(jobs, preloaded),
        }
        for way in ways.values():
            way()  # starts, bytecode and caches are no part of it
        took: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeat):
            for name, way in ways.items():
                took[name].append(way())
    of = median(took["new interpreter"])
    return [
        {
            "job": case,
            "attempt": name,
            "median_ms": round(median(all_of), 1),
            "least_ms": round(min(all_of), 1),
            "ratio": round(median(all_of) / of, 2),
        }
        for name, all_of in took.items()
    ]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench isolated")
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args(arguments)
    rows = [
        row
        for case, jobs in (("small", small.registry), ("large", large.registry))
        for row in measure(case, jobs, given.repeat)
    ]
    Table("Isolated attempts, submission to settled end", rows).show()
    print(f"kept in {write('isolated', rows)}")
