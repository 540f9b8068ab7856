"""The output of a local session: a live table or plain lines, and the summary at its end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from minutehand.local.session.status import EndedRun, StatusRow
from minutehand.local.session.verifier import VerifierReport

_LISTED = 5  # ids of missing or double runs that the summary names
_COLOURS = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "RETRYING": "yellow",
    "DEAD": "red",
    "LOST": "red",
    "PAUSED": "yellow",
}


def live(rows: Iterable[StatusRow], now: datetime, *, more: bool = False) -> RenderableType:
    """The table of a running session."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("schedule", "when", "next fire", "last run"):
        table.add_column(column, no_wrap=True)
    for column in ("lateness", "runs"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state")
    for row in rows:
        state = row.outcome if row.state in ("", "ACTIVE") else row.state
        table.add_row(
            escape(row.name),
            escape(row.when),
            _until(row.next, now) if row.state in ("", "ACTIVE") else "",
            _clock(row.last),
            "" if row.lateness is None else lateness(row.lateness),
            str(row.runs or ""),
            Text(state, style=_COLOURS.get(state, "dim")),
        )
    if more:
        return Group(table, Text("… and more: minutehand schedules list", style="dim"))
    return table if table.rows else Group(table, Text("nothing yet: minutehand schedules create …", style="dim"))


def line(ended: EndedRun) -> str:
    """One line for a run that ended, for output that is no terminal."""
    late = "" if ended.lateness is None else f"{lateness(ended.lateness)} late"
    return f"{_clock(ended.at)}  {ended.name:<16} {ended.state:<10} {late:<14} {ended.reason}".rstrip()


def summary(verdict: VerifierReport, seconds: float) -> str:
    """The summary of a session, in a few lines."""
    missing, double = len(verdict.missing), len(verdict.double)
    watched = f"{verdict.expected} fires of the examples were due, {verdict.expected - missing} started"
    states = ", ".join(f"{state} {count}" for state, count in sorted(verdict.states.items())) or "none"
    lines = [
        f"{seconds:.0f} s: {watched}; {missing} missing, {double} double",
        f"runs: {states}",
    ]
    for start, late in verdict.lateness.items():
        figures = f"p50 {lateness(late.p50)}, p99 {lateness(late.p99)}, max {lateness(late.most)}"
        lines.append(f"lateness, {start}: {figures} ({late.count} runs)")
    if verdict.caught_up:
        lines.append(f"caught up: {verdict.caught_up} runs that were due before this session")
    for word in ("missing", "double", "unexpected", "astray"):
        ids = getattr(verdict, word)
        lines += [f"{word}: {run_id}" for run_id in ids[:_LISTED]]
        if len(ids) > _LISTED:
            lines.append(f"{word}: … and {len(ids) - _LISTED} more")
    return "\n".join(lines)


def lateness(seconds: float) -> str:
    """Seconds as text, in ms or s."""
    return f"{seconds * 1000:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def _until(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    return f"{_clock(moment)} (in {max(0, round((moment - now).total_seconds()))} s)"


def _clock(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%H:%M:%S}"
