"""What is asked: so many fires, when, with which setting; and what the model answers, with dollars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from quarterjack.domain.schedule import Definition, Revision
from quarterjack.domain.times import HOUR, MINUTE, SECOND
from quarterjack.fires.plan import shift_of, timetable_of
from quarterjack.timing import Rule

from bench.modelled.assumptions import overhead
from bench.modelled.prices import GB_SECOND, INVOCATION, POLLER, READ, SQS, WRITE
from bench.modelled.settings import Setting
from bench.modelled.ticker import Cohort, Visible, run_ticker
from bench.modelled.workers import Worked, run_workers

TOP = 1_795_240_800_000  # 2026-11-21T06:00:00Z, the top of an hour
EARLIER = 6 * MINUTE  # ticks go on for so long before the first fire
WARM = 20 * MINUTE  # for which dense schedules have been firing: their chains are at their usual step, of ten minutes
_WRITES_OF_A_RUN, _WRITES_OF_A_STEP = 3, 2  # claim, lease, settle; next entry, this one gone: bench cost counts them
_REQUESTS_OF_A_BATCH = 3  # receive, visibility, deletion
_MONTH = 720  # hours
_TENTHS = 10  # minutes of the longest window of dense chains
_WORKER_GB, _TICKER_GB = 0.5, 1_769 / 1_024


@dataclass(frozen=True)
class Scenario:
    """Schedules, and the time that is asked about: fires in ``(TOP - 1, TOP + length)``."""

    name: str
    cohorts: Sequence[Cohort]
    length: int  # ms
    before: int = 0  # ms for which they have been firing


def sustained(rate: int = 10_000, *, length: int = HOUR, before: int = WARM) -> Scenario:
    """Minutely schedules, begun at every second of the minute alike; windows of each tenth of them end in another minute of ten."""
    since = TOP - before - MINUTE
    cohorts = [
        Cohort(revision, rate / _TENTHS)
        for second in range(60)
        for revision in _tenths(f"rate-{second}", "rate(1 minute)", since=since + second * SECOND)
    ]
    return Scenario(f"{rate:,} fires/s", cohorts, length, before)


def _tenths(name: str, expression: str, *, since: int = TOP - 1) -> list[Revision]:
    """Ten alike but for their names: one whose windows end in each minute of ten."""
    found: dict[int, Revision] = {}
    number = 0
    while len(found) < _TENTHS:
        revision = _revision(f"{name}-{number}", expression, since=since)
        found.setdefault(shift_of(revision.owner) // MINUTE, revision)
        number += 1
    return list(found.values())


def burst(fires: int = 600_000) -> Scenario:
    """Hourly schedules, all due at one instant."""
    return Scenario(f"{fires:,} at one instant", [Cohort(_revision("hourly", "0 * * * *"), fires)], MINUTE)


def spread_burst(fires: int = 600_000, *, window: int = 60) -> Scenario:
    """The same, with ``spread``: late is what starts after its own instant."""
    cohorts = [Cohort(each, fires / window) for each in _spread("hourly", "0 * * * *", window)]
    return Scenario(f"{fires:,} with spread={window}s", cohorts, MINUTE + window * SECOND)


def mixed(schedules: int = 10_000_000, *, window: int = 0) -> Scenario:
    """60 % daily and 30 % hourly at any minute, 9 % every quarter of an hour, 1 % minutely: as cron has it, at second 0."""
    cohorts: list[Cohort] = []
    for minute in range(60):
        cohorts += _alike(f"daily-{minute}", f"{minute} 6 * * *", schedules * 0.6 / 1_440, window)
        cohorts += _alike(f"hourly-{minute}", f"{minute} * * * *", schedules * 0.3 / 60, window)
    cohorts += _alike("quarterly", "*/15 * * * *", schedules * 0.09, window)
    if window:  # each second of it has a name of its own, and so windows of its own
        cohorts += _alike("minutely", "* * * * *", schedules * 0.01, window)
    else:
        cohorts += [Cohort(each, schedules * 0.01 / _TENTHS) for each in _tenths("minutely", "* * * * *")]
    name = f"{schedules:,} schedules" + (f", spread={window}s" if window else "")
    return Scenario(name, cohorts, HOUR)


def _alike(name: str, expression: str, weight: float, window: int) -> Iterator[Cohort]:
    if not window:
        yield Cohort(_revision(name, expression), weight)
        return
    for revision in _spread(name, expression, window):
        yield Cohort(revision, weight / window)


def _spread(name: str, expression: str, window: int) -> list[Revision]:
    """One schedule for each second of the window: the first of that name whose first fire moves there."""
    found: dict[int, Revision] = {}
    number = 0
    while len(found) < window:
        revision = _revision(f"{name}-{number}", expression, window=window)
        fire = timetable_of(revision).next(revision.active_from)
        found.setdefault((fire or 0) // SECOND % window, revision)
        number += 1
    return list(found.values())


def _revision(name: str, expression: str, *, since: int = TOP - 1, window: int = 0) -> Revision:
    definition = Definition(job="any", rule=Rule(expression=expression, window=window), payload="null")
    return Revision(tenant="model", name=name, number=1, shard=0, definition=definition, active_from=since)


def answer(scenario: Scenario, setting: Setting, *, seed: int = 1) -> dict[str, Any]:
    """The model's answer: a row of the table."""
    start, end = TOP - scenario.before - EARLIER, TOP + scenario.length
    visible = run_ticker(scenario.cohorts, setting, start=start, end=end, seed=seed, since=TOP)
    worked = run_workers(visible, setting)
    late = worked.lateness.delayed(overhead(seed))
    return {
        "case": scenario.name,
        "setting": setting.name,
        "size": round(late.fires + worked.left),
        "p50_s": late.quantile(0.5),
        "p99_s": late.quantile(0.99),
        "p99.9_s": late.quantile(0.999),
        "max_s": late.quantile(1.0),
        "within_2s": round(late.within(2.0), 5),
        "missed": round(visible.passed),
        "unstarted": round(worked.left),
        "throttled": round(visible.throttled + worked.throttled),
        "functions": round(worked.most_functions),
        "waiting": round(worked.most_waiting),
        "claimed_late_s": round(max(visible.behind, 0.0), 1),
        **dollars(visible, worked, setting),
    }


def dollars(visible: Visible, worked: Worked, setting: Setting) -> dict[str, float]:
    """Of these runs; and what kept pollers cost a month, whether anything runs or not."""
    writes = worked.started * _WRITES_OF_A_RUN + visible.steps * _WRITES_OF_A_STEP
    reads = worked.started + visible.steps
    requests = visible.fires / 10 + worked.batches * _REQUESTS_OF_A_BATCH
    gigabytes = worked.function_seconds * _WORKER_GB + visible.busy * _TICKER_GB
    spent = writes * WRITE.dollars + reads * READ.dollars + requests * SQS.dollars
    spent += worked.batches * INVOCATION.dollars + gigabytes * GB_SECOND.dollars
    kept = (setting.pollers or 0) * setting.queues * POLLER.dollars * _MONTH
    return {
        "$": round(spent * worked.lateness.fires / max(worked.started, 1), 2),
        "$_a_million": round(spent / max(worked.started, 1) * 1e6, 2),
        "$_kept_a_month": round(kept),
    }


# Settings: as installed; what a default account's quotas allow; and beyond them.

INSTALLED = Setting()
TICKERS = Setting(
    name="64 shards in up to 4 groups, 40,000 writes/s, 16,000 of them for ticks",
    shards=64,
    invocations=4,
    warm_writes=40_000,
    ticker_writes=16_000,
)
HASTY = replace(INSTALLED, name="as installed, any writes for ticks", ticker_writes=0)
PROVISIONED = replace(
    TICKERS, name="the same, 2 queues of 100 pollers", queues=2, pollers=100, functions=3_000, warm_functions=1_000
)
UNSHARED = replace(PROVISIONED, name="the same, any writes for ticks", ticker_writes=0)
MORE_WRITES = replace(UNSHARED, name="the same with 60,000 writes/s", warm_writes=60_000, quota_writes=60_000)
WRITES = replace(
    PROVISIONED,
    name="128 shards in up to 8 groups, 120,000 writes/s, 48,000 of them for ticks, 4 queues of 100 pollers",
    shards=128,
    invocations=8,
    queues=4,
    warm_writes=120_000,
    ticker_writes=48_000,
    quota_writes=120_000,
)
INSTANT = replace(
    WRITES,
    name="128 shards in up to 16 groups, 1,200,000 writes/s, 20 queues of 200 pollers, 6,000 functions kept warm",
    invocations=16,
    queues=20,
    pollers=200,
    functions=6_000,
    warm_functions=6_000,
    warm_writes=1_200_000,
    ticker_writes=0,
    quota_writes=1_200_000,
)


def around(setting: Setting) -> list[Setting]:
    """A setting with less of one thing at a time: what binds, and how much of it is enough."""
    return [
        *(replace(setting, name=f"{number} groups", invocations=number) for number in (1, 2, 8, 16)),
        *(replace(setting, name=f"2 queues of {number} pollers", pollers=number) for number in (25, 50, 60)),
        *(
            replace(setting, name=f"{writes:,} writes/s", warm_writes=writes, quota_writes=writes)
            for writes in (4_000, 20_000, 30_000)
        ),
        replace(setting, name="no warm functions", warm_functions=0),
        replace(setting, name="jobs of 1 s", job_ms=1_000),
        replace(setting, name="jobs of 1 s, 1,000 functions", job_ms=1_000, functions=1_000),
    ]
