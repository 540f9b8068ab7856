"""``quarterjack forecast``: how much will fire when, and which schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, cast

import typer

from quarterjack.cli.parameters import Cursor
from quarterjack.cli.schedules.options import with_coming_filters
from quarterjack.cli.shell import Shell, print_json, values
from quarterjack.cli.spoken import fire
from quarterjack.cli.tables import Column
from quarterjack.cli.typed import COMING
from quarterjack.sdk.schedules.forecast import LOOKED_AT, ComingSchedule, Forecast, ForecastSpan

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


@with_coming_filters
def forecast(
    shell: Shell,
    since: Annotated[
        datetime | None, COMING, typer.Option(help="From this time on, e.g. 2h, 'tomorrow 02:00'. Default: now.")
    ] = None,
    until: Annotated[
        datetime | None, COMING, typer.Option(help="Up to this time, excluded. Default: 24 hours later.")
    ] = None,
    by: Annotated[str, typer.Option(help="Count by minute, hour or day.")] = "hour",
    timezone: Annotated[str, typer.Option(help="IANA time zone, by whose clock is counted.")] = "UTC",
    listed: Annotated[int, typer.Option(help="With --schedules: maximum number of lines.")] = 100,
    limit: Annotated[int, typer.Option(help="Maximum number of schedules to look at, up to 10000.")] = LOOKED_AT,
    cursor: Cursor = None,
    *,
    schedules: Annotated[
        bool, typer.Option("--schedules", help="List the schedules that fire instead, by their first fire.")
    ] = False,
    **conditions: Any,
) -> None:
    """Show how many fires of all schedules are due when."""
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
        _list(shell, found.schedules)
    else:
        _chart(shell, found.spans, _FORMS[found.by])
    _remarks(shell, found)


def _list(shell: Shell, found: Sequence[ComingSchedule]) -> None:
    if found:
        shell.list(found, _SCHEDULES)


def _chart(shell: Shell, spans: Sequence[ForecastSpan], form: str) -> None:
    """A bar for each span; a span that the clocks repeat is told by its offset."""
    most = max((span.fires for span in spans), default=0) or 1
    wide = len(f"{most:,}")
    for span in spans:
        bar = "█" * -(-span.fires * _BAR // most)
        shell.say(f"{span.start:{form} %Z}  {span.fires:>{wide},}  {bar}".rstrip())


def _remarks(shell: Shell, found: Forecast) -> None:
    """What the figures are of, and what they lack."""
    said = f"{found.fires:,} fires of {found.firing:,} schedules"
    if found.firing > len(found.schedules):
        said += f", of which --schedules lists {len(found.schedules):,}"
    shell.remark(f"{said}; {found.looked_at:,} were looked at")
    if found.paused:
        shell.remark(f"{found.paused:,} are paused beyond it, and not counted")
    if found.frozen_until is not None:
        shell.remark(f"frozen until {found.frozen_until:%Y-%m-%d %H:%M} UTC: what is due before starts afterwards")
    if found.uncounted:
        shell.warn(
            f"not counted, because they have too many fires or none for years: {', '.join(found.uncounted)}; "
            "give an earlier --until"
        )
    if found.cursor is not None:
        shell.remark(f"there are more schedules: {shell.continued(found.cursor)}, or raise --limit")
