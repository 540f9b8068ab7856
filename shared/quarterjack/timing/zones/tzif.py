"""Reads the compiled zone files of the IANA database (RFC 8536): ``zoneinfo`` has no interface for the changes of a zone.

Instants are UTC seconds, offsets seconds east of Greenwich.
"""

from __future__ import annotations

import re
import struct
from calendar import isleap, monthrange
from datetime import date

from quarterjack.values import value

NEVER_LISTED = -62_135_596_800  # year 1: a zone without a list follows its rule from the beginning
_EPOCH = date(1970, 1, 1).toordinal()
_HEADER = struct.Struct(">4s16x6I")  # magic, version and padding, then the six counts
_TYPE_SIZE = 6  # bytes of one local time type: offset, is it summer time, where its abbreviation stands
_OFFSET = r"([+-]?\d+)(?::(\d+))?(?::(\d+))?"
_NAME = r"(?:<[^>]+>|[A-Za-z]+)"
_FOOTER = re.compile(rf"{_NAME}{_OFFSET}(?:{_NAME}(?:{_OFFSET})?,([^,]+),([^,]+))?")
_CHANGE = re.compile(rf"(?:M(\d+)\.(\d+)\.(\d+)|(J?)(\d+))(?:/{_OFFSET})?")


@value(slots=True)
class ZoneChanges:
    """The contents of a zone file: the listed changes, and the yearly rule that applies after them."""

    instants: list[int]  # when the offset changes, ascending
    offsets: list[int]  # before the first change, then after each: one more than ``instants``
    listed_until: int  # the last entry of the file, also if the offset stays the same; the yearly rule begins after it
    yearly: tuple[Yearly, Yearly] | None  # summer time begins, ends; None: no more changes


@value(slots=True)
class Yearly:
    rule: str  # as in POSIX TZ: ``M3.5.0/2``, ``J60``, ``59/2``
    before: int  # offset in force until then
    after: int  # offset from then on

    def instant(self, year: int) -> int:
        """When it happens in ``year``, UTC seconds."""
        found = _CHANGE.fullmatch(self.rule)
        assert found, self.rule
        month, week, weekday, julian, day, *clock = found.groups()
        if month:
            first = date(year, int(month), 1).toordinal()
            ordinal = first + (int(weekday) - first) % 7 + 7 * (int(week) - 1)  # 0 = Sunday; week 5 is the last
            ordinal -= 0 if ordinal - first < monthrange(year, int(month))[1] else 7
        else:  # Jn counts from 1 and never February 29th; n counts from 0 and does
            skipped = (1 - (isleap(year) and int(day) >= 60)) if julian else 0
            ordinal = date(year, 1, 1).toordinal() + int(day) - skipped
        return (ordinal - _EPOCH) * 86400 + (_seconds(clock) if clock[0] else 7200) - self.before


def read(data: bytes) -> ZoneChanges:
    """Parse one zone file of version 2 or later (the 64-bit block; the 32-bit one is skipped)."""
    start = _HEADER.size + _block_size(_HEADER.unpack_from(data)[1:], 4)
    magic, *counts = _HEADER.unpack_from(data, start)
    assert magic == b"TZif", "a zone file of version 1 has no 64-bit block"
    start += _HEADER.size
    times, types = counts[3], counts[4]
    instants = struct.unpack_from(f">{times}q", data, start)
    kinds = data[start + 8 * times : start + 9 * times]
    table = start + 9 * times
    known = [struct.unpack_from(">i", data, table + _TYPE_SIZE * n)[0] for n in range(types)]
    footer = data[start + _block_size(counts, 8) :].strip(b"\n").decode("ascii")
    listed, offsets = _only_changes(instants, [known[0], *(known[kind] for kind in kinds)])
    return ZoneChanges(listed, offsets, instants[-1] if instants else NEVER_LISTED, _yearly(footer))


def _block_size(counts: tuple[int, ...] | list[int], width: int) -> int:
    utc_flags, standard_flags, leaps, times, types, characters = counts
    return times * (width + 1) + types * _TYPE_SIZE + characters + leaps * (width + 4) + standard_flags + utc_flags


def _only_changes(instants: tuple[int, ...], offsets: list[int]) -> tuple[list[int], list[int]]:
    """Drop the entries that change only the abbreviation."""
    kept, values = [], offsets[:1]
    for instant, offset in zip(instants, offsets[1:], strict=True):
        if offset != values[-1]:
            kept.append(instant)
            values.append(offset)
    return kept, values


def _yearly(footer: str) -> tuple[Yearly, Yearly] | None:
    """``CET-1CEST,M3.5.0,M10.5.0/3``: POSIX counts offsets west of Greenwich, hence the minus signs."""
    found = _FOOTER.fullmatch(footer)
    if found is None or found[7] is None:
        return None
    standard = -_seconds(found.group(1, 2, 3))
    summer = -_seconds(found.group(4, 5, 6)) if found[4] else standard + 3600
    return Yearly(found[7], standard, summer), Yearly(found[8], summer, standard)


def _seconds(clock: tuple[str | None, ...] | list[str | None]) -> int:
    hours, minutes, seconds = (part or "0" for part in clock)
    total = abs(int(hours)) * 3600 + int(minutes) * 60 + int(seconds)
    return -total if hours.startswith("-") else total
