"""The history of runs: ``quarterjack stats``, ``history rebuild`` from the ledger, and ``archive read`` from the bucket."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.moments import WORDS
from quarterjack.cli.parameters import AllTenants, matching
from quarterjack.cli.shell import Shell, print_json, stop_on_signals, text_of, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import PAST, PAST_DAY
from quarterjack.domain.run import FAILED, RunState
from quarterjack.sdk.history.day_stats import DayStats
from quarterjack.sdk.views import RunTransition
from quarterjack.terminal import in_one_line

history = typer.Typer(no_args_is_help=True)
archive = typer.Typer(no_args_is_help=True)


def _ended(day: DayStats, *states: str) -> str:
    """How many runs ended in one of these states."""
    return str(sum(day.outcomes.get(state, 0) for state in states))


def _ended_otherwise(day: DayStats) -> str:
    return str(sum(count for state, count in day.outcomes.items() if state not in (RunState.SUCCEEDED, *FAILED)))


_DAYS = (
    Column("day", show=lambda day: day.day.isoformat()),
    Column("name", cut=16, show=lambda day: day.job or day.schedule or day.version or ""),
    Column("runs"),
    Column("succeeded", drop=1, show=lambda day: _ended(day, RunState.SUCCEEDED)),
    Column("failed", show=lambda day: _ended(day, *FAILED)),
    Column("other", drop=4, show=_ended_otherwise),
    Column("attempts", drop=5),
    Column("failed_attempts", drop=5),
    Column("lateness", drop=3, show=lambda day: str(day.lateness or "")),
    Column("duration", drop=2, show=lambda day: str(day.duration or "")),
    Column(
        "errors", drop=6, cut=16, show=lambda day: ", ".join(f"{name} {count}" for name, count in day.errors.items())
    ),
)


@matching("no run that ended then matches")
def stats(
    shell: Shell,
    by: Annotated[str, typer.Option(help="Count by job, schedule or version.")] = "job",
    job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Only this schedule.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this application version.")] = None,
    since: Annotated[
        datetime | None,
        PAST_DAY,
        typer.Option(help=f"First day, in UTC, e.g. 2026-12-24T00:00:00Z, or {WORDS}. Default: six days ago."),
    ] = None,
    until: Annotated[datetime | None, PAST_DAY, typer.Option(help="Last day. Default: today.")] = None,
) -> None:
    """Show daily outcomes, start latency and duration."""
    found = shell.scheduler.stats(
        by=cast(Any, by), job=job, schedule=schedule, version=version, since=since, until=until
    )
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
    shell.list(found, _DAYS)
    shell.remark("lateness and duration: p50 / p95 / p99 in seconds")


@history.command()
def rebuild(
    shell: Shell,
    since: Annotated[
        datetime, PAST, typer.Option(help=f"Earliest end of the runs, e.g. 2026-12-24T18:00:00Z, or {WORDS}.")
    ],
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest end of the runs. Default: now.")] = None,
    *,
    all_tenants: AllTenants = False,
) -> None:
    """Fill the history from the ledger, after a gap in the stream of runs. It may run beside the historian, and be repeated."""
    with stop_on_signals() as stop, shell.progress("reading runs") as advance:
        done = shell.scheduler.rebuild_history(
            since=since, until=until, all_tenants=all_tenants, stop=stop, on_progress=advance
        )
    rest = "; it was stopped: the same command does the rest" if done.stopped else ""
    text = f"{done.runs} runs read, {done.added} added to the history, {done.corrected} entries corrected{rest}"
    shell.answer(values(done), text)


@archive.command()
@matching("no transition matches")
def read(
    shell: Shell,
    since: Annotated[datetime, PAST, typer.Option(help="Earliest time, e.g. -3d, or 2026-12-24T18:00:00Z.")],
    until: Annotated[datetime | None, PAST, typer.Option(help="Latest time, exclusive. Default: now.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Only runs of this schedule.")] = None,
    job: Annotated[str | None, typer.Option(help="Only runs of this job.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="Only this run.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only this kind: claimed, leased, retried, succeeded, dead …")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of lines. Default: all.")] = None,
) -> None:
    """Print transitions of runs, oldest first, while the archive is read. Ctrl-C ends it."""
    which = {"schedule": schedule, "job": job, "run_id": run_id, "kind": cast(Any, kind)}
    found = shell.scheduler.archive(since=since, until=until, **which)
    with stop_on_signals() as stop:
        printed = 0
        for transition in islice(found, limit):
            if stop.is_set():
                return
            print_transition(shell, transition)
            printed += 1
    shell.matched(printed)


def print_transition(shell: Shell, transition: RunTransition) -> None:
    """A line of text, or of JSON with all fields."""
    states = " → ".join(state or "-" for state in (transition.before, transition.after))
    about = ", ".join(filter(None, _parts(transition)))
    text = f"{text_of(transition.at)}  {transition.kind:<16}  {states:<22}  {transition.run}  {about}"
    shell.answer(values(transition), in_one_line(text).rstrip())


def _parts(transition: RunTransition) -> tuple[str | None, ...]:
    waits = transition.not_before if transition.kind in ("retried", "continued", "hastened") else None
    return (
        f"worker {transition.worker}" if transition.kind == "leased" else None,
        f"fence {transition.fence}" if transition.fence else None,
        f"attempt {transition.attempt}" if transition.attempt > 1 else None,
        f"next at {text_of(waits.astimezone(UTC))}" if isinstance(waits, datetime) else None,
        transition.reason,
        " ".join(filter(None, (transition.error_type, transition.error_code))),
        f"{transition.skipped} fires" if transition.skipped else None,
    )
