"""``minutehand runs …``: show, cancel, retry, replay and follow runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from minutehand.cli.exits import code_of_run
from minutehand.cli.output import read_moment, read_payload
from minutehand.cli.parameters import Cursor, Key, Limit, Name, Payload, RunId
from minutehand.cli.runs import cancel, logs, tail
from minutehand.cli.shell import of

app = typer.Typer(help="Show, cancel, retry, replay and follow runs.", no_args_is_help=True)

_COLUMNS = ("due", "state", "lateness", "attempt", "reason", "id")


@app.command("list")
def list_(
    context: typer.Context,
    name: Name,
    after: Annotated[str | None, typer.Option(help="Due later than, e.g. 2026-12-24T18:00:00Z.")] = None,
    before: Annotated[str | None, typer.Option(help="Due up to then. Default: now.")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    *,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Oldest runs first.")] = False,
    upcoming: Annotated[bool, typer.Option("--upcoming", help="Runs that are not due yet, too.")] = False,
) -> None:
    """List the runs of a schedule, newest first."""
    shell = of(context)
    page = shell.scheduler().list_runs(
        name,
        after=read_moment(after, "after"),
        before=read_moment(before, "before") or (None if upcoming else datetime.now(UTC)),
        limit=limit,
        cursor=cursor,
        newest_first=not oldest_first,
    )
    shell.list(page.items, _COLUMNS)
    shell.more(page)


@app.command()
def show(context: typer.Context, run_id: RunId) -> None:
    """Show one run, with its steps and failed attempts."""
    of(context).show(of(context).scheduler().get_run(run_id))


@app.command()
def retry(context: typer.Context, run_id: RunId) -> None:
    """Start the next attempt of a waiting run now."""
    of(context).show(of(context).scheduler().retry_run(run_id))


@app.command()
def replay(
    context: typer.Context,
    run_id: RunId,
    payload: Payload = None,
    key: Key = None,
) -> None:
    """Repeat an ended run as a new run with the same job, payload and scheduled time, also if its schedule has changed."""
    given: dict[str, Any] = {} if payload is None else {"payload": read_payload(payload)}
    of(context).show(of(context).scheduler().replay_run(run_id, idempotency_key=key, **given))


@app.command()
def wait(
    context: typer.Context,
    run_id: RunId,
    timeout: Annotated[float, typer.Option(min=0, help="Maximum seconds to wait.")] = 60.0,
) -> None:
    """Wait until a run has ended. The exit code is 0 for SUCCEEDED, 10 DEAD, 12 CANCELLED …, 7 not ended."""
    run = of(context).scheduler().wait_for(run_id, timeout)
    of(context).show(run)
    raise typer.Exit(code_of_run(run.state))


app.command("cancel")(cancel.run)
app.command("tail")(tail.run)
app.command("logs")(logs.run)
