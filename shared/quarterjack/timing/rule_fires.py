"""The fires of a rule: the next ones, and the most that an hour can have.

The densest hour follows from arithmetic on the expressions: no fire is stepped through.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron.pattern import CronPattern
from quarterjack.timing.expressions import Parsed
from quarterjack.timing.moments import CENTURY, Rate
from quarterjack.timing.rrule.parser import Recur, Recurrences
from quarterjack.timing.rule import Rule, check_whole, timetable
from quarterjack.timing.timetables import LATEST, Manual, fires, milliseconds, moment

HOUR = 3600  # seconds
_MOST = 1000  # fires of one answer
_CLOCK = (("SECONDLY", 1), ("MINUTELY", 60), ("HOURLY", 3600))  # frequencies shorter than a day, and their seconds


def densest_hour(rule: Rule) -> int:
    """How many fires the rule can have within an hour: the sum over its expressions, ``max_fires`` at most.

    Never too few, but for what a window or jitter moves from one hour into the next. Too many where expressions name the same
    instants, where exclusions take fires away, and where expressions are dense at different times of the day.
    """
    found = sum(map(_in_an_hour, (expression.parsed for expression in rule.plan.expressions)))
    return found if rule.max_fires is None else min(found, rule.max_fires)


def _in_an_hour(parsed: Parsed) -> int:
    if isinstance(parsed, CronPattern):
        return parsed.clock.minutes.bit_count() * parsed.clock.seconds.bit_count()
    if isinstance(parsed, Rate):
        return -(-HOUR // parsed.period)
    if isinstance(parsed, Recurrences):
        own = 0 if parsed.start is None else 1  # DTSTART is an occurrence, where no rule is given
        return sum(_recurs(recur) for _, recur in parsed.rules) + len(parsed.added) + (0 if parsed.rules else own)
    return 0 if isinstance(parsed, Manual) else 1


def _recurs(recur: Recur) -> int:
    """Each part multiplies or limits: in an hour are at most so many minutes, seconds, and periods of the frequency."""
    seconds, minutes = recur.by.get("BYSECOND", ()), recur.by.get("BYMINUTE", ())
    period = dict(_CLOCK).get(recur.freq)
    if period is None or period == HOUR:
        found = max(len(minutes), 1) * max(len(seconds), 1)
    elif period == 1:
        found = min(-(-HOUR // recur.interval), (len(minutes) or 60) * (len(seconds) or 60))
    else:
        found = min(-(-60 // recur.interval), len(minutes) or 60) * max(len(seconds), 1)
    return found if recur.count is None else min(found, recur.count)


def next_fires(
    expression: str | Sequence[str],
    *,
    timezone: str = "UTC",
    after: datetime,
    count: int,
    key: str | None = None,
    **policies: Any,
) -> list[datetime]:
    """The next ``count`` (1 to 1000) fires later than ``after``, in ``timezone``; fewer or none if the expression ends.

    A rate without its own origin counts from ``after``, and so does ``max_fires``. ``policies`` are fields of ``Rule``.
    Raises ``ExpressionError``, also if the next fire is more than 100 years away.

    >>> from datetime import UTC
    >>> next_fires("30 2 * * *", timezone="Europe/Berlin", after=datetime(2026, 3, 28, 12, tzinfo=UTC), count=1)
    [datetime.datetime(2026, 3, 29, 3, 0, tzinfo=zoneinfo.ZoneInfo(key='Europe/Berlin'))]
    """
    return rule_fires(Rule.of(expression, timezone=timezone, **policies), after=after, count=count, key=key)


def rule_fires(
    rule: Rule, *, after: datetime, count: int, key: str | None = None, anchor: datetime | None = None
) -> list[datetime]:
    """As ``next_fires``. ``anchor`` is when the rule became active, if rates and ``max_fires`` do not count from ``after``."""
    check_whole("count", count, 1, _MOST)
    now = milliseconds("after", after)
    table = timetable(rule, anchor=now if anchor is None else milliseconds("anchor", anchor), key=key)
    check_near(rule, table.next(now), now)
    return [moment(due, rule.timezone) for due in islice(fires(table, now, LATEST), count)]


def check_near(rule: Rule, due: int | None, now: int) -> None:
    """``ExpressionError`` if a fire is due more than 100 years later than ``now`` (UTC ms)."""
    if due is not None and not rule.plan.is_manual and due - now > CENTURY * 1000:
        problem = f"the next fire, {moment(due).isoformat()}, is more than 100 years away"
        raise ExpressionError("expression", rule.expression, problem, "give a nearer time")
