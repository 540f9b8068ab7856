"""Conversion between aware datetimes (arguments, results) and UTC milliseconds (everything inside)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from minutehand.errors import ExpressionError
from minutehand.timing.zones import zone as zones

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(field: str, moment: object) -> int:
    """UTC milliseconds of an aware datetime; ``ExpressionError`` for anything else."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise ExpressionError(field, moment, "not a datetime with a time zone", "give datetime(..., tzinfo=UTC)")
    return (moment - _EPOCH) // _MILLISECOND


def moment(instant: int, zone: str = "UTC") -> datetime:
    """UTC milliseconds as a datetime in an IANA zone, by the rules of the ``tzdata`` package.

    Its ``tzinfo`` is ``ZoneInfo(zone)``, unless the machine's database has another offset at this instant.
    """
    utc = _EPOCH + timedelta(milliseconds=instant)
    shown = utc.astimezone(zones.zone(zone))
    if shown.utcoffset() == timedelta(seconds=zones.table(zone).offset(instant // 1000)):
        return shown
    return utc.astimezone(zones.packaged(zone))
