"""``quarterjack dead …``: list, repeat and purge dead runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from quarterjack.cli.parameters import Cursor, DryRun, Limit, Payload, Yes, matching, payload_of
from quarterjack.cli.schedules.options import with_dead_filters, with_purge_filters
from quarterjack.cli.shell import Shell, stop_on_signals
from quarterjack.cli.spoken import in_short
from quarterjack.cli.tables import Column

app = typer.Typer(help="Runs that failed for good.", no_args_is_help=True)

_ENDED = (
    Column("ended_at", short=in_short("ended_at")),
    Column("state", drop=7),
    Column("job", drop=4, cut=12),
    Column("error_type", drop=3, cut=12),
)
_COLUMNS = (
    *_ENDED,
    Column("error", cut=16),
    Column("reason", drop=5, cut=12),
    Column("attempts", drop=6),
    Column("id"),
)
_COLUMNS_REDRIVEN = (*_ENDED, Column("id"), Column("redriven_as", drop=2))


@app.command("list")
@matching("no dead run matches; without --since only those of the last 24 hours are looked at")
@with_dead_filters
def list_(
    shell: Shell,
    limit: Limit = 100,
    cursor: Cursor = None,
    *,
    include_redriven: Annotated[bool, typer.Option("--include-redriven", help="Redriven runs, too.")] = False,
    **conditions: Any,
) -> None:
    """List the runs of all jobs that failed for good, newest first."""
    page = shell.scheduler.list_dead(**conditions, include_redriven=include_redriven, limit=limit, cursor=cursor)
    shell.page(page, (*_COLUMNS, Column("redriven_as", drop=6)) if include_redriven else _COLUMNS)


@app.command()
@matching("no dead run matches; without --since only those of the last 24 hours are looked at")
@with_dead_filters
def redrive(
    shell: Shell,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run; or give some of the filter options.")
    ] = None,
    payload: Payload = None,
    rate: Annotated[float, typer.Option(help="Maximum number of runs per second.")] = 50.0,
    limit: Annotated[int | None, typer.Option(help="Maximum number of runs.")] = None,
    *,
    allow_repeat: Annotated[
        bool, typer.Option("--allow-repeat", help="LOST runs, too: such a run may have done its work.")
    ] = False,
    dry_run: DryRun = False,
    **conditions: Any,
) -> None:
    """Repeat dead runs, each once; Ctrl-C ends it between two runs, and the same command continues."""
    conditions |= {"allow_repeat": allow_repeat, "dry_run": dry_run, "rate": rate, "limit": limit}
    conditions |= payload_of(payload)
    with stop_on_signals() as stop, shell.progress("redriving") as advance:
        done = shell.scheduler.redrive(run_id, **conditions, stop=stop, on_progress=advance)
    seen = done.count + len(done.failed) if done.cursor is None else 1
    if shell.as_json:
        shell.show(done)
        shell.matched(seen)
        return
    shell.list(done.runs, _COLUMNS_REDRIVEN)
    for problem in done.failed.values():
        shell.say(f"not repeated: {shell.words.text(problem)}", style="red")
    rest = "" if done.cursor is None else "; there are more: the same command continues"
    verb = "would be" if dry_run else "are"
    shell.say(f"{done.count} {verb} repeated, {len(done.failed)} cannot be{rest}", style="dim")
    shell.matched(seen)


@app.command()
@matching("no dead run matches")
@with_purge_filters
def purge(
    shell: Shell,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="One run; or give some of the filter options.")
    ] = None,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    **conditions: Any,
) -> None:
    """Remove dead runs from the list; the runs themselves stay in the ledger."""
    count = shell.scheduler.purge(run_id, **conditions, dry_run=True)
    if count and not dry_run:
        shell.confirm(f"Remove {count} {'run' if count == 1 else 'runs'} from the list of dead runs", yes=yes)
        count = shell.scheduler.purge(run_id, **conditions)
    shell.answer(
        {"count": count, "dry_run": dry_run}, f"{count} {'would be' if dry_run else 'are'} removed from the list"
    )
    shell.matched(count)
