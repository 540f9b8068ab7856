"""``quarterjack stats``: counts and times of ended runs, day by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.moments import WORDS
from quarterjack.cli.parameters import matching
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import PAST_DAY
from quarterjack.domain.run import FAILED
from quarterjack.sdk.history.day_stats import DayStats

_COLUMNS = (
    Column("day"),
    Column("name", cut=16),
    Column("runs"),
    Column("succeeded", drop=1),
    Column("failed"),
    Column("other", drop=4),
    Column("attempts", drop=5),
    Column("lateness", drop=3),
    Column("duration", drop=2),
    Column("errors", drop=6, cut=16),
)


@dataclass(frozen=True)
class _Line:
    """A line of the table; times are p50 / p95 / p99 in seconds."""

    day: str
    name: str
    runs: int
    succeeded: int
    failed: int
    other: int
    attempts: int
    lateness: str
    duration: str
    errors: str


@matching("no run that ended then matches")
def stats(
    shell: Shell,
    by: Annotated[str, typer.Option(help="Count by job or by schedule.")] = "job",
    job: Annotated[str | None, typer.Option(help="This job only.")] = None,
    schedule: Annotated[str | None, typer.Option(help="This schedule only.")] = None,
    since: Annotated[
        datetime | None,
        PAST_DAY,
        typer.Option(help=f"From this day in UTC on, e.g. 2026-12-24T00:00:00Z, or {WORDS}. Default: six days ago."),
    ] = None,
    until: Annotated[datetime | None, PAST_DAY, typer.Option(help="Up to this day. Default: today.")] = None,
) -> None:
    """Show how many runs ended how, how late they began and how long they took, day by day."""
    found = shell.scheduler.stats(by=cast(Any, by), job=job, schedule=schedule, since=since, until=until)
    if shell.as_json:
        for one in found:
            print_json(as_record(one))
    elif found:
        list_days(shell, found)
    shell.matched(len(found))


def as_record(one: DayStats) -> dict[str, Any]:
    """A day's statistics as JSON shows them."""
    return values(one) | {"day": one.day.isoformat()}


def list_days(shell: Shell, found: Sequence[DayStats]) -> None:
    """Print a table of days."""
    shell.list([_line(one) for one in found], _COLUMNS)
    shell.remark("lateness and duration: p50 / p95 / p99 in seconds")


def _line(one: DayStats) -> _Line:
    succeeded = one.outcomes.get("SUCCEEDED", 0)
    failed = sum(one.outcomes.get(str(state), 0) for state in FAILED)
    return _Line(
        day=one.day.isoformat(),
        name=one.job or one.schedule or "",
        runs=one.runs,
        succeeded=succeeded,
        failed=failed,
        other=one.runs - succeeded - failed,
        attempts=one.attempts,
        lateness=str(one.lateness or ""),
        duration=str(one.duration or ""),
        errors=", ".join(f"{error} {number}" for error, number in one.errors.items()),
    )
