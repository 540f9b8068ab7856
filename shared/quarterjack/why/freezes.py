"""Freezes of the tenant that held a run, also those that were ended or replaced since: the audit has a line of each.

audit     freeze (until 12:00) ────────► thaw
run            due ├── held ───────────────┤ started
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quarterjack.domain.audit import AuditAct, AuditLineRow
from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import Freeze
from quarterjack.why.answer import Cause, Sentence
from quarterjack.why.words import show


@dataclass(frozen=True, kw_only=True)
class _Period:
    """A time in which the tenant was frozen."""

    since: int  # UTC ms
    until: int  # UTC ms
    by: AuditLineRow | None  # the freeze; None: its line was not read
    ended_by: AuditLineRow | None  # the thaw, or the freeze that took its place; None: it ended by itself

    @property
    def source(self) -> str:
        line = self.by or self.ended_by
        return "audit" if line is None else f"audit line {line.id}"


def waited(run: RunRow, now: int) -> tuple[int, int]:
    """From when until when (UTC ms) a run could have started and had not."""
    return max(run.due, run.created_at), now if run.started_at is None else run.started_at


def covers(freeze: Freeze, ready: int) -> bool:
    """Whether the stored freeze held a run that was ready then."""
    return freeze.created_at <= ready < freeze.until


def may_have_held(freeze: Freeze | None, ready: int) -> bool:
    """Whether a freeze that the stored one ended or replaced may have held a run that was ready then."""
    return freeze is not None and max(freeze.created_at, freeze.until) >= ready and not covers(freeze, ready)


def by_lines(lines: Sequence[AuditLineRow], ready: int, until: int) -> Iterator[Sentence]:
    """The freezes between the two instants."""
    for period in _periods(sorted(lines, key=lambda line: line.at)):
        if period.since < until and period.until > ready:
            yield Sentence(text=_text(period), source=period.source, cause=Cause.FREEZE)


def _periods(lines: Sequence[AuditLineRow]) -> Iterator[_Period]:
    freezes = [line for line in lines if line.act in (AuditAct.FREEZE, AuditAct.THAW)]
    for before, line, after in zip([None, *freezes], freezes, [*freezes[1:], None], strict=False):
        if line.act is AuditAct.FREEZE:
            end = int(line.detail["until"])
            ended_by = after if after is not None and after.at < end else None
            yield _Period(since=line.at, until=end if ended_by is None else ended_by.at, by=line, ended_by=ended_by)
        if before is None and line.detail.get("since") is not None:
            yield _Period(since=int(line.detail["since"]), until=line.at, by=None, ended_by=line)


def _text(period: _Period) -> str:
    by = "" if period.by is None else f" by {period.by.actor}"
    note = "" if period.by is None or not period.by.reason else f" ({period.by.reason})"
    end, ended = period.ended_by, ""
    if end is not None:
        ended = f", when {end.actor} {'thawed it' if end.act is AuditAct.THAW else 'froze it anew'}"
    return (
        f"The tenant was frozen{by} from {show(period.since)} until {show(period.until)}{ended}{note}: no run started."
    )
