"""The next fires of a rule and the changes of the clocks between them, one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Literal

from minutehand.timing.instants import milliseconds, moment
from minutehand.timing.rule import Rule, check_whole
from minutehand.timing.timetables import LATEST, Timetable, fires, previous
from minutehand.timing.zones import zone as zones
from minutehand.timing.zones.zone import LAST_SECOND

_MOST = 1000  # rows
_AROUND = 400 * 86_400_000  # milliseconds before a change in which the last fires are searched
_AHEAD = 2 * 366 * 86_400  # seconds in which the next changes are searched: a zone without one in two years has none
_PASSES = {"once": "", "first": "first pass", "second": "second pass"}


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One line of a preview."""

    at: datetime  # in the schedule's zone
    kind: Literal["fire", "change"]
    mark: str  # of a fire: "", "gap", "first pass", "second pass"; of a change: "forward", "back"
    note: str  # the same in words


def rows(rule: Rule, *, after: datetime, count: int, key: str | None = None) -> list[PreviewRow]:
    """The next ``count`` (1 to 1000) fires later than ``after``, and the changes of the clocks between them."""
    check_whole("count", count, 1, _MOST)
    now = milliseconds("after", after)
    found = list(islice(fires(rule.plan.timetable(now, key), now, LATEST), count))
    return _merged(rule, now, key, found, _changes(rule, now // 1000, (found[-1] if found else now) // 1000))


def around_changes(
    rule: Rule, *, after: datetime, changes: int = 2, each: int = 3, key: str | None = None
) -> list[PreviewRow]:
    """The next ``changes`` (1 to 10) changes of the clocks, with up to ``each`` (1 to 100) fires before and after each.

    Empty for a zone whose clocks are not going to change.
    """
    check_whole("changes", changes, 1, 10)
    check_whole("each", each, 1, 100)
    now = milliseconds("after", after)
    table = rule.plan.timetable(now, key)
    coming = _changes(rule, now // 1000, min(now // 1000 + _AHEAD, LAST_SECOND))[:changes]
    found: set[int] = set()
    for change in coming:
        instant = milliseconds("at", change.at)
        found.update(islice(_backwards(table, instant, max(now + 1, instant - _AROUND)), each))
        found.update(islice(fires(table, instant - 1, LATEST), each))
    return _merged(rule, now, key, found, coming)


def _backwards(table: Timetable, before: int, not_before: int) -> Iterable[int]:
    due = previous(table, before, not_before)
    while due is not None:
        yield due
        due = previous(table, due, not_before)


def _merged(rule: Rule, now: int, key: str | None, found: Iterable[int], changes: list[PreviewRow]) -> list[PreviewRow]:
    plain = rule if rule.window or rule.jitter else replace(rule, gap="skip", max_fires=None, last=None)
    unmoved = plain.plan.timetable(now, key)  # a spread fire is not marked: it is never at its own time
    merged = [*changes, *(_fire(rule.timezone, due, unmoved) for due in found)]
    # Not by the datetimes: those of one zone compare by the wall clock, which is wrong in a repeated hour.
    return sorted(merged, key=lambda row: (row.at.timestamp(), row.kind))


def _fire(zone: str, due: int, unmoved: Timetable) -> PreviewRow:
    if unmoved.next(due - 1) != due:
        return PreviewRow(moment(due, zone), "fire", "gap", "stands for a time that the clocks skip")
    mark = _PASSES[zones.table(zone).showing(due // 1000)]
    return PreviewRow(moment(due, zone), "fire", mark, "the clocks show this time twice" if mark else "")


def _changes(rule: Rule, after: int, until: int) -> list[PreviewRow]:
    """The changes in ``(after, until]``, UTC seconds."""
    found = []
    for instant, before, now in zones.table(rule.timezone).changes(after, until):
        shown, shows = (moment((instant + offset) * 1000) for offset in (before, now))
        form = "%H:%M" if shown.date() == shows.date() else "%Y-%m-%d %H:%M"
        mark = "forward" if now > before else "back"
        note = f"clocks go {mark} from {shown.strftime(form)} to {shows.strftime(form)}"
        found.append(PreviewRow(moment(instant * 1000, rule.timezone), "change", mark, note))
    return found
