"""A rule in words (extra ``explain``), and its next fires with the changes of the clocks between them, one row each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from quarterjack.timing import expressions
from quarterjack.timing.cron import expression as cron
from quarterjack.timing.cron.pattern import CronPattern, listed
from quarterjack.timing.expressions import Expression
from quarterjack.timing.holidays import extra
from quarterjack.timing.moments import UNITS, Moment, Rate
from quarterjack.timing.rule import Rule, check_whole
from quarterjack.timing.timetables import LATEST, Manual, Timetable, fires, milliseconds, moment, previous
from quarterjack.timing.zones import zone as zones
from quarterjack.values import replace, value

_MOST = 1000  # rows
_AROUND = 400 * 86_400_000  # milliseconds before a change in which the last fires are searched
_AHEAD = 2 * 366 * 86_400  # seconds in which the next changes are searched: a zone without one in two years has none
_HASHED = re.compile(r"\bH\b", re.IGNORECASE)
_PASSES = {"once": "", "first": "first pass", "second": "second pass"}


@value(slots=True)
class PreviewRow:
    at: datetime  # in the schedule's zone
    kind: Literal["fire", "change"]
    mark: str  # of a fire: "", "gap", "first pass", "second pass"; of a change: "forward", "back"
    note: str  # the same in words


def rows(
    rule: Rule, *, after: datetime, count: int, key: str | None = None, anchor: datetime | None = None
) -> list[PreviewRow]:
    """The next ``count`` (1 to 1000) fires later than ``after``, and the changes of the clocks between them.

    ``anchor`` is that of ``rule_fires``.
    """
    check_whole("count", count, 1, _MOST)
    now = milliseconds("after", after)
    begun = now if anchor is None else milliseconds("anchor", anchor)
    found = list(islice(fires(rule.plan.timetable(begun, key), now, LATEST), count))
    return _merged(rule, begun, key, found, _changes(rule, now // 1000, (found[-1] if found else now) // 1000))


def around_changes(
    rule: Rule,
    *,
    after: datetime,
    changes: int = 2,
    each: int = 3,
    key: str | None = None,
    anchor: datetime | None = None,
) -> list[PreviewRow]:
    """The next ``changes`` (1 to 10) changes of the clocks, with up to ``each`` (1 to 100) fires before and after each.

    Empty for a zone whose clocks are not going to change. ``anchor`` is that of ``rule_fires``.
    """
    check_whole("changes", changes, 1, 10)
    check_whole("each", each, 1, 100)
    now = milliseconds("after", after)
    begun = now if anchor is None else milliseconds("anchor", anchor)
    table = rule.plan.timetable(begun, key)
    coming = _changes(rule, now // 1000, min(now // 1000 + _AHEAD, zones.LAST_SECOND))[:changes]
    found: set[int] = set()
    for change in coming:
        instant = milliseconds("at", change.at)
        found.update(islice(_backwards(table, instant, max(now + 1, instant - _AROUND)), each))
        found.update(islice(fires(table, instant - 1, LATEST), each))
    return _merged(rule, begun, key, found, coming)


def _backwards(table: Timetable, before: int, not_before: int) -> Iterable[int]:
    due = previous(table, before, not_before)
    while due is not None:
        yield due
        due = previous(table, due, not_before)


def _merged(
    rule: Rule, anchor: int, key: str | None, found: Iterable[int], changes: list[PreviewRow]
) -> list[PreviewRow]:
    if rule.plan.is_manual:
        return changes
    # A spread fire is not marked: it is never at its own time.
    plain = rule if rule.window or rule.jitter else replace(rule, gap="skip", max_fires=None, last=None)
    unmoved, zone = plain.plan.timetable(anchor, key), zones.table(rule.timezone)
    merged = list(changes)
    for due in found:
        mark, note = "gap", "stands for a time that the clocks skip"
        if unmoved.next(due - 1) == due:
            mark = _PASSES[zone.showing(due // 1000)]
            note = "the clocks show this time twice" if mark else ""
        merged.append(PreviewRow(moment(due, rule.timezone), "fire", mark, note))
    # Not by the datetimes: those of one zone compare by the wall clock, which is wrong in a repeated hour.
    return sorted(merged, key=lambda row: (row.at.timestamp(), row.kind))


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


@value(slots=True)
class Explanation:
    words: str
    timezone: str
    rows: tuple[PreviewRow, ...]  # the next fires, and the changes of the clocks among them

    def __str__(self) -> str:
        lines = [f"{self.words} ({self.timezone})"]
        lines += [
            f"{'~' if row.kind == 'change' else ' '} {row.at.isoformat()}  {row.note}".rstrip() for row in self.rows
        ]
        return "\n".join(lines)


def explain(
    expression: str | Sequence[str],
    timezone: str = "UTC",
    *,
    after: datetime,
    count: int = 5,
    key: str | None = None,
    **policies: Any,
) -> Explanation:
    """An expression in words, with its next ``count`` fires later than ``after``. The policies are fields of ``Rule``.

    >>> from datetime import UTC
    >>> print(explain("30 2 * * *", "Europe/Berlin", after=datetime(2026, 3, 28, tzinfo=UTC), count=2))
    At 02:30 (Europe/Berlin)
      2026-03-28T02:30:00+01:00
    ~ 2026-03-29T03:00:00+02:00  clocks go forward from 02:00 to 03:00
      2026-03-29T03:00:00+02:00  stands for a time that the clocks skip
    """
    rule = Rule.of(expression, timezone=timezone, **policies)
    return Explanation(rule_words(rule, key), timezone, tuple(rows(rule, after=after, count=count, key=key)))


def rule_words(rule: Rule, key: str | None = None) -> str:
    """The expressions of a rule in words."""
    first, *rest = [_in_words(each, key) for each in rule.plan.expressions]
    return "; and ".join([first, *(words[0].lower() + words[1:] for words in rest)])


def _in_words(expression: Expression, key: str | None) -> str:
    parsed = expression.parsed
    if isinstance(parsed, Rate):
        unit, seconds = next((unit, seconds) for unit, seconds in UNITS.items() if parsed.period % seconds == 0)
        number = parsed.period // seconds
        words = f"Every {unit}" if number == 1 else f"Every {number} {unit}s"
        return f"{words} of elapsed time" + (f" from {_moment(parsed.origin)} on" if parsed.origin else "")
    if isinstance(parsed, Manual):
        return "When it is triggered"
    if isinstance(parsed, Moment):
        return f"Once, at {_moment(parsed)}"
    if isinstance(parsed, CronPattern):
        return _cron(expression, key)
    return f"As the recurrence rule says: {' '.join(expression.text.split())}"


def _moment(moment_: Moment) -> str:
    return moment(moment_.second * 1000).strftime("%Y-%m-%d %H:%M:%S") + (" UTC" if moment_.zone else "")


def _cron(expression: Expression, key: str | None) -> str:
    text, aws = cron.plain(expression.text), cron.is_aws(expression.text)
    pattern = expressions.pattern(expression.text, key)
    if expression.hashed:
        text = _resolved(text, pattern)
    library = extra("cron_descriptor", "explain", "expression", expression.text)
    options = library.Options(day_of_week_start_index_zero=not aws, use_24hour_time_format=True, locale_code="en_US")
    try:
        words = str(library.get_description(text, options))
    except Exception:  # noqa: BLE001 an expression that the library cannot describe still has fires to show
        words = f"As the cron expression says: {text}"
    return _with_both_days(words, text.split(), pattern, aws=aws)


def _resolved(text: str, pattern: CronPattern) -> str:
    sets = [pattern.clock.minutes, pattern.clock.hours, pattern.days.dates, pattern.months, pattern.days.weekdays]
    words = text.split()
    if len(words) == 6:
        sets.insert(0, pattern.clock.seconds)
    return " ".join(
        ",".join(map(str, listed(values))) if _HASHED.search(word) else word
        for word, values in zip(words, sets, strict=True)
    )


def _with_both_days(words: str, fields: list[str], pattern: CronPattern, *, aws: bool) -> str:
    """Add whether one of two day fields is enough: the library omits it, or has it wrong."""
    day, weekday = (fields[2], fields[4]) if aws else (fields[-3], fields[-1])
    if day in ("*", "?") or weekday in ("*", "?"):
        return words
    if pattern.days.either:
        return words + " (either day field is enough)"
    return words.replace(", or on ", ", and on ") + " (both day fields must match)"
