"""Runs of jobs that crash their worker process at random points, judged by what the jobs themselves wrote down."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from quarterjack import Run, RunState
from quarterjack.errors import NotFinished

from bench.hurried.crew import Hurried
from bench.hurried.work import EXIT, STEPS

P = 0.2  # of an attempt's crashing
LENGTH = 0.05  # seconds between two points of a job, at the most


@dataclass(kw_only=True)
class Figures:
    """What came of the runs. All but the first group must be as their comments say."""

    runs: int = 0
    seconds: float = 0.0
    crashes: int = 0  # worker processes that died
    attempts: int = 0
    states: Counter[str] = field(default_factory=Counter)

    unended: int = 0  # 0
    repeated: int = 0  # runs whose effect happened more than once …
    unrecorded: int = 0  # … which are runs that crashed between effect and record
    unexplained: int = 0  # 0: repeated without such a crash
    ambiguous: int = 0  # 0: (run, step) whose recorded result was given as two different values
    missing: int = 0  # 0: steps of succeeded runs without a recorded result
    keyed_twice: int = 0  # 0: effects that repeated although the downstream knows the key
    started_twice: int = 0  # 0 where delivery is at_most_once
    untold: int = 0  # 0: at-most-once runs that are neither SUCCEEDED nor LOST

    @property
    def row(self) -> dict[str, Any]:
        return {**vars(self), "seconds": round(self.seconds, 1), "states": dict(self.states)}


def crash_runs(hurry: Hurried, runs: int, *, workers: int, job: str, within: float, seed: int = 1) -> Figures:
    """Submit so many runs, let workers crash and come back until all have ended, and judge."""
    hurry.start("ticker", "ticker", "--period", "1")
    hurry.start("undertaker", "undertaker")
    for number in range(workers):
        hurry.start_worker(f"worker-{number + 1}")
    payload = {"to": str(hurry.to), "keyed": str(hurry.keyed), "seed": seed, "p": P, "length": LENGTH}
    began = time.monotonic()
    ids = [hurry.scheduler.submit(job, payload).id for _ in range(runs)]
    ended = _wait(hurry, ids, within)
    figures = judge(hurry, [hurry.scheduler.get_run(run_id) for run_id in ids], once=job.endswith("once"))
    figures.seconds, figures.crashes, figures.unended = time.monotonic() - began, hurry.exits[EXIT], runs - ended
    return figures


def _wait(hurry: Hurried, ids: list[str], within: float) -> int:
    """How many have ended in time."""
    open_ = set(ids)

    def over() -> bool:
        for run_id in sorted(open_)[:50]:
            try:
                hurry.scheduler.wait_for(run_id, timeout=0.001)
            except NotFinished:
                continue
            open_.discard(run_id)
        return not open_

    hurry.until(over, within, look=0.5)
    return len(ids) - len(open_)


def judge(hurry: Hurried, runs: list[Run], *, once: bool) -> Figures:
    """The ledger against the witness."""
    effects, given = defaultdict(list), defaultdict(set)
    for line in hurry.lines("effect"):
        effects[line["run"], line["step"]].append(line["token"])
    for line in hurry.lines("recorded"):
        given[line["run"], line["step"]].add(line["token"])
    starts = Counter(line["run"] for line in hurry.lines("start"))
    keyed = Counter((line["run"], line["step"]) for line in hurry.lines("keyed"))
    figures = Figures(
        runs=len(runs),
        attempts=starts.total(),
        states=Counter(str(run.state) for run in runs),
        keyed_twice=sum(count > 1 for count in keyed.values()),
        ambiguous=sum(len(tokens) > 1 for tokens in given.values()),
    )
    if once:
        figures.started_twice = sum(count > 1 for count in starts.values())
        figures.untold = sum(run.state not in (RunState.SUCCEEDED, RunState.LOST) for run in runs)
        return figures
    for run in runs:
        tokens = {step: effects[run.id, step] for step in STEPS}
        again = any(len(happened) > 1 for happened in tokens.values())
        between = any(set(happened) - {run.steps.get(step)} for step, happened in tokens.items())
        figures.repeated += again
        figures.unrecorded += between
        figures.unexplained += again and not between
        figures.ambiguous += any(given[run.id, step] - {run.steps.get(step)} for step in STEPS)
        figures.missing += run.state is RunState.SUCCEEDED and set(run.steps) != set(STEPS)
    return figures
