"""The rows of the live table: schedules from the SDK, runs from the log events of the workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from minutehand.domain.names import RunRef, parse_run_id
from minutehand.domain.times import from_ms
from minutehand.errors import InvalidInput
from minutehand.local.events import Event
from minutehand.sdk.scheduler import Scheduler

_SHOWN = 50  # schedules in the table
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
    lateness: float | None  # seconds
    reason: str


class SessionStatus:
    """Rows by owner (``tenant/name``, ``tenant/~id``)."""

    def __init__(self, scheduler: Scheduler, labels: dict[str, str]) -> None:
        self._scheduler = scheduler
        self._labels = labels
        self.rows: dict[str, StatusRow] = {}
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
        row = self._row(ref)
        if event["event"] == "run.started":
            row.outcome, row.runs = "RUNNING", row.runs + 1
            if event.get("attempt") == 1:
                row.last, row.lateness = _due(ref), float(event["lateness_ms"]) / 1000
            return None
        outcome = str(event.get("state") or event["event"].removeprefix("run.").upper())
        if event["event"] != "run.ended" and row.outcome == outcome:
            return None  # the undertaker repeats the state that the worker logged
        row.outcome = outcome
        return EndedRun(datetime.now(UTC), row.name, row.outcome, row.lateness, str(event.get("reason") or ""))

    def _row(self, ref: RunRef) -> StatusRow:
        name = self._labels.get(str(ref)) or ref.owner.partition("/")[2]
        return self.rows.setdefault(ref.owner, StatusRow(name=name))


def _due(ref: RunRef) -> datetime | None:
    return from_ms(int(ref.key)) if ref.key.isdigit() else None
