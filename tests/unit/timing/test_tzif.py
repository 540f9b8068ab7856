"""Zone files, built by hand where the database has no such case any more."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

from quarterjack.timing.zones import tzif
from quarterjack.timing.zones.zone import ZoneRules


def zone_file(times: list[int], kinds: list[int], offsets: list[int], footer: str) -> bytes:
    """A file of version 2 whose 32-bit block is empty."""
    names = b"X\0"
    body = struct.pack(f">{len(times)}q", *times) + bytes(kinds)
    body += b"".join(struct.pack(">ibB", offset, 0, 0) for offset in offsets) + names
    old = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 2) + struct.pack(">ibB", 0, 0, 0) + names
    new = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, len(times), len(offsets), len(names))
    return old + new + body + b"\n" + footer.encode() + b"\n"


def second(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp())


def test_entries_that_change_no_offset_are_dropped_but_hold_back_the_yearly_rule() -> None:
    times = [second(2000, 6, 1), second(2010, 6, 1)]
    changes = tzif.read(zone_file(times, [1, 1], [0, 3600], "AAA-1BBB,M3.5.0,M10.5.0/3"))
    assert changes.instants == times[:1]
    assert changes.offsets == [0, 3600]
    zone = ZoneRules("Test/Zone", changes)
    # in force from June 2010: standard time already, so the rule has nothing to change before March 2011
    assert [instant for instant, _, _ in zone.changes(0, second(2011, 6, 1))] == [times[0], second(2011, 3, 27, 1)]


def test_a_zone_without_a_list_follows_its_rule_from_the_beginning() -> None:
    zone = ZoneRules("Test/Zone", tzif.read(zone_file([], [], [3600], "AAA-1BBB,M3.5.0,M10.5.0/3")))
    assert zone.offset(second(1950, 1, 1)) == 3600
    assert zone.offset(second(1950, 7, 1)) == 7200


def test_days_of_the_year_may_stand_in_a_yearly_rule() -> None:
    leap, common = 2028, 2027
    without_leap_day = tzif.Yearly("J60", 0, 3600)  # always March 1st
    with_leap_day = tzif.Yearly("59/0", 0, 3600)  # the 60th day: February 29th or March 1st
    assert without_leap_day.instant(leap) == second(leap, 3, 1, 2)
    assert without_leap_day.instant(common) == second(common, 3, 1, 2)
    assert with_leap_day.instant(leap) == second(leap, 2, 29)
    assert with_leap_day.instant(common) == second(common, 3, 1)


def test_negative_and_long_times_of_change_are_understood() -> None:
    early, late = tzif.Yearly("M3.5.0/-1", 0, 3600), tzif.Yearly("M9.1.6/24:30", 0, 3600)
    assert early.instant(2026) == second(2026, 3, 28, 23)
    assert late.instant(2026) == second(2026, 9, 6) + 1800


def test_offsets_of_a_footer_count_westwards_and_may_have_minutes() -> None:
    summer, winter = tzif.read(zone_file([], [], [0], "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45")).yearly or (
        None,
        None,
    )
    assert summer is not None
    assert winter is not None
    assert (summer.before, summer.after) == (45900, 49500)
    assert (winter.before, winter.after) == (49500, 45900)
    named = tzif.read(zone_file([], [], [0], "IST-1GMT0,M10.5.0,M3.5.0/1")).yearly or (None, None)
    assert named[0] is not None
    assert (named[0].before, named[0].after) == (3600, 0)


def test_a_footer_without_a_rule_means_that_nothing_changes_any_more() -> None:
    assert tzif.read(zone_file([], [], [0], "UTC0")).yearly is None
    assert tzif.read(zone_file([], [], [0], "")).yearly is None
