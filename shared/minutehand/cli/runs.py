"""``minutehand runs …``: look at what happened."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from minutehand.cli.shell import Name, console, of, read_moment

app = typer.Typer(help="Look at what happened.", no_args_is_help=True)

_COLUMNS = ("due", "state", "lateness", "attempt", "reason", "id")


@app.command("list")
def list_(
    context: typer.Context,
    name: Name,
    after: Annotated[str | None, typer.Option(help="Due later than, e.g. 2026-12-24T18:00:00Z.")] = None,
    before: Annotated[str | None, typer.Option(help="Due up to then. Default: now.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 20,
    *,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Instead of the newest.")] = False,
    upcoming: Annotated[bool, typer.Option("--upcoming", help="Those too that wait for their time.")] = False,
) -> None:
    """List the runs of a schedule, the newest first."""
    page = (
        of(context)
        .scheduler()
        .list_runs(
            name,
            after=read_moment(after, "after"),
            before=read_moment(before, "before") or (None if upcoming else datetime.now(UTC)),
            limit=limit,
            newest_first=not oldest_first,
        )
    )
    of(context).list(page.items, _COLUMNS)
    if page.cursor is not None and not of(context).as_json:
        console.print(f"[dim]the first {limit}; there are more: raise --limit or narrow --after and --before")


@app.command()
def show(context: typer.Context, run_id: Annotated[str, typer.Argument(help="As submit and list print it.")]) -> None:
    """Show one run."""
    of(context).show(of(context).scheduler().get_run(run_id))
