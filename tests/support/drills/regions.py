"""Drill of a lost region: another installation of the same cloud stands for the other region, and shares nothing with the first."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from quarterjack import Scheduler
from quarterjack.local.processes import variables
from quarterjack.testing.cloud import fresh_settings

from tests.support.chaos.books import Books
from tests.support.chaos.chaos_run import Plan
from tests.support.drills.siege import Drill, Siege

_OVERLAP = 10  # seconds of fires before the loss that the other region runs again, so that none that waited is lost
# A second start would be a fault of the first three, whatever the start: the page says what to do with such. Of the others the verdict
# could not tell the attempts in both installations apart.
_LEFT_OUT = ("once", "once-long", "steps", "flaky", "doomed")
_GONE = (
    2.0  # seconds: a blow that explains repeats of what had started before, and none of what starts in the other region
)
_DUMP = "region.jsonl.gz"


def _quiet(plan: Plan) -> Plan:
    """No owner changes or submits anything: what comes after the dump is lost with the region."""
    return replace(plan, load=replace(plan.load, think=100_000))


def _lose_region(siege: Siege) -> None:
    for name in _LEFT_OUT:
        siege.owners.drop(name)
    siege.quarterjack("move", "dump", str(siege.folder / _DUMP), "--all-tenants", "--no-history")
    siege.go_on(6)
    for name in siege.troupe.names:
        siege.strike("region lost", name, _GONE)
        siege.troupe.kill(name, rest=math.inf)


def _live_elsewhere(siege: Siege) -> None:
    start = datetime.now(UTC) - timedelta(seconds=_OVERLAP)
    siege.settings = fresh_settings(siege.cloud)
    siege.books = Books(siege.settings)
    siege.owners.move(Scheduler(settings=siege.settings))
    for name in siege.troupe.names:
        siege.environ[name] |= variables(siege.settings)
    dump, at = str(siege.folder / _DUMP), f"{start:%FT%TZ}"
    siege.start_again(*siege.workers)  # which publish their jobs
    siege.quarterjack("move", "load", dump, "--start", at, "--dry-run")
    siege.quarterjack("move", "load", dump, "--start", at)
    siege.start_again(*[name for name in siege.troupe.names if name.startswith("ticker")])
    siege.start_again("undertaker")


LOST_REGION = Drill(
    name="region lost",
    done="Of schedules whose jobs are delivered at least once: all processes and tables are gone for good 6 s after a dump, which another "
    f"installation loads with a start {_OVERLAP} s before the loss.",
    runbook="lost-region",
    plan=_quiet,
    act=_lose_region,
    procedure=_live_elsewhere,
    explains=frozenset({"region lost"}),
)
