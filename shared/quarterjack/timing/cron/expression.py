"""Cron expressions: five fields, six with seconds first, the ``@`` names, and the AWS dialect ``cron(…)``.

Expressions of other systems that are no cron expression here are refused with the form that says the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from quarterjack.errors import ExpressionError
from quarterjack.timing.cron import fields
from quarterjack.timing.cron.fields import WEEKDAY, FieldSpec, FieldToken, HashValue
from quarterjack.timing.cron.pattern import CronPattern, Days, TimesOfDay, lengths, listed, lowest
from quarterjack.timing.zones import zone as zones

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
_ON_THE_MINUTE = FieldToken("0", 0, "")  # the seconds of an expression with five fields
_EVERY_DAY = Days(dates=fields.DAY.every, weekdays=fields.WEEKDAY.every)


def is_aws(expression: str) -> bool:
    return _AWS.fullmatch(expression) is not None


def plain(expression: str) -> str:
    """The fields alone, in capitals: names and ``cron(…)`` resolved."""
    aws = _AWS.fullmatch(expression)
    text = aws[1] if aws else NAMES.get(expression.strip().lower(), expression)
    return " ".join(text.split()).upper()


def parse_cron(expression: str, hash_value: HashValue) -> CronPattern:
    """Parse five or six fields, an ``@`` name or ``cron(…)``. Raises ``ExpressionError``, also if no day ever matches."""
    aws = _AWS.fullmatch(expression)
    if aws:
        return _aws(_tokens(aws[1], aws.start(1), expression), hash_value)
    refuse_zone_or_length(expression)
    named = expression.strip().lower()
    if named.startswith("@"):
        if named not in NAMES:
            FieldToken(named, expression.find("@"), expression).fail(
                f"{named!r} is not a known name", "write one of " + ", ".join(NAMES)
            )
        return parse_cron(NAMES[named], hash_value)
    tokens = _tokens(expression, 0, expression)
    if len(tokens) == 5:
        tokens.insert(0, _ON_THE_MINUTE)
    elif len(tokens) == 6:
        refuse_numbered_weekday(tokens[3], tokens[5])
    elif len(tokens) == 7:
        refuse_seven(tokens, lambda text: parse_cron(text, hash_value))
    if len(tokens) != 6:
        problem = f"a cron expression has 5 fields, or 6 with seconds first, not {len(tokens)}"
        remedy = "write 'minute hour day-of-month month day-of-week', rate(5 minutes) or at(2026-12-24T18:00:00)"
        FieldToken(expression, 0, expression).fail(problem, remedy)
    *first, weekday = tokens
    return _pattern(first, weekday, fields.WEEKDAY, None, hash_value)


def _tokens(text: str, start: int, expression: str) -> list[FieldToken]:
    return [FieldToken(found[0].upper(), start + found.start(), expression) for found in _WORD.finditer(text)]


def _aws(tokens: list[FieldToken], hash_value: HashValue) -> CronPattern:
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
    return _pattern(first, weekday, fields.AWS_WEEKDAY, year, hash_value)


def _pattern(
    first: list[FieldToken], weekday: FieldToken, week: FieldSpec, year: FieldToken | None, hash_value: HashValue
) -> CronPattern:
    second, minute, hour, day, month = first
    clock = minute.text + hour.text
    pattern = CronPattern(
        clock=TimesOfDay(
            hours=fields.values(hour, fields.HOUR, hash_value),
            minutes=fields.values(minute, fields.MINUTE, hash_value),
            seconds=fields.values(second, fields.SECOND, hash_value),
        ),
        days=_days(day, weekday, week, hash_value),
        months=fields.values(month, fields.MONTH, hash_value),
        years=() if year is None or year.text == "*" else tuple(listed(fields.values(year, fields.YEAR, hash_value))),
        fixed="*" not in clock and "/" not in clock,
        to_the_second=second is not _ON_THE_MINUTE,
    )
    _must_occur(pattern, day, month)
    return pattern


def _days(day: FieldToken, weekday: FieldToken, week: FieldSpec, hash_value: HashValue) -> Days:
    _check_question_mark(day)
    _check_question_mark(weekday)
    if day.text in "*?" and weekday.text in "*?":
        return _EVERY_DAY
    dates, from_end, nearest, last_workday = _dates(day, hash_value)
    weekdays, nth = _weekdays(weekday, week, hash_value)
    either = day.text[0] not in "*?" and weekday.text[0] not in "*?"  # as in Debian: only fields without a leading star
    return Days(dates, from_end, nearest, last_workday, weekdays, nth, either)


def _check_question_mark(token: FieldToken) -> None:
    """Refuse `?` with a step or in a list: it leaves the day to the other field, so it is the whole field."""
    for item in token.split(",") if token.text != "?" else ():
        sign, slash, step = item.text.partition("/")
        if sign == "?":
            instead = f"write '*/{step}'" if slash else "write '*' for every day, or the list without '?'"
            item.fail("'?' stands alone in its field", instead)


def _dates(day: FieldToken, hash_value: HashValue) -> tuple[int, int, int, bool]:
    if "L" not in day.text and "W" not in day.text:
        return fields.values(day, fields.DAY, hash_value), 0, 0, False
    dates = from_end = nearest = 0
    last_workday = False
    for item in day.split(","):
        found = _DATE.fullmatch(item.text)
        if found is None:
            dates |= fields.item(item, fields.DAY, hash_value)
        elif found["near"]:
            nearest |= 1 << fields.number(item, fields.DAY, found["near"])
        elif found["last"]:
            back = int(found["back"] or 0)
            if back > 30:
                item.fail(f"no month has a day {back} days before its last", "give L-1 to L-30")
            from_end |= 1 << back
        else:
            last_workday = True
    return dates, from_end, nearest, last_workday


def _weekdays(weekday: FieldToken, week: FieldSpec, hash_value: HashValue) -> tuple[int, tuple[tuple[int, int], ...]]:
    plain, nth = 0, []
    for item in weekday.split(","):
        if week is fields.WEEKDAY:
            refuse_weekday(item)
        found = _NTH.fullmatch(item.text)
        if found:
            which = int(found["nth"] or 0)
            if found["nth"] and not 1 <= which <= 5:
                item.fail(f"no month has a weekday number {which}", "give #1 to #5, or L for the last: 5L")
            nth.append(((fields.number(item, week, found["day"]) - week.low) % 7, which))
        elif item.text == "L":
            if week is fields.WEEKDAY:
                item.fail(
                    "'L' alone is not a day of the week",
                    "for the last Friday of the month write FRIL; for Saturday write SAT",
                )
            plain |= 1 << 6  # in the AWS dialect the week ends on Saturday
        else:
            plain |= fields.item(item, week, hash_value) >> week.low
    return (plain | plain >> 7) & fields.WEEKDAY.every, tuple(nth)


def _must_occur(pattern: CronPattern, day: FieldToken, month: FieldToken) -> None:
    """Refuse an expression that matches no day of any year."""
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


_PREFIX = re.compile(r"\s*(?:CRON_)?TZ=(\S+)\s+(.*\S)\s*", re.IGNORECASE | re.DOTALL)
_EVERY = re.compile(r"\s*@every\s+(\S.*)", re.IGNORECASE)
_LENGTH = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.IGNORECASE)  # Go's have no days
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_DAY = re.compile(r"(?<![#/\w])(?<!L-)[1-7](?=L?\b)")  # a weekday by its number, in 6L as well: not the 1 of MON#1
_LAST = re.compile(r"L([0-7]|[A-Z]{3})")


def refuse_zone_or_length(expression: str) -> None:
    """Refuse a zone before or behind the fields, and ``@every`` with a length of time. Raises ExpressionError."""
    whole = FieldToken(expression, 0, expression)
    if found := _PREFIX.fullmatch(expression):
        _refuse_zone(whole, found[1], found[2])
    *rest, last = expression.split() or [""]
    whole_before = len(rest) in (5, 6) or expression.lstrip()[:1] == "@" or is_aws(" ".join(rest))
    if rest and whole_before and last in zones.names():
        _refuse_zone(whole, last, " ".join(rest))
    if every := _EVERY.fullmatch(expression):
        rate = _rate(every[1])
        whole.fail(
            f"{expression.strip()!r} is no cron expression",
            f"write {rate}" if rate else "write a rate, as rate(90 minutes)",
        )


def _refuse_zone(whole: FieldToken, zone: str, fields: str) -> NoReturn:
    whole.fail("an expression has no time zone in it", f"give the expression {fields!r} and timezone={zone!r}")


def _rate(length: str) -> str | None:
    """Go's length of time as a rate; None: it is not a whole number of seconds."""
    found = _LENGTH.fullmatch(length.strip())
    sizes = (86_400, 3_600, 60, 1)
    seconds = sum(int(part or 0) * size for part, size in zip(found.groups(), sizes, strict=True)) if found else 0
    if not seconds:
        return None
    size, unit = next(one for one in _UNITS if seconds % one[0] == 0)
    return f"rate({seconds // size} {unit}{'s' if seconds > size else ''})"


def refuse_seven(tokens: Sequence[FieldToken], reads: Callable[[str], object]) -> NoReturn:
    """Refuse seven fields, as Quartz has them, with what says the same if ``reads`` accepts it."""
    second, minute, hour, day, month, weekday, year = (token.text for token in tokens)
    whole = FieldToken(tokens[0].expression, 0, tokens[0].expression)
    problem = "a cron expression has 5 fields, or 6 with seconds first, not 7"
    if second != "0" and year == "*":
        whole.fail(problem, f"leave out the year: '{second} {minute} {hour} {day} {month} {weekday}'")
    if second != "0":
        whole.fail(problem, "leave out the year, and give start= and end= for it")
    if day != "?" and weekday != "?":
        day, weekday = (day, "?") if weekday == "*" else ("?" if day == "*" else day, weekday)
    written = f"cron({minute} {hour} {day} {month} {weekday} {year})"
    try:
        reads(written)
    except ExpressionError as error:
        whole.fail(f"{problem}; and {error.problem}", "write cron(minute hour day-of-month month day-of-week year)")
    whole.fail(problem, f"in the AWS dialect, whose numbers of weekdays are Quartz's, write {written}")


def refuse_numbered_weekday(day: FieldToken, weekday: FieldToken) -> None:
    """Refuse a weekday by its number beside ``?`` and seconds, as Quartz writes it: there 1 is Sunday, here Monday."""
    if day.text != "?" or not _DAY.search(weekday.text):
        return
    there, here = (_named(weekday.text, first) for first in (1, 0))
    problem = f"day-of-week {weekday.text!r} beside '?' may count as Quartz does, where 1 is Sunday"
    weekday.fail(problem, f"write {there} if it is Quartz's, else {here}")


def _named(text: str, first: int) -> str:
    return _DAY.sub(lambda number: WEEKDAY.names[(int(number[0]) - first) % 7], text)


def refuse_weekday(item: FieldToken) -> None:
    """Refuse ``7/2`` and ``L5``, which are read in different ways or not at all."""
    if item.text.startswith("7/") and item.text != "7/7":
        step = item.text[2:]
        remedy = f"write 0/{step} to count from Sunday on, or 7 for Sunday alone"
        item.fail(f"day-of-week {item.text!r} is Sunday alone for some readers of cron", remedy)
    if found := _LAST.fullmatch(item.text):
        item.fail(f"day-of-week {item.text!r} is not understood", f"did you mean {found[1]}L?")
