"""Times and durations as people type and read them.

Typed, a time is ISO 8601, a time from now such as ``-3h``, or a day with a time of day such as ``tomorrow 09:00``; a duration is ``90``,
``90s``, ``5m``, ``1h30m`` or ``2d``. Printed, a time has its day, its zone, and its distance from now.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from quarterjack.errors import InvalidInput
from quarterjack.terminal import relative, span

if TYPE_CHECKING:
    from quarterjack.sdk.views import Run

# Seconds of a unit. A day has 24 hours, also where a clock is put forward.
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
FORMS = "90s, 5m, 1h30m or 2d"  # for remedies
_PART = r"\d{1,12}(?:\.\d{1,9})?(?:ms|[smhdw])"
_DURATION = rf"(?:{_PART})+"  # without a sign
_PARTS = re.compile(r"([\d.]+)(ms|[smhdw])", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_WHOLE = re.compile(rf"(-?)({_DURATION})", re.IGNORECASE | re.ASCII)
_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DAY = re.compile(rf"({'|'.join(_DAYS)})(?:[ T](\d{{1,2}}):(\d\d)(?::(\d\d))?)?", re.IGNORECASE | re.ASCII)
_FROM_NOW = re.compile(rf"([-+]?)({_DURATION})", re.IGNORECASE | re.ASCII)
_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?", re.ASCII)
WORDS = "now, -3d, +1h, yesterday, 'tomorrow 09:00'"


def parse_duration(text: str) -> float | None:
    """Seconds: a number without a unit is seconds, too. A leading minus negates all of it. None: it is no duration."""
    if _NUMBER.fullmatch(text):
        return float(text)
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(found[2].lower()))
    return -seconds if found[1] else seconds


def duration_words(seconds: float) -> str:
    """Seconds in the largest unit that needs no fraction, such as ``2m``."""
    if not seconds or seconds % 1:
        return f"{seconds:g}s"
    unit = [unit for unit, length in _UNITS.items() if length >= 1 and seconds % length == 0][-1]
    return f"{int(seconds // _UNITS[unit])}{unit}"


@dataclass(frozen=True)
class ReadTime:
    """A time, and whether its text meant it in a zone that it did not name."""

    moment: datetime  # aware
    in_zone: bool = False


def is_relative(text: str) -> bool:
    """Whether the time that ``text`` means depends on now."""
    return any(form.fullmatch(text) for form in (_FROM_NOW, _DAY, _OF_DAY)) or text.lower() == "now"


def is_ago(word: str) -> bool:
    """Whether a word of a command line, which begins with a hyphen as an option does, is a time ago."""
    return word.startswith("-") and _FROM_NOW.fullmatch(word) is not None


def needs_zone(text: str, *, time_of_day: bool = False) -> bool:
    """Whether the time that ``text`` means depends on a zone that it does not name."""
    if time_of_day and _OF_DAY.fullmatch(text):
        return True
    return _DAY.fullmatch(text) is not None or ((found := _iso(text)) is not None and found.tzinfo is None)


def read_time(
    text: str,
    field: str,
    now: datetime,
    *,
    zone: tzinfo | None = None,
    is_named: bool = False,
    option: str = "--zone",
    unsigned: str = "",
    time_of_day: bool = False,
) -> ReadTime:
    """A time argument. Raises InvalidInput, which names ``field``.

    It is ISO 8601 with an offset or ``Z``; ``now``; a duration before (``-3h``) or after now (``+1h``); or ``yesterday``, ``today`` or
    ``tomorrow`` with a time of day, else at midnight, in ``zone`` (None: this machine's). ``unsigned`` is the sign of a duration
    that has none; without it such a duration is refused. ISO 8601 without an offset is in the zone if the user has given one
    (``is_named``, by ``option``), else refused: a script that leaves it out would mean another time on another machine. With
    ``time_of_day`` a time such as ``09:00`` is the last one before now.
    """
    try:
        if text.lower() == "now":
            return ReadTime(now)
        if found := _FROM_NOW.fullmatch(text):
            return ReadTime(_from_now(found, field, now, unsigned))
        if found := _DAY.fullmatch(text):
            return ReadTime(_in(_of_day(found, field, now.astimezone(zone)), zone), in_zone=True)
        if time_of_day and _OF_DAY.fullmatch(text):
            return ReadTime(_last(text, field, now, zone), in_zone=True)
        moment = _iso(text)
        if moment is None:
            remedy = f"write e.g. 2026-12-24T18:00:00Z, or {WORDS}"
            if _OF_DAY.fullmatch(text):
                remedy = f"name its day, as in 'today {text}' or 'tomorrow {text}'"
            raise InvalidInput(field, text, "is not a date and time", remedy)
        if moment.tzinfo is not None:
            return ReadTime(moment)
        if not is_named:
            example = text if ":" in text else f"{text}T00:00:00"  # a Z behind a date alone is no ISO 8601
            raise InvalidInput(
                field, text, "has no time zone", f"write e.g. {example}Z, or give {option} Europe/Berlin"
            )
        return ReadTime(_in(moment, zone), in_zone=True)
    except OverflowError:
        raise InvalidInput(field, text, "is too far from now", "write a nearer time, e.g. -90d") from None


def _from_now(found: re.Match[str], field: str, now: datetime, unsigned: str) -> datetime:
    text, sign = found[0], found[1] or unsigned
    if not sign:
        remedy = f"write -{text} for a time ago, or +{text} for a time to come"
        raise InvalidInput(field, text, "may be before or after now", remedy)
    seconds = parse_duration(found[2]) or 0.0
    return now + timedelta(seconds=-seconds if sign == "-" else seconds)


def _of_day(found: re.Match[str], field: str, today: datetime) -> datetime:
    """The wall time that a day and a time of day name, without a zone."""
    day = today.date() + timedelta(days=_DAYS[found[1].lower()])
    hour, minute, second = (int(part or 0) for part in found.groups()[1:])
    try:
        return datetime(day.year, day.month, day.day, hour, minute, second)  # noqa: DTZ001 (the zone follows)
    except ValueError:
        raise InvalidInput(field, found[0], "is not a time of day", f"write e.g. '{found[1]} 09:00'") from None


def _last(text: str, field: str, now: datetime, zone: tzinfo | None) -> datetime:
    """The last instant before now at which a clock in the zone showed this time of day."""
    for day in ("today", "yesterday"):
        if (found := _DAY.fullmatch(f"{day} {text}")) is None:
            break
        moment = _in(_of_day(found, field, now.astimezone(zone)), zone)
        if moment <= now:
            return moment
    raise InvalidInput(field, text, "is not a time of day", "write e.g. 09:00")


def _iso(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _in(wall: datetime, zone: tzinfo | None) -> datetime:
    """A wall time in a zone; of two, the first, and one that a clock change skips as if the clock had not changed."""
    local = wall.replace(tzinfo=zone) if zone is not None else wall.astimezone()
    return local.astimezone(UTC).astimezone(zone)


def away(moment: datetime | None) -> str:
    """How far away it is, as ``in 1 d 6 h`` or ``3 min ago``; nothing for None."""
    return "" if moment is None else relative(moment, datetime.now(UTC))


def day_and_time(moment: datetime) -> str:
    """Weekday, date, time and zone, as ``Mon 2026-11-23 09:00 CET``; seconds only if there are some."""
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment:%a %Y-%m-%d} {clock} {moment.tzname() or moment.strftime('%z')}"


def fire(moment: datetime | None) -> str:
    """A fire with all of it: ``Mon 2026-11-23 09:00 CET (in 1 d 6 h)``; nothing for None."""
    return "" if moment is None else f"{day_and_time(moment)} ({away(moment)})"


def lateness(run: Run) -> str:
    """How late a run began. A backfill's run is none of the scheduler's delays: it says so instead."""
    if run.backfill is not None:
        return "backfill"
    return "" if run.lateness is None else span(run.lateness)


def in_short(field: str) -> Callable[[Any], str]:
    """A cell with an instant of an item, for little room: ``11-23 09:00:00Z``, with the year if it is another one than now."""

    def cell(item: Any) -> str:
        moment: datetime | None = getattr(item, field)
        if moment is None:
            return ""
        utc = moment.astimezone(UTC)
        return f"{utc:%m-%d %H:%M:%S}Z" if utc.year == datetime.now(UTC).year else f"{utc:%Y-%m-%d %H:%M:%S}Z"

    return cell


def with_anchor(cursor: str, anchor: int | None) -> str:
    """A cursor to print, from which relative times are read again as before."""
    return cursor if anchor is None else f"{cursor}@{anchor}"
