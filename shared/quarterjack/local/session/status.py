"""The live table and the plain lines of a session, from the SDK and the workers' log events; the summary at its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import TERMINAL
from quarterjack.domain.times import from_ms
from quarterjack.errors import InvalidInput
from quarterjack.local.processes import Event
from quarterjack.local.session.verifier import VerifierReport
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.terminal import printable, relative

_SHOWN = 50  # schedules in the table
_WIDE = 100  # characters of a line from which on the table shows all columns
_LISTED = 5  # ids of missing or double runs that the summary names
_COLOURS = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "CONTINUED": "cyan",
    "RETRYING": "yellow",
    "PARKED": "yellow",
    "DEAD": "red",
    "LOST": "red",
    "PAUSED": "yellow",
}
_ENDS = frozenset({"run.ended", "run.dead", "run.lost"})


@dataclass(kw_only=True)
class StatusRow:
    """One line of the table: a schedule, or a one-off."""

    name: str  # of the schedule, or a label of the one-off
    when: str = "once"  # its expression
    state: str = ""  # of the schedule, if it is not ACTIVE
    version: int = 0  # of the head when `next` was read
    next: datetime | None = None  # fire
    last: datetime | None = None  # due time of the last run that started
    lateness: float | None = None  # seconds, of its first start
    outcome: str = ""  # state of that run: RUNNING, SUCCEEDED …
    runs: int = 0  # started in this session


@dataclass(frozen=True)
class EndedRun:
    """A run whose attempt ended, for the plain output."""

    at: datetime
    name: str
    state: str
    lateness: float | None  # seconds, of its first start; None if that was before this session
    reason: str


class SessionStatus:
    """Rows by owner (``tenant/name``, ``tenant/~id``)."""

    def __init__(self, scheduler: Scheduler, labels: dict[str, str]) -> None:
        self._scheduler = scheduler
        self._labels = labels
        self.rows: dict[str, StatusRow] = {}
        self._lateness: dict[str, float] = {}  # seconds, of the first starts of this session's open runs
        self.more = False  # there are more schedules than are shown

    def refresh(self, now: datetime) -> None:
        """List the schedules; read the next fire of those that have fired or changed."""
        page = self._scheduler.list_schedules(limit=_SHOWN)
        self.more = page.cursor is not None
        for head in page.items:
            row = self.rows.setdefault(f"{head.tenant}/{head.name}", StatusRow(name=head.name))
            row.when, row.state = head.expression.partition(", from=")[0].rstrip(")"), str(head.state)
            row.when += ")" if "(" in row.when else ""
            if row.version != head.version or (row.next is not None and row.next <= now):
                fires = self._scheduler.get_schedule(head.name).next_fires
                row.next, row.version = (fires[0] if fires else None), head.version

    def note(self, events: Iterable[Event]) -> list[EndedRun]:
        """Update the rows from log events; returns the runs that ended."""
        return [ended for event in events if (ended := self._note(event)) is not None]

    def _note(self, event: Event) -> EndedRun | None:
        if event["event"] not in _ENDS | {"run.started"}:
            return None
        try:
            ref = parse_run_id(event.get("run_id"))
        except InvalidInput:
            return None
        name = self._labels.get(str(ref)) or ref.owner.partition("/")[2]
        row = self.rows.setdefault(ref.owner, StatusRow(name=name))
        if event["event"] == "run.started":
            row.outcome, row.runs = "RUNNING", row.runs + 1
            if event.get("attempt") == 1:
                row.last = from_ms(int(ref.key)) if ref.key.isdecimal() else None
                row.lateness = self._lateness[str(ref)] = float(event["lateness_ms"]) / 1000
            return None
        outcome = str(event.get("state") or event["event"].removeprefix("run.").upper())
        if event["event"] != "run.ended" and row.outcome == outcome:
            return None  # the undertaker repeats the state that the worker logged
        row.outcome = outcome
        late = self._lateness.get(str(ref))  # the row may show another run's by now
        if outcome in TERMINAL:
            self._lateness.pop(str(ref), None)
        return EndedRun(datetime.now(UTC), row.name, outcome, late, str(event.get("reason") or ""))


def live(rows: Iterable[StatusRow], now: datetime, *, more: bool = False, width: int = _WIDE) -> RenderableType:
    """The table of a session. On a screen narrower than _WIDE it is without the last run's time, and names are cut if need be."""
    shows_last = width >= _WIDE
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("schedule", "when"):  # their cells are cut where there is little room, those of the others never
        table.add_column(column)
    for column in (f"next fire ({now.astimezone().tzname()})", *(["last run"] if shows_last else [])):
        table.add_column(column, no_wrap=True)
    for column in ("lateness", "runs"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for row in rows:
        state = row.outcome if row.state in ("", "ACTIVE") else row.state
        table.add_row(
            Text(row.name, no_wrap=True, overflow="ellipsis"),
            Text(printable(row.when), no_wrap=True, overflow="ellipsis"),
            _until(row.next, now) if row.state in ("", "ACTIVE") else "",
            *(["" if row.last is None else _clock(row.last, now)] if shows_last else []),
            "" if row.lateness is None else lateness(row.lateness),
            str(row.runs or ""),
            Text(state, style=_COLOURS.get(state, "dim")),
        )
    if more:
        return Group(table, Text("… and more: quarterjack schedules list", style="dim"))
    return table if table.rows else Group(table, Text("nothing yet: quarterjack schedules create …", style="dim"))


def line(ended: EndedRun) -> str:
    """One line for a run that ended, for output that is no terminal."""
    late = "" if ended.lateness is None else f"{lateness(ended.lateness)} late"
    return f"{_clock(ended.at, ended.at)}  {ended.name:<16} {ended.state:<10} {late:<14} {ended.reason}".rstrip()


def summary(verdict: VerifierReport, seconds: float) -> str:
    missing, double = len(verdict.missing), len(verdict.double)
    counts = (
        f"{verdict.expected} fires of the examples were due, {verdict.expected - missing} started; {missing} missing"
    )
    if not verdict.watched:
        counts = f"{verdict.started} runs started (without the examples no fires are compared)"
    states = ", ".join(f"{state} {count}" for state, count in sorted(verdict.states.items())) or "none"
    twice = f"{double} double" if verdict.logs_whole else "double not known"
    lines = [f"{seconds:.0f} s: {counts}, {twice}", f"runs: {states}"]
    for start, late in verdict.lateness.items():
        figures = f"p50 {lateness(late.p50)}, p99 {lateness(late.p99)}, max {lateness(late.most)}"
        lines.append(f"lateness, {start}: {figures} ({late.count} runs)")
    if not verdict.logs_whole:
        lines.append(
            "the state could not be saved, and the logs may lack events: these fires are compared with the ledger alone"
        )
    if verdict.caught_up:
        lines.append(f"caught up: {verdict.caught_up} runs that were due before this session")
    for word in ("missing", "double", "unexpected", "astray"):
        ids = getattr(verdict, word)
        lines += [f"{word}: {run_id}" for run_id in ids[:_LISTED]]
        if len(ids) > _LISTED:
            lines.append(f"{word}: … and {len(ids) - _LISTED} more")
    return "\n".join(lines)


def lateness(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if abs(seconds) < 1 else f"{seconds:.2f} s"


def _until(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else f"{_clock(moment, now)} ({relative(max(moment, now), now)})"


def _clock(moment: datetime, now: datetime) -> str:
    """The time in this machine's zone, with the date if it is another one than today's."""
    local = moment.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
