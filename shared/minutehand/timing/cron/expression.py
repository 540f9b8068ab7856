"""Cron expressions: five fields, six with seconds first, the ``@`` names, and the AWS dialect ``cron(…)``."""

from __future__ import annotations

import re

from minutehand.timing.cron import fields
from minutehand.timing.cron.fields import FieldSpec, FieldToken, Spread
from minutehand.timing.cron.month_days import Days, lengths
from minutehand.timing.cron.pattern import CronPattern
from minutehand.timing.cron.time_of_day import Clock, listed, lowest

NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_WORD = re.compile(r"\S+")
_AWS = re.compile(r"\s*cron\((.*)\)\s*", re.DOTALL | re.IGNORECASE)
_DATE = re.compile(r"(?P<last>L)(?:-(?P<back>[0-9]{1,2}))?|(?P<workday>LW|WL)|(?P<near>[0-9]{1,2})W")
_NTH = re.compile(r"(?P<day>[A-Z0-9]+)(?:#(?P<nth>[0-9])|(?P<last>L))")
_ON_THE_MINUTE = FieldToken("0", 0, "")  # the field for seconds that five fields leave out
_ALL_WEEKDAYS = 127
_EVERY_DAY = Days(dates=fields.DAY.every, weekdays=_ALL_WEEKDAYS)


def is_aws(expression: str) -> bool:
    """Whether this is written as ``cron(…)``."""
    return _AWS.fullmatch(expression) is not None


def plain(expression: str) -> str:
    """The fields alone, in capitals: names and ``cron(…)`` resolved."""
    aws = _AWS.fullmatch(expression)
    text = aws[1] if aws else NAMES.get(expression.strip().lower(), expression)
    return " ".join(text.split()).upper()


def parse(expression: str, spread: Spread) -> CronPattern:
    """Parse five or six fields, an ``@`` name or ``cron(…)``; ``ExpressionError`` if it is none or never matches."""
    aws = _AWS.fullmatch(expression)
    if aws:
        return _aws(_tokens(aws[1], aws.start(1), expression), spread)
    named = expression.strip().lower()
    if named.startswith("@"):
        return _named(named, expression, spread)
    tokens = _tokens(expression, 0, expression)
    if len(tokens) == 5:
        tokens.insert(0, _ON_THE_MINUTE)
    if len(tokens) != 6:
        _wrong_count(expression, len(tokens))
    *first, weekday = tokens
    return _pattern(first, weekday, fields.WEEKDAY, None, spread)


def _named(named: str, expression: str, spread: Spread) -> CronPattern:
    if named not in NAMES:
        FieldToken(named, expression.find("@"), expression).fail(
            f"{named!r} is not a known name", "write one of " + ", ".join(NAMES)
        )
    return parse(NAMES[named], spread)


def _wrong_count(expression: str, count: int) -> None:
    problem = f"a cron expression has 5 fields, or 6 with seconds first, not {count}"
    remedy = "write 'minute hour day-of-month month day-of-week', rate(5 minutes) or at(2026-12-24T18:00:00)"
    FieldToken(expression, 0, expression).fail(problem, remedy)


def _tokens(text: str, start: int, expression: str) -> list[FieldToken]:
    return [FieldToken(found[0].upper(), start + found.start(), expression) for found in _WORD.finditer(text)]


def _aws(tokens: list[FieldToken], spread: Spread) -> CronPattern:
    """Minute, hour, day of month, month, day of week (1 = Sunday), year; one of the two days is ``?``."""
    whole = FieldToken("", 0, tokens[0].expression if tokens else "cron()")
    if len(tokens) != 6:
        whole.fail(
            f"cron(…) has 6 fields, not {len(tokens)}", "write cron(minute hour day-of-month month day-of-week year)"
        )
    minute, hour, day, month, weekday, year = tokens
    if (day.text == "?") == (weekday.text == "?"):
        problem = "in cron(…) exactly one of the two day fields is '?'"
        weekday.fail(problem, "put '?' into the one that you do not use")
    first = [_ON_THE_MINUTE, minute, hour, day, month]
    return _pattern(first, weekday, fields.AWS_WEEKDAY, year, spread)


def _pattern(
    first: list[FieldToken], weekday: FieldToken, week: FieldSpec, year: FieldToken | None, spread: Spread
) -> CronPattern:
    second, minute, hour, day, month = first
    clock = minute.text + hour.text
    pattern = CronPattern(
        clock=Clock(
            hours=fields.values(hour, fields.HOUR, spread),
            minutes=fields.values(minute, fields.MINUTE, spread),
            seconds=fields.values(second, fields.SECOND, spread),
        ),
        days=_days(day, weekday, week, spread),
        months=fields.values(month, fields.MONTH, spread),
        years=_years(year, spread),
        fixed="*" not in clock and "/" not in clock,
        to_the_second=second is not _ON_THE_MINUTE,
    )
    _must_occur(pattern, day, month)
    return pattern


def _years(year: FieldToken | None, spread: Spread) -> tuple[int, ...]:
    if year is None or year.text == "*":
        return ()
    found = fields.values(year, fields.YEAR, spread)
    return tuple(value for value in range(fields.YEAR.low, fields.YEAR.high + 1) if found >> value & 1)


def _days(day: FieldToken, weekday: FieldToken, week: FieldSpec, spread: Spread) -> Days:
    if day.text in "*?" and weekday.text in "*?":
        return _EVERY_DAY
    dates, from_end, nearest, last_workday = _dates(day, spread)
    weekdays, nth = _weekdays(weekday, week, spread)
    either = (
        day.text[0] not in "*?" and weekday.text[0] not in "*?"
    )  # Debian's rule: a field that begins with a star never widens
    return Days(dates, from_end, nearest, last_workday, weekdays, nth, either)


def _dates(day: FieldToken, spread: Spread) -> tuple[int, int, int, bool]:
    if "L" not in day.text and "W" not in day.text:
        return fields.values(day, fields.DAY, spread), 0, 0, False
    dates = from_end = nearest = 0
    last_workday = False
    for item in day.split(","):
        found = _DATE.fullmatch(item.text)
        if found is None:
            dates |= fields.item(item, fields.DAY, spread)
        elif found["near"]:
            nearest |= 1 << fields.number(item, fields.DAY, found["near"])
        elif found["last"]:
            from_end |= 1 << _back(item, int(found["back"] or 0))
        else:
            last_workday = True
    return dates, from_end, nearest, last_workday


def _back(item: FieldToken, days: int) -> int:
    if days > 30:
        item.fail(f"no month has a day {days} days before its last", "give L-1 to L-30")
    return days


def _weekdays(weekday: FieldToken, week: FieldSpec, spread: Spread) -> tuple[int, tuple[tuple[int, int], ...]]:
    plain, nth = 0, []
    for item in weekday.split(","):
        found = _NTH.fullmatch(item.text)
        if found:
            which = int(found["nth"] or 0)
            if found["nth"] and not 1 <= which <= 5:
                item.fail(f"no month has a weekday number {which}", "give #1 to #5, or L for the last: 5L")
            nth.append(((fields.number(item, week, found["day"]) - week.low) % 7, which))
        elif item.text == "L":
            plain |= _last_of_week(item, week)
        else:
            plain |= fields.item(item, week, spread) >> week.low
    return (plain | plain >> 7) & _ALL_WEEKDAYS, tuple(nth)


def _last_of_week(item: FieldToken, week: FieldSpec) -> int:
    if week is fields.WEEKDAY:
        item.fail(
            "'L' alone is not a day of the week", "for the last Friday of the month write 5L; for Saturday write 6"
        )
    return 1 << 6  # in the AWS dialect the week ends on Saturday


def _must_occur(pattern: CronPattern, day: FieldToken, month: FieldToken) -> None:
    """Refuse what no calendar ever shows."""
    days, months = pattern.days, listed(pattern.months)
    if pattern.years:
        if not any(pattern.matching(year, number) for year in pattern.years for number in months):
            day.fail("no day of these years and months matches", "check day, month and year together")
    elif days.plain:
        longest = max(lengths(number)[-1] for number in months)
        wrong = lowest(days.dates)
        if wrong > longest and not (days.either and days.weekdays):
            where = ",".join(map(str, months))
            day.fail(f"day-of-month {wrong} never occurs in month {where}", f"did you mean {longest}?")
    elif not any(days.of(first, length) for number in months for length in lengths(number) for first in range(7)):
        problem = f"{day.text} with this day-of-week never occurs in month {month.text}"
        day.fail(problem, "check the day fields and the month together")
