"""Reads recurrence rules (RFC 5545): lines of DTSTART, RRULE, RDATE and EXDATE.

A rule that the RFC forbids is refused here, with the position of its fault, before any occurrence is computed.
"""

from __future__ import annotations

import re
from dataclasses import field

from quarterjack.timing.cron.fields import FieldToken
from quarterjack.timing.moments import CENTURY, Moment, moment_of
from quarterjack.timing.zones import windows
from quarterjack.timing.zones import zone as zones
from quarterjack.values import value

MOST = 1000  # occurrences that COUNT may ask for: they are counted one by one
FREQUENCIES = {
    "YEARLY": 366 * 86400,
    "MONTHLY": 31 * 86400,
    "WEEKLY": 7 * 86400,
    "DAILY": 86400,
    "HOURLY": 3600,
    "MINUTELY": 60,
    "SECONDLY": 1,
}
WEEKDAYS = {name: n for n, name in enumerate(["MO", "TU", "WE", "TH", "FR", "SA", "SU"])}
_START = re.compile(r"\s*(DTSTART|RRULE|RDATE|EXDATE|EXRULE|FREQ=)", re.IGNORECASE)
_PARAMETERS = (
    r"(?:;[^:;=\s]+=(?:\"[^\"\r\n]*\"|[^:;\"\r\n]*))*"  # their values may have blanks: W. Europe Standard Time
)
_LINE = re.compile(rf"(?P<name>[A-Z]+)(?P<parameters>{_PARAMETERS}):(?P<value>.*)", re.IGNORECASE)
_LINES = re.compile(rf"(?:DTSTART|RDATE|EXDATE){_PARAMETERS}:\S*|\S+", re.IGNORECASE)
_FOLD = re.compile(r"\r?\n[ \t](?!\s*(?:DTSTART|RRULE|RDATE|EXDATE|EXRULE|FREQ=)\b)", re.IGNORECASE)  # RFC 5545 3.1
_STAMP = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_SIGNED = re.compile(r"[+-]?[0-9]{1,9}")
_DAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_RANGES = {  # part: lowest, highest, whether it may count from the end
    "BYSECOND": (0, 59, False),
    "BYMINUTE": (0, 59, False),
    "BYHOUR": (0, 23, False),
    "BYMONTHDAY": (1, 31, True),
    "BYYEARDAY": (1, 366, True),
    "BYWEEKNO": (1, 53, True),
    "BYMONTH": (1, 12, False),
    "BYSETPOS": (1, 366, True),
}
_ONLY_WITH = {"BYWEEKNO": ("YEARLY",), "BYYEARDAY": ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY")}
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_RANGES)


@value(slots=True)
class Recur:
    """One RRULE as written."""

    freq: str
    interval: int = 1
    count: int | None = None
    until: Moment | None = None
    week_start: int = 0  # Monday is 0
    days: tuple[tuple[int, int], ...] = ()  # (weekday, which of its period; 0: each)
    by: dict[str, tuple[int, ...]] = field(default_factory=dict, hash=False)


@value(slots=True)
class Recurrences:
    start: Moment | None  # DTSTART
    rules: tuple[tuple[FieldToken, Recur], ...]
    added: tuple[Moment, ...]  # RDATE
    removed: tuple[Moment, ...]  # EXDATE
    days_added: tuple[int, ...] = ()  # RDATE without a time, days since 1970: at the time of DTSTART
    days_removed: tuple[int, ...] = ()  # EXDATE without a time: nothing is due on these days


def is_rrule(expression: str) -> bool:
    return _START.match(expression) is not None


def parse_rrule(expression: str) -> Recurrences:
    """Parse lines separated by white space, which may be folded; a bare ``FREQ=…`` is an RRULE."""
    expression = _FOLD.sub("", expression)
    start: Moment | None = None
    dated = False  # DTSTART is a date without a time
    rules: list[tuple[FieldToken, Recur]] = []
    dates: dict[str, list[tuple[FieldToken, str | None]]] = {"RDATE": [], "EXDATE": []}
    for found in _LINES.finditer(expression):
        line = FieldToken(found[0], found.start(), expression)
        name, parameters, value = _property(line)
        if name == "RRULE" and not parameters:
            rules.append((value, _recur(value)))
        elif name == "DTSTART" and start is None:
            start, dated = _stamp(value, _zone(line, parameters)), _is_date(value)
        elif name in dates:
            zone = _zone(line, parameters)
            dates[name] += [(date, zone) for date in value.split(",")]
        else:
            line.fail(f"{line.text[:20]!r} cannot stand here", "give one DTSTART, then RRULE, RDATE and EXDATE lines")
    if not rules and not dates["RDATE"] and start is None:
        FieldToken(expression, 0, expression).fail("nothing recurs here", "add an RRULE or a DTSTART")
    _check_until(rules, dated=dated)
    timed = bool(rules or start) and not dated  # what recurs has a time of day
    added, days_added = _dates(dates["RDATE"], timed=timed)
    removed, days_removed = _dates(dates["EXDATE"], timed=timed)
    if dated:
        for token in (token for token, _ in dates["EXDATE"] if not _is_date(token)):
            token.fail("EXDATE has a time, but DTSTART is a date", f"write {_day_of(token.text)}")
    return Recurrences(start, tuple(rules), added, removed, days_added, days_removed)


def _is_date(token: FieldToken) -> bool:
    return "T" not in token.text.upper()


def _check_until(rules: list[tuple[FieldToken, Recur]], *, dated: bool) -> None:
    """UNTIL is of DTSTART's kind: a date beside a date, else a moment."""
    for part in (part for token, _ in rules for part in token.split(";")):
        name, _, until = part.text.upper().partition("=")
        if name != "UNTIL" or ("T" in until) is not dated:
            continue
        if not dated:
            part.fail("UNTIL is a date, but DTSTART has a time", f"write UNTIL={until}T235959, the last day")
        day = _day_of(until, ", the last day" + (" in UTC" if until.endswith("Z") else ""))
        part.fail("UNTIL has a time, but DTSTART is a date", f"write UNTIL={day}")


def _day_of(moment: str, role: str = "") -> str:
    """The day to write in a moment's place; one in UTC may be another day where the rule is read."""
    in_utc = moment.upper().endswith("Z")
    return f"{moment[:8]}{role}" + (", or the day that it is in your zone" if in_utc else "")


def _dates(given: list[tuple[FieldToken, str | None]], *, timed: bool) -> tuple[tuple[Moment, ...], tuple[int, ...]]:
    """Moments, and beside times of day the days (since 1970) of dates without one: days of DTSTART's zone."""
    moments, days = list[Moment](), list[int]()
    for token, zone in given:
        if not timed or not _is_date(token):
            moments.append(_stamp(token, zone))
        elif zone is not None:
            token.fail("a date without a time is a day of DTSTART's zone", "leave out TZID, or give the date a time")
        else:
            days.append(_stamp(token, None).second // 86400)
    return tuple(moments), tuple(days)


def _property(line: FieldToken) -> tuple[str, list[str], FieldToken]:
    if line.text.upper().startswith("FREQ="):
        return "RRULE", [], line
    found = _LINE.fullmatch(line.text)
    if found is None:
        line.fail(f"{line.text[:20]!r} is not a line of a recurrence rule", "write RRULE:FREQ=DAILY;INTERVAL=2")
    value = FieldToken(found["value"], line.position + found.start("value"), line.expression)
    return found["name"].upper(), found["parameters"].split(";")[1:], value


def _zone(line: FieldToken, parameters: list[str]) -> str | None:
    """The zone of a TZID parameter."""
    zone = None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        value = value.removeprefix('"').removesuffix('"')
        if name.upper() == "TZID":
            value = value if value in zones.names() else windows.ZONES.get(value, value)
            zones.check_name(value)
            zone = value
        elif name.upper() != "VALUE" or value.upper() not in ("DATE", "DATE-TIME"):
            line.fail(f"the parameter {parameter!r} is not supported", "use TZID=, VALUE=DATE or VALUE=DATE-TIME")
    return zone


def _stamp(token: FieldToken, zone: str | None) -> Moment:
    found = _STAMP.fullmatch(token.text.upper())
    if found is None:
        token.fail(f"{token.text!r} is not a date or date-time", "write 20261224, 20261224T180000 or 20261224T180000Z")
    year, month, day, hour, minute, second, utc = found.groups()
    text = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}"
    return moment_of(token, text, "UTC" if utc else zone)


def _recur(token: FieldToken) -> Recur:
    parts: dict[str, FieldToken] = {}
    for part in token.split(";"):
        name, equals, value = part.text.upper().partition("=")
        if name not in _PARTS or not equals or name in parts:
            part.fail(f"{part.text!r} cannot stand here", "give each part once: " + ", ".join(_PARTS))
        parts[name] = FieldToken(value, part.position + len(name) + 1, part.expression)
    freq = parts.get("FREQ")
    if freq is None or freq.text not in FREQUENCIES:
        (freq or token).fail(
            "the frequency is missing or unknown", "begin with FREQ= and one of " + ", ".join(FREQUENCIES)
        )
    start = parts.get("WKST")
    if start and start.text not in WEEKDAYS:
        start.fail(f"{start.text!r} is not a weekday", "give MO, TU … SU")
    by = {name: _numbers(parts[name], name) for name in _RANGES if name in parts}
    days = _days(parts["BYDAY"]) if "BYDAY" in parts else ()
    _check_combination(parts, freq.text, by, days)
    return Recur(
        freq=freq.text,
        interval=_integer(parts["INTERVAL"], "INTERVAL", 1, CENTURY // FREQUENCIES[freq.text])
        if "INTERVAL" in parts
        else 1,
        count=_integer(parts["COUNT"], "COUNT", 1, MOST) if "COUNT" in parts else None,
        until=_stamp(parts["UNTIL"], None) if "UNTIL" in parts else None,
        week_start=WEEKDAYS[start.text] if start else 0,
        days=days,
        by=by,
    )


def _check_combination(
    parts: dict[str, FieldToken], freq: str, by: dict[str, tuple[int, ...]], days: tuple[tuple[int, int], ...]
) -> None:
    if "COUNT" in parts and "UNTIL" in parts:
        parts["COUNT"].fail("COUNT and UNTIL exclude each other", "keep one of the two")
    for name, allowed in _ONLY_WITH.items():
        if name in by and freq not in allowed:
            parts[name].fail(f"{name} has no meaning with FREQ={freq}", "use it with FREQ=" + " or ".join(allowed))
    if "BYMONTHDAY" in by and freq == "WEEKLY":
        parts["BYMONTHDAY"].fail("BYMONTHDAY has no meaning with FREQ=WEEKLY", "use FREQ=MONTHLY or FREQ=DAILY")
    if any(which for _, which in days) and (freq not in ("MONTHLY", "YEARLY") or "BYWEEKNO" in by):
        parts["BYDAY"].fail(
            "a numbered weekday needs months or years to count in", "use FREQ=MONTHLY or FREQ=YEARLY, without BYWEEKNO"
        )
    if "BYSETPOS" in by and len(by) == 1 and not days:
        parts["BYSETPOS"].fail("BYSETPOS picks from a set, and there is none", "add another BY part, for example BYDAY")


def _integer(token: FieldToken, name: str, low: int, high: int) -> int:
    if not _SIGNED.fullmatch(token.text) or not low <= int(token.text) <= high:
        token.fail(f"{name}: {token.text!r} is not a whole number from {low} to {high}", f"give {low} to {high}")
    return int(token.text)


def _numbers(token: FieldToken, name: str) -> tuple[int, ...]:
    low, high, from_end = _RANGES[name]
    found = set()
    for part in token.split(","):
        value = _integer(part, name, -high if from_end else low, high)
        if from_end and value == 0:
            part.fail(f"{name} counts from 1, or from -1 backwards", f"give 1 to {high} or -1 to -{high}")
        found.add(value)
    return tuple(sorted(found))


def _days(token: FieldToken) -> tuple[tuple[int, int], ...]:
    found = set()
    for part in token.split(","):
        day = _DAY.fullmatch(part.text)
        which = int(day[1] or 0) if day else 0
        if day is None or not -53 <= which <= 53 or (day[1] and which == 0):
            part.fail(f"{part.text!r} is not a weekday", "give MO, TU … SU, perhaps numbered: 1MO, -1FR")
        found.add((WEEKDAYS[day[2]], which))
    return tuple(sorted(found))
