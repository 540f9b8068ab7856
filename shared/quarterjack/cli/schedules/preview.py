"""``quarterjack preview`` and ``schedules preview``: the next fires of an expression, which needs no cloud, or of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from quarterjack.cli.parameters import Name
from quarterjack.cli.shell import Shell, print_json
from quarterjack.cli.typed import COMING
from quarterjack.domain.schedule import ScheduleState
from quarterjack.timing import Rule, around_changes, rule_fires, rule_words

_COLUMNS = ("at", "kind", "mark", "note")

Count = Annotated[int, typer.Option(help="Number of fires.")]
After = Annotated[
    datetime | None,
    COMING,
    typer.Option(help="Fires after this time, e.g. 2d, 'tomorrow 09:00', 2026-03-28T00:00:00Z. Default: now."),
]
AroundDst = Annotated[
    bool, typer.Option("--around-dst", help="The next two clock changes, with the fires around them.")
]
InWords = Annotated[bool, typer.Option("--explain", help="Describe the expression in words first.")]


def preview(
    shell: Shell,
    expression: Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")],
    timezone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    count: Count = 5,
    after: After = None,
    key: Annotated[
        str | None, typer.Option(help="TENANT/NAME of the schedule, which determines the value of H.")
    ] = None,
    *,
    around_dst: AroundDst = False,
    in_words: InWords = False,
) -> None:
    """Show the next fires of an expression."""
    rule = Rule.of(expression, timezone=timezone)
    _show(shell, rule, count=count, after=after, key=key, around_dst=around_dst, in_words=in_words)


def of_schedule(
    shell: Shell,
    name: Name,
    count: Count = 5,
    after: After = None,
    *,
    around_dst: AroundDst = False,
    in_words: InWords = False,
) -> None:
    """Show the next fires of a schedule. For an expression, use `quarterjack preview`."""
    found = shell.scheduler.describe_schedule(name)
    schedule, definition = found.schedule, found.definition
    if schedule.state is not ScheduleState.ACTIVE:
        shell.remark(f"none: it is not ACTIVE, but {schedule.state}")
        return
    _show(
        shell,
        definition.rule,
        count=count,
        after=after,
        key=f"{schedule.tenant}/{schedule.name}",
        anchor=definition.counts_from,
        around_dst=around_dst,
        in_words=in_words,
    )


def _show(
    shell: Shell,
    rule: Rule,
    *,
    count: int,
    after: datetime | None,
    key: str | None,
    anchor: datetime | None = None,
    around_dst: bool,
    in_words: bool,
) -> None:
    since = after or datetime.now(UTC)
    if in_words and not shell.as_json:
        shell.say(rule_words(rule, key))
    if around_dst:
        shell.list(around_changes(rule, after=since, each=count, key=key, anchor=anchor), _COLUMNS)
        return
    fires = rule_fires(rule, after=since, count=count, key=key, anchor=anchor)
    for fire in fires:
        if shell.as_json:
            print_json(fire.isoformat())
        else:
            # Without loading rich.
            typer.echo(f"{fire:%a} {fire.isoformat(sep=' ', timespec='seconds')}  {fire.tzname()}")
    if not fires and not shell.as_json:
        shell.say("no further fire", style="dim")
