"""``minutehand preview``: the next fires of an expression. Needs no cloud."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from minutehand.cli.parameters import read_moment
from minutehand.cli.shell import Shell, print_json
from minutehand.timing import Rule, around_changes, explain, next_fires

_COLUMNS = ("at", "kind", "mark", "note")


def preview(
    shell: Shell,
    expression: Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")],
    timezone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    count: Annotated[int, typer.Option(help="Number of fires.")] = 5,
    after: Annotated[
        str | None, typer.Option(help="Fires after this time, e.g. 2026-03-28T00:00:00Z. Default: now.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="TENANT/NAME of the schedule, which determines the value of H.")
    ] = None,
    *,
    around_dst: Annotated[
        bool, typer.Option("--around-dst", help="The next two clock changes, with the fires around them.")
    ] = False,
    in_words: Annotated[bool, typer.Option("--explain", help="Describe the expression in words first.")] = False,
) -> None:
    """Show the next fires of an expression."""
    since = read_moment(after, "after") or datetime.now(UTC)
    if in_words and not shell.as_json:
        shell.say(explain(expression, timezone, after=since, key=key).words)
    if around_dst:
        found = around_changes(Rule.of(expression, timezone=timezone), after=since, each=count, key=key)
        shell.list(found, _COLUMNS)
        return
    fires = next_fires(expression, timezone=timezone, after=since, count=count, key=key)
    for fire in fires:
        if shell.as_json:
            print_json(fire.isoformat())
        else:
            # Without loading rich.
            typer.echo(f"{fire:%a} {fire.isoformat(sep=' ', timespec='seconds')}  {fire.tzname()}")
    if not fires and not shell.as_json:
        shell.say("no further fire", style="dim")
