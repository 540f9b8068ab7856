"""Coming fires: ``quarterjack preview`` of an expression, which needs no cloud, ``schedules preview``, ``forecast`` of all schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.moments import fire
from quarterjack.cli.parameters import Cursor, Name
from quarterjack.cli.schedules.options import with_coming_filters
from quarterjack.cli.schedules.showing import warn_if_crowded
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import COMING
from quarterjack.domain.schedule import ScheduleState
from quarterjack.sdk.schedules.forecast_views import LOOKED_AT, Forecast, ForecastSpan
from quarterjack.timing import Rule, around_changes, rule_fires, rule_words

_COLUMNS = ("at", "kind", "mark", "note")

Count = Annotated[int, typer.Option(help="Number of fires.")]
After = Annotated[
    datetime | None,
    COMING,
    typer.Option(help="Fires after this time, e.g. 2d, 'tomorrow 09:00', 2026-03-28T00:00:00Z. Default: now."),
]
AroundDst = Annotated[
    bool, typer.Option("--around-dst", help="Show the next two clock changes, with the fires around them.")
]
InWords = Annotated[bool, typer.Option("--explain", help="Describe the expression in words first.")]
_BAR = 40  # characters of the fullest span
_FORMS = {"minute": "%a %d %H:%M", "hour": "%a %d %H:%M", "day": "%a %Y-%m-%d"}
_SCHEDULES = (
    Column("first", show=lambda one: fire(one.first)),
    Column("fires"),
    Column("name", cut=24),
    Column("job", drop=1, cut=16),
    Column("expression", drop=2, cut=16),
    Column("timezone", drop=3),
)


def preview(
    shell: Shell,
    expression: Annotated[str, typer.Argument(help="'*/5 * * * *', 'rate(5 minutes)' or 'at(2026-12-24T18:00:00)'.")],
    timezone: Annotated[str, typer.Option(help="IANA time zone.")] = "UTC",
    count: Count = 5,
    after: After = None,
    key: Annotated[str | None, typer.Option(help="TENANT/NAME of a schedule; it determines the value of H.")] = None,
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
    if after is None and found.next_fires:
        warn_if_crowded(shell, found.next_fires)


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
    for at in fires:
        if shell.as_json:
            print_json(at.isoformat())
        else:
            # Without loading rich.
            typer.echo(f"{at:%a} {at.isoformat(sep=' ', timespec='seconds')}  {at.tzname()}")
    if not fires and not shell.as_json:
        shell.say("no further fire", style="dim")


@with_coming_filters
def forecast(
    shell: Shell,
    since: Annotated[
        datetime | None, COMING, typer.Option(help="Begin of the span, e.g. 2h, 'tomorrow 02:00'. Default: now.")
    ] = None,
    until: Annotated[
        datetime | None, COMING, typer.Option(help="End of the span, exclusive. Default: 24 hours later.")
    ] = None,
    by: Annotated[str, typer.Option(help="Unit of the count: minute, hour or day.")] = "hour",
    timezone: Annotated[str, typer.Option(help="IANA time zone of the count.")] = "UTC",
    listed: Annotated[int, typer.Option(help="Maximum number of schedules that --schedules lists.")] = 100,
    limit: Annotated[int, typer.Option(help="Maximum number of schedules to read, up to 10000.")] = LOOKED_AT,
    cursor: Cursor = None,
    *,
    schedules: Annotated[
        bool,
        typer.Option("--schedules", help="List the schedules that fire, by their first fire, instead of the counts."),
    ] = False,
    **conditions: Any,
) -> None:
    """Show the number of coming fires of all schedules by minute, hour or day."""
    found = shell.scheduler.forecast(
        since=since,
        until=until,
        by=cast(Any, by),
        timezone=timezone,
        listed=listed,
        limit=limit,
        cursor=cursor,
        **conditions,
    )
    if shell.as_json:
        print_json(values(found))
        return
    if schedules:
        shell.list(found.schedules, _SCHEDULES)
    else:
        _chart(shell, found.spans, _FORMS[found.by])
    _remarks(shell, found)


def _chart(shell: Shell, spans: Sequence[ForecastSpan], form: str) -> None:
    """Print a bar for each span. The zone's abbreviation tells repeated spans apart."""
    most = max((span.fires for span in spans), default=0) or 1
    wide = len(f"{most:,}")
    for span in spans:
        bar = "█" * -(-span.fires * _BAR // most)
        shell.say(f"{span.start:{form} %Z}  {span.fires:>{wide},}  {bar}".rstrip())


def _remarks(shell: Shell, found: Forecast) -> None:
    """Print the totals, and which schedules are not counted."""
    said = f"{found.fires:,} fires of {found.firing:,} schedules"
    if found.firing > len(found.schedules):
        said += f", of which --schedules lists {len(found.schedules):,}"
    shell.remark(f"{said}; {found.looked_at:,} were read")
    if found.paused:
        shell.remark(f"{found.paused:,} are paused beyond it, and not counted")
    if found.frozen_until is not None:
        shell.remark(f"frozen until {found.frozen_until:%Y-%m-%d %H:%M} UTC: what is due before starts afterwards")
    if found.uncounted:
        shell.warn(
            f"not counted, because they have too many fires or none for years: {', '.join(found.uncounted)}; "
            "give an earlier --until"
        )
    if found.busiest is not None and found.busiest.window is not None:
        one = found.busiest
        shell.warn(
            f"{one.fires:,} fires are due at {one.at:%a %Y-%m-%d %H:%M:%S %Z}: by the capacity model the last of them start "
            f"{one.late:,.0f} s late; Rule(window={one.window}) or Queue(spread={one.window}) spreads them"
        )
    if found.cursor is not None:
        shell.remark(f"there are more schedules: {shell.continued(found.cursor)}, or raise --limit")
