"""What a forecast of 10,000 schedules takes: processor time, best of five, with the reads of the store in memory.

python -m bench forecast [--schedules 10000] [--check]

The mix: cron expressions that many schedules share, in six zones; H, rates, exclusions, holidays and windows, which each schedule has for
itself. ``--check``: exit 1 if 24 hours take more than a second.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from quarterjack import Registry, Rule, Scheduler
from quarterjack.sdk.schedules.forecast_views import Forecast
from quarterjack.testing import ManualClock, Memory

from bench.progress import say
from bench.report import Table, write

START = datetime(2026, 10, 24, 12, tzinfo=UTC)  # the clocks of Europe change within 24 hours
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Sydney", "Europe/London")
SHARED = (
    "*/5 * * * *",
    "0 * * * *",
    "*/15 * * * *",
    "0 0 * * *",
    "30 2 * * *",
    "0 9 * * 1-5",
    "0 6 1 * *",
    "15 8-18 * * *",
)
LIMIT = 1.0  # second of processor time, for 24 hours
ROUNDS = 5


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench forecast")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args(arguments)
    scheduler = filled(asked.schedules)
    rows = [row for row, _ in (timed(scheduler, asked.schedules, *case) for case in CASES)]
    write("forecast", rows)
    Table(f"forecast of {asked.schedules:,} schedules", rows).show()
    if asked.check and rows[0]["cpu s"] > LIMIT:
        sys.exit(f"bench forecast: {rows[0]['cpu s']} s of processor time for 24 hours, wanted {LIMIT}")


CASES: tuple[tuple[str, timedelta, dict[str, Any]], ...] = (
    ("24 hours by hour", timedelta(hours=24), {}),
    ("a week by hour", timedelta(days=7), {}),
    ("a month by hour", timedelta(days=31), {}),
    ("an hour by minute", timedelta(hours=1), {"by": "minute"}),
)


def timed(
    scheduler: Scheduler, schedules: int, name: str, long: timedelta, more: dict[str, Any]
) -> tuple[dict[str, Any], Forecast]:
    """The best of some rounds, and what was forecast."""

    def ask() -> Forecast:
        return scheduler.forecast(until=START + long, timezone="Europe/Berlin", limit=schedules, **more)

    spent = []
    for _ in range(ROUNDS):
        found, used = _used(ask)
        spent.append(used)
    row = {
        "time": name,
        "cpu s": round(min(spent), 3),
        "first s": round(spent[0], 3),
        "fires": found.fires,
        "firing": found.firing,
        "looked at": found.looked_at,
        "cut": found.looked_at < schedules,
    }
    return row, found


def _used(ask: Callable[[], Forecast]) -> tuple[Forecast, float]:
    began = time.process_time()
    return ask(), time.process_time() - began


def filled(count: int) -> Scheduler:
    """A tenant with a mix of schedules."""
    say(f"bench forecast: creating {count:,} schedules")
    jobs, draw = Registry(), random.Random(18)
    jobs.job("bench.nothing")(lambda ctx, payload: None)
    scheduler = Scheduler("bench", jobs=jobs, services=Memory(ManualClock(START)).connect(), clock=ManualClock(START))
    for number in range(count):
        scheduler.create_schedule(f"s{number:05}", "bench.nothing", rule(number, draw))
    return scheduler


def rule(number: int, draw: random.Random) -> Rule:
    """Of a hundred: 4 minutely, 76 shared, 8 with H, 6 rates, 6 with exclusions, holidays or windows."""
    turn, hour, minute = number % 100, draw.randint(0, 20), draw.randint(0, 59)
    kinds: tuple[tuple[int, dict[str, Any]], ...] = (
        (4, {"expression": "* * * * *"}),
        (80, {"expression": draw.choice(SHARED)}),
        (88, {"expression": draw.choice(["H H * * *", "H * * * *", "H/20 * * * *"])}),
        (94, {"expression": f"rate({minute + 5} minutes)"}),
        (96, {"expression": "*/30 * * * *", "exclude": ("weekends", f"* {hour} * * *")}),
        (98, {"expression": f"{minute} 7 * * *", "calendar": "DE-BY"}),
        (100, {"expression": "0 * * * *", "window": 900}),
    )
    words = next(words for below, words in kinds if turn < below)
    return Rule(timezone=draw.choice(ZONES), **words)
