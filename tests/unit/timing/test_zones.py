"""Zone names and tables: the engine's own reading of the IANA files, against ``zoneinfo``."""

from __future__ import annotations

import copy
import pickle
import random
import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import pytest
from quarterjack.domain.times import from_ms
from quarterjack.errors import ExpressionError
from quarterjack.timing import next_fires, zone
from quarterjack.timing.expressions import pattern
from quarterjack.timing.timetables import moment
from quarterjack.timing.zones import zone as zones
from quarterjack.timing.zones.zone import FIRST_SECOND, LAST_SECOND, Gap, WallClock

from tests.support.timing.expressions import at, ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT", "GB"]
)
def test_names_of_the_database_are_zones(name: str) -> None:
    assert zone(name).key == name


@pytest.mark.parametrize(
    "name",
    [
        "localtime",
        "posixrules",
        "right/UTC",
        "posix/UTC",
        "+02:00",
        "UTC+2",
        "/etc/localtime",
        "../UTC",
        "Europe/../UTC",
        "europe/berlin",
        "EUROPE/BERLIN",
        "Europe/Berlin ",
        "Europe",
        "",
        "\x00",
        "x" * 10_000,
        "zone.tab",
        None,
        7,
        b"UTC",
        ["UTC"],
    ],
)
def test_anything_else_is_refused_as_a_time_zone(name: object) -> None:
    with pytest.raises(ExpressionError) as caught:
        zone(name)  # type: ignore[arg-type]
    assert caught.value.field == "timezone"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("US/Esatern", "US/Eastern"),
    ],
)
def test_near_names_are_suggested(name: str, near: str) -> None:
    with pytest.raises(ExpressionError, match=near):
        zone(name)


def test_a_refusal_without_a_near_name_says_what_a_name_looks_like() -> None:
    with pytest.raises(ExpressionError, match="give a name such as 'Europe/Berlin'"):
        zone("§§§")


def test_every_zone_has_the_offsets_that_zoneinfo_reads_from_the_same_file() -> None:
    rng = random.Random(3)
    for name in sorted(zones.names()):
        table, peer = zones.table(name), zones.packaged(name)
        changes = table.changes(-4_000_000_000, 2_500_000_000)
        seconds = [instant + delta for instant, _, _ in rng.sample(changes, min(6, len(changes))) for delta in (-1, 0)]
        seconds += [rng.randrange(-4_000_000_000, 8_000_000_000) for _ in range(4)]
        for second in seconds:
            offset = (EPOCH + timedelta(seconds=second)).astimezone(peer).utcoffset()
            assert timedelta(seconds=table.offset(second)) == offset, (name, second)


def test_a_table_grows_when_asked_beyond_its_horizon_and_ends_with_the_calendar() -> None:
    table = zones.ZoneRules("Europe/Berlin", zones.table("Europe/Berlin")._changes)
    short = table.reach(0)
    assert table.offset(ms("2300-07-01") // 1000) == 7200
    assert table.offset(ms("2300-01-01") // 1000) == 3600
    assert len(table.reach(0).starts) > len(short.starts)
    assert table.offset(LAST_SECOND) == 3600


@pytest.mark.parametrize("gap", ["next_valid", "skip", "shift"])
@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "America/Santiago", "Australia/Lord_Howe"])
def test_what_is_due_does_not_depend_on_how_far_the_table_goes(name: str, gap: Gap) -> None:
    """One table grows as it is asked, as that of a process that runs for years; the other has grown before."""
    changes = zones.table(name)._changes
    grown = zones.ZoneRules(name, changes)
    grown.reach(ms("2180-01-01") // 1000)
    for text in ("0 3 * * *", "*/45 * * * *", "0 3 1 * *", "0 0 1 1 *", "30 2 27 3 *", "15 2 10 3 *", "0 12 29 2 *"):
        for year in (2037, 2039, 2059, 2099):
            growing = zones.ZoneRules(name, changes)
            after = other = ms(f"{year}-12-27")
            for _ in range(40):
                found = WallClock(pattern(text, None), growing, gap, "first").next(after)
                expected = WallClock(pattern(text, None), grown, gap, "first").next(other)
                assert found == expected, (text, from_ms(after))
                assert expected is not None
                after = other = expected


def test_a_daily_schedule_goes_on_at_the_end_of_the_first_table() -> None:
    rules = zones.ZoneRules("Europe/Berlin", zones.table("Europe/Berlin")._changes)
    clock, after = WallClock(pattern("0 3 * * *", None), rules, "next_valid", "first"), ms("2039-12-30T12:00")
    days = []
    for _ in range(4):
        after = clock.next(after) or 0
        days.append(from_ms(after).strftime("%m-%d %H:%M"))
    assert days == ["12-31 02:00", "01-01 02:00", "01-02 02:00", "01-03 02:00"]


def test_no_gap_is_longer_than_the_segment_after_it() -> None:
    """``gap="shift"`` counts on that: a shifted fire still falls into the segment after its gap."""
    for name in zones.names():
        segments = zones.table(name).reach(0)
        for n in range(1, len(segments.starts) - 1):
            assert segments.opens[n] - segments.seen[n] <= segments.starts[n + 1] - segments.starts[n], name


# America/St_Johns         UTC          wall clock
#   2010-11-07   02:30:59     00:00:59 -02:30
#                02:31:00     23:01:00 -03:30 (November 6th)


def test_the_first_instant_that_shows_a_time_or_later() -> None:
    st_johns = zones.table("America/St_Johns")
    day = ms("2010-11-07") // 1000
    assert (
        st_johns.reaches(day) == ms("2010-11-07T02:30") // 1000
    )  # midnight is shown for a minute, then again an hour later
    assert st_johns.reaches(day + 120) == ms("2010-11-07T03:32") // 1000
    berlin = zones.table("Europe/Berlin")
    assert berlin.reaches(ms("2026-03-29T02:30") // 1000) == ms("2026-03-29T01:00") // 1000
    assert berlin.reaches(ms("2026-06-01T02:30") // 1000) == ms("2026-06-01T00:30") // 1000
    assert berlin.reaches(FIRST_SECOND) > FIRST_SECOND - 86400


def test_a_time_is_shown_once_or_is_the_first_or_second_of_two() -> None:
    berlin = zones.table("Europe/Berlin")
    shown = [
        berlin.showing(ms(f"2026-10-25T{clock}") // 1000)
        for clock in ("00:00", "00:59:59", "01:00", "01:59:59", "02:00")
    ]
    assert shown == ["first", "first", "second", "second", "once"]
    assert berlin.showing(ms("2026-10-24T23:59:59") // 1000) == "once"


def test_results_carry_the_zone_of_the_standard_library() -> None:
    (fire,) = next_fires("0 12 * * *", timezone="Europe/Berlin", after=at("2026-06-01"), count=1)
    assert fire.tzinfo is zoneinfo.ZoneInfo("Europe/Berlin")
    assert fire == datetime(2026, 6, 1, 12, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))


def test_results_show_the_engines_wall_clock_even_where_the_machines_rules_are_outdated(tmp_path: Path) -> None:
    tokyo = resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(tokyo)
    before = zoneinfo.TZPATH
    try:
        zoneinfo.reset_tzpath([str(tmp_path)])
        zoneinfo.ZoneInfo.clear_cache(only_keys=["Europe/Berlin"])
        fire = moment(ms("2026-06-01T10:00"), "Europe/Berlin")
    finally:
        zoneinfo.reset_tzpath(before)
        zoneinfo.ZoneInfo.clear_cache(only_keys=["Europe/Berlin"])
    assert fire.isoformat() == "2026-06-01T12:00:00+02:00"
    assert str(fire.tzinfo) == "Europe/Berlin"
    assert pickle.loads(pickle.dumps(fire)) == copy.deepcopy(fire) == fire
