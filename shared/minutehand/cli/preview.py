"""``minutehand preview``: when would this fire? Needs no cloud."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from minutehand.cli.shell import console, of, print_json, read_moment
from minutehand.schedule import next_fires


def run(
    context: typer.Context,
    expression: Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")],
    timezone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    count: Annotated[int, typer.Option(help="How many fires.")] = 5,
    after: Annotated[str | None, typer.Option(help="From when, e.g. 2026-03-28T00:00:00Z. Default: now.")] = None,
) -> None:
    """Show the next fires of an expression."""
    since = read_moment(after, "after") or datetime.now(UTC)
    fires = next_fires(expression, timezone=timezone, after=since, count=count)
    for fire in fires:
        if of(context).as_json:
            print_json(fire.isoformat())
        else:
            console.print(f"{fire:%a} {fire.isoformat(sep=' ', timespec='seconds')}  [dim]{fire.tzname()}")
    if not fires and not of(context).as_json:
        console.print("[dim]never again")
