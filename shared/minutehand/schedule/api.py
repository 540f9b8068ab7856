"""The public questions about time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from minutehand.errors import InvalidInput
from minutehand.schedule.expressions import Policy, table
from minutehand.schedule.rule import Rule
from minutehand.schedule.tables import Timetable
from minutehand.schedule.zones import zone

_MOST = 1000  # fires of one answer
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timetable(rule: Rule, *, anchor: int, key: str | None = None) -> Timetable:
    """The fires of a rule. ``anchor`` (UTC ms) is where rates begin; ``key`` the identity that ``H`` spreads by."""
    return table(rule.expression, rule.timezone, Policy(), anchor=anchor, key=key)


def next_fires(expression: str, *, timezone: str = "UTC", after: datetime, count: int, key: str | None = None) -> list[datetime]:
    """The next ``count`` (1 to 1000) fires later than ``after``, in ``timezone``; fewer if the expression ends.

    A rate without its own origin counts from ``after``.

    >>> next_fires("30 2 * * *", timezone="Europe/Berlin", after=datetime(2026, 3, 28, 12, tzinfo=UTC), count=1)
    [datetime.datetime(2026, 3, 29, 3, 0, tzinfo=zoneinfo.ZoneInfo(key='Europe/Berlin'))]
    """
    rule = Rule(expression=expression, timezone=timezone)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST:
        raise InvalidInput("count", count, "not a number of fires", f"give 1 to {_MOST}")
    now = milliseconds("after", after)
    fires = timetable(rule, anchor=now, key=key)
    found: list[datetime] = []
    due = fires.next(now)
    while due is not None and len(found) < count:
        found.append(moment(due, timezone))
        due = fires.next(due)
    return found


def milliseconds(field: str, moment: object) -> int:
    """UTC milliseconds of an aware datetime; ``InvalidInput`` for a naive one."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidInput(field, moment, "not a datetime with a time zone", "give datetime(..., tzinfo=UTC)")
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def moment(due: int, timezone: str) -> datetime:
    """An instant in UTC milliseconds as a datetime in a zone."""
    return (_EPOCH + timedelta(milliseconds=due)).astimezone(zone(timezone))
