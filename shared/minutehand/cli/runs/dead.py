"""``minutehand dead …``: list, repeat and purge dead runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape

from minutehand.cli.installation.signals import stop_on_signals
from minutehand.cli.schedules.lifecycle import Payload
from minutehand.cli.shell import DryRun, Yes, console, of, print_json, read_moment, read_payload

app = typer.Typer(help="Runs that failed for good.", no_args_is_help=True)

Job = Annotated[str | None, typer.Option(help="Of this job only.")]
Schedule = Annotated[str | None, typer.Option(help="Of this schedule only.")]
ErrorType = Annotated[str | None, typer.Option(help="With this exception only, e.g. TimeoutError.")]
Since = Annotated[str | None, typer.Option(help="Dead since, e.g. 2026-12-24T18:00:00Z. Default: for 24 hours.")]
Until = Annotated[str | None, typer.Option(help="Dead at this moment already.")]

_COLUMNS = ("ended_at", "state", "job", "error_type", "error", "reason", "attempts", "id")
_COLUMNS_REDRIVEN = ("ended_at", "state", "job", "error_type", "id", "redriven_as")


@app.command("list")
def list_(
    context: typer.Context,
    job: Job = None,
    schedule: Schedule = None,
    since: Since = None,
    until: Until = None,
    error_type: ErrorType = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after an earlier list.")] = None,
    *,
    include_redriven: Annotated[bool, typer.Option("--include-redriven", help="Also what was repeated.")] = False,
) -> None:
    """List what failed for good over all jobs, the newest first."""
    page = (
        of(context)
        .scheduler()
        .list_dead(
            job=job,
            schedule=schedule,
            since=read_moment(since, "since"),
            until=read_moment(until, "until"),
            error_type=error_type,
            include_redriven=include_redriven,
            limit=limit,
            cursor=cursor,
        )
    )
    of(context).list(page.items, (*_COLUMNS, "redriven_as") if include_redriven else _COLUMNS)
    of(context).more(page)


@app.command()
def redrive(
    context: typer.Context,
    run_id: Annotated[str | None, typer.Argument(help="One run; or give some of the options that follow.")] = None,
    job: Job = None,
    schedule: Schedule = None,
    since: Since = None,
    until: Until = None,
    error_type: ErrorType = None,
    payload: Payload = None,
    rate: Annotated[float, typer.Option(help="Runs a second at the most.")] = 50.0,
    limit: Annotated[int | None, typer.Option(help="At most so many.")] = None,
    *,
    allow_repeat: Annotated[
        bool, typer.Option("--allow-repeat", help="Also what is LOST: it may have done its work.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Repeat dead runs, each once; Ctrl-C ends it cleanly, and the same command goes on."""
    given: dict[str, Any] = {} if payload is None else {"payload": read_payload(payload)}
    with stop_on_signals() as stop, of(context).progress("redriving") as advance:
        done = (
            of(context)
            .scheduler()
            .redrive(
                run_id,
                job=job,
                schedule=schedule,
                since=read_moment(since, "since"),
                until=read_moment(until, "until"),
                error_type=error_type,
                allow_repeat=allow_repeat,
                dry_run=dry_run,
                rate=rate,
                limit=limit,
                stop=stop,
                on_progress=advance,
                **given,
            )
        )
    if of(context).as_json:
        of(context).show(done)
        return
    of(context).list(done.runs, _COLUMNS_REDRIVEN)
    for problem in done.failed.values():
        console.print(f"[red]not repeated:[/red] {escape(problem)}", highlight=False, soft_wrap=True)
    rest = "" if done.cursor is None else "; there are more: the same command goes on"
    console.print(f"[dim]{done.count} {'would be' if dry_run else 'are'} repeated, {len(done.failed)} cannot be{rest}")


@app.command()
def purge(
    context: typer.Context,
    job: Job = None,
    schedule: Schedule = None,
    until: Until = None,
    error_type: ErrorType = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take dead runs off the list; the runs themselves stay in the ledger."""
    scheduler = of(context).scheduler()
    which: dict[str, Any] = {
        "job": job,
        "schedule": schedule,
        "until": read_moment(until, "until"),
        "error_type": error_type,
    }
    count = scheduler.purge(**which, dry_run=True)
    if count and not dry_run:
        of(context).confirm(f"Take {count} runs off the list of dead runs", yes=yes)
        count = scheduler.purge(**which)
    if of(context).as_json:
        print_json({"count": count, "dry_run": dry_run})
    else:
        console.print(f"{count} {'would be' if dry_run else 'are'} off the list")
