"""Times: integer UTC milliseconds inside, aware datetimes in arguments and results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from quarterjack.errors import InvalidInput

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Of what has a text in every zone: a day less at both ends of the calendar.
_FIRST, _END = (datetime(year, month, day, tzinfo=UTC) - _EPOCH for year, month, day in ((1, 1, 2), (9999, 12, 31)))
STAMP_DIGITS = 15  # enough until the year 33658; texts of one length sort as their numbers do


def to_ms(moment: datetime, field: str) -> int:
    """An aware datetime as UTC milliseconds. Raises InvalidInput, which names ``field``."""
    if not isinstance(moment, datetime):
        raise InvalidInput(field, moment, "is not a datetime", "pass an aware datetime.datetime")
    try:
        naive, since = moment.utcoffset() is None, moment - _EPOCH if moment.tzinfo else None
    except Exception as problem:  # a tzinfo of another library may raise anything
        raise InvalidInput(field, moment, "has a zone that fails", "pass a datetime in UTC") from problem
    if naive:
        raise InvalidInput(field, moment, "has no time zone", "pass an aware datetime, e.g. datetime(..., tzinfo=UTC)")
    if not isinstance(since, timedelta):  # pandas.NaT is an instance of datetime, but no instant
        raise InvalidInput(field, moment, "is not an instant", "pass an aware datetime.datetime")
    if not _FIRST <= since < _END:
        remedy = "pass a time from 0001-01-02 until 9999-12-30, in UTC"
        raise InvalidInput(field, moment, "is at the end of the calendar", remedy)
    return since // _MILLISECOND


def from_ms(ms: int, zone: tzinfo = UTC) -> datetime:
    """UTC milliseconds as an aware datetime in ``zone``."""
    return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)


def stamp(ms: int) -> str:
    """Zero-padded milliseconds, so that keys sort by time."""
    return f"{ms:0{STAMP_DIGITS}d}"
