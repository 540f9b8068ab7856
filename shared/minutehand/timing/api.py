"""What the rest of Minutehand calls: the timetable of a rule, its next fires, the rule as a schedule keeps it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from minutehand.errors import ExpressionError
from minutehand.timing.cron.pattern import CronPattern
from minutehand.timing.expressions import Expression
from minutehand.timing.instants import milliseconds, moment
from minutehand.timing.moments import CENTURY
from minutehand.timing.rule import Rule, check_whole
from minutehand.timing.timetables import LATEST, Timetable, fires

_PLAIN = re.compile(r"[0-9A-Z*?,/\s-]+", re.IGNORECASE)
_EXTENSIONS = re.compile(r"\b(H|L|LW|WL|[0-9]+W|\w+L|L-[0-9]+)\b", re.IGNORECASE)


def check_portable(rule: Rule) -> None:
    """Refuse a plain five-field expression that croniter cannot read: two independent readers must agree on it."""
    from croniter import croniter  # noqa: PLC0415 (only the creation of a schedule needs it; its import would delay the start of functions)

    for expression in rule.plan.expressions:
        if _is_plain(expression) and not croniter.is_valid(expression.text):
            raise ExpressionError(
                "expression", expression.text, "croniter does not read this", "write it in plain cron"
            )


def _is_plain(expression: Expression) -> bool:
    text = expression.text
    plain = isinstance(expression.parsed, CronPattern) and len(text.split()) == 5 and _PLAIN.fullmatch(text)
    return bool(plain) and not _EXTENSIONS.search(text)


_MOST = 1000  # fires of one answer


def timetable(rule: Rule, *, anchor: int, key: str | None = None) -> Timetable:
    """The fires of a rule. ``anchor`` (UTC ms) is when it became active: rates and ``max_fires`` count from there.

    ``key`` is the schedule's identity, which ``H`` and ``window`` spread by: without it they raise ``ExpressionError``.
    """
    return rule.plan.timetable(anchor, key)


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
    rule = Rule.of(expression, timezone=timezone, **policies)
    check_whole("count", count, 1, _MOST)
    now = milliseconds("after", after)
    table = timetable(rule, anchor=now, key=key)
    _check_near(rule, table.next(now), now)
    return [moment(due, timezone) for due in islice(fires(table, now, LATEST), count)]


def pin(rule: Rule, *, anchor: int, key: str | None, seed: str | None = None) -> Rule:
    """The rule as a revision that becomes active at ``anchor`` (UTC ms) stores it.

    It gets the jitter's ``seed`` (a random text), unless it has one, and the instant of the last of ``max_fires``.
    Raises ``ExpressionError`` if it never fires after the anchor, or first in more than 100 years.
    """
    check_portable(rule)
    pinned = replace(rule, seed=rule.seed or seed) if rule.jitter else rule
    first = timetable(pinned, anchor=anchor, key=key).next(anchor)
    if first is None:
        problem = f"nothing is due after {moment(anchor).isoformat()}"
        raise ExpressionError(
            "expression", rule.expression, problem, "give a time to come, or check start, end and exclusions"
        )
    _check_near(rule, first, anchor)
    if rule.max_fires is None or rule.last is not None:
        return pinned
    return replace(pinned, last=pinned.plan.final(anchor, key))


def _check_near(rule: Rule, due: int | None, now: int) -> None:
    if due is not None and due - now > CENTURY * 1000:
        problem = f"the next fire, {moment(due).isoformat()}, is more than 100 years away"
        raise ExpressionError("expression", rule.expression, problem, "give a nearer time")
