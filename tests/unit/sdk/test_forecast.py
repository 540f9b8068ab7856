"""The forecast: the fires of all schedules in spans of time, equal to what each schedule's own preview says."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from quarterjack import Rule
from quarterjack.errors import ExpressionError, InvalidInput
from quarterjack.sdk.schedules import forecast as forecasting
from quarterjack.sdk.schedules.forecast_views import Forecast

from tests.support.arguments import untyped
from tests.support.scenes.world import START, Faults, World

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)  # Berlin's clocks go from 02:00 to 03:00


def with_schedules(*expressions: str, at: datetime = START, **more: Any) -> World:
    world = World(at=at)
    for number, expression in enumerate(expressions):
        world.scheduler.create_schedule(f"s{number}", "note", expression, **more)
    return world


def hours(found: Forecast) -> dict[str, int]:
    return {f"{span.start:%d %H:%M %z}": span.fires for span in found.spans if span.fires}


def test_the_next_day_by_the_hour() -> None:
    found = with_schedules("0 * * * *", "15,45 2 * * *", "0 0 1 1 *").scheduler.forecast()
    assert (found.since, found.until, found.timezone, found.by) == (START, START + DAY, "UTC", "hour")
    assert [span.fires for span in found.spans] == [*[0], *[1] * 13, 3, *[1] * 9], "what is due now was claimed already"
    assert found.spans[14].start == datetime(2026, 5, 5, 2, tzinfo=UTC)
    assert all(one.end == two.start for one, two in zip(found.spans, found.spans[1:], strict=False))
    assert (found.fires, found.firing, found.looked_at, found.cursor) == (25, 2, 3, None)
    assert [(one.name, one.fires, one.first) for one in found.schedules] == [
        ("s0", 23, START + HOUR),
        ("s1", 2, datetime(2026, 5, 5, 2, 15, tzinfo=UTC)),
    ]


def test_what_runs_during_maintenance() -> None:
    world = with_schedules("30 2 * * *", "0 4 * * *", "*/20 * * * *", timezone=BERLIN)
    begin = datetime(2026, 5, 5, 2, tzinfo=ZoneInfo(BERLIN))
    found = world.scheduler.forecast(since=begin, until=begin + 2 * HOUR, timezone=BERLIN)
    assert hours(found) == {"05 02:00 +0200": 4, "05 03:00 +0200": 3}
    assert [(one.name, f"{one.first:%H:%M}", one.first.tzinfo) for one in found.schedules] == [
        ("s2", "02:00", ZoneInfo(BERLIN)),
        ("s0", "02:30", ZoneInfo(BERLIN)),
    ], "04:00 is the end, which is excluded"


def test_an_hour_that_is_skipped_is_no_span_and_one_that_comes_twice_is_two() -> None:
    world = with_schedules("30 2 * * *", timezone=BERLIN, at=SPRING - 2 * HOUR)
    assert hours(world.scheduler.forecast(timezone=BERLIN)) == {"29 03:00 +0200": 1}
    assert len(world.scheduler.forecast(since=SPRING - HOUR, until=SPRING + HOUR, timezone=BERLIN).spans) == 2
    autumn = datetime(2026, 10, 25, 0, tzinfo=UTC)
    found = world.scheduler.forecast(since=autumn, until=autumn + 3 * HOUR, timezone=BERLIN)
    assert [f"{span.start:%H:%M %z}" for span in found.spans] == ["02:00 +0200", "02:00 +0100", "03:00 +0100"]
    assert [span.fires for span in found.spans] == [1, 0, 0]
    days = world.scheduler.forecast(since=autumn - 2 * HOUR, until=autumn + 46 * HOUR, timezone=BERLIN, by="day")
    assert [(span.end.astimezone(UTC) - span.start.astimezone(UTC)) / HOUR for span in days.spans] == [25, 23]


def test_the_hours_of_a_zone_whose_clocks_move_half_an_hour() -> None:
    change = datetime(2026, 4, 4, 15, tzinfo=UTC)  # Lord Howe's, from 02:00 to 01:30
    world = World(at=change - 2 * HOUR)
    found = world.scheduler.forecast(until=change + HOUR, timezone="Australia/Lord_Howe")
    assert [f"{span.start:%H:%M %z}" for span in found.spans] == [
        "00:00 +1100",
        "01:00 +1100",
        "01:30 +1030",
        "02:00 +1030",
    ]


def test_a_day_that_a_zone_leaves_out_is_no_span() -> None:
    world = World(at=datetime(2011, 12, 29, 12, tzinfo=UTC))  # Samoa had no 30 December 2011
    found = world.scheduler.forecast(until=datetime(2012, 1, 2, tzinfo=UTC), timezone="Pacific/Apia", by="day")
    assert [span.start.day for span in found.spans] == [29, 31, 1, 2]


def test_paused_schedules_fire_from_the_end_of_their_pause_on() -> None:
    world = with_schedules("0 * * * *", "0 * * * *", "0 * * * *", "rate(7 hours)")
    world.scheduler.pause_schedule("s0")
    world.scheduler.pause_schedule("s1", until=START + 20 * HOUR)
    world.scheduler.pause_schedule("s2", until=START + 40 * HOUR)
    world.scheduler.pause_schedule("s3", until=START + 10 * HOUR)
    found = world.scheduler.forecast()
    assert (found.paused, found.firing, found.looked_at) == (2, 2, 4)
    assert [(one.name, one.fires, one.first, one.resume_at) for one in found.schedules] == [
        ("s3", 2, START + 14 * HOUR, START + 10 * HOUR),
        ("s1", 4, START + 20 * HOUR, START + 20 * HOUR),
    ]
    world.live(11 * 3_600)
    assert world.scheduler.preview("s3", 1) == [START + 14 * HOUR], "as it was foretold"


def test_schedules_that_are_over_or_deleted_do_not_fire_and_a_freeze_is_told() -> None:
    world = with_schedules("0 * * * *", "0 * * * *")
    world.scheduler.delete_schedule("s0")
    world.scheduler.freeze(START + HOUR)
    found = world.scheduler.forecast()
    assert (found.firing, found.frozen_until) == (1, START + HOUR)
    assert found.fires == 23, "a freeze delays runs, not fires"


def test_conditions_are_those_of_the_list() -> None:
    world = World()
    world.scheduler.create_schedule("eu/a", "note", "0 * * * *", tags={"team": "a"})
    world.scheduler.upsert_schedule("eu/b", "bad", "0 * * * *", managed_by="shop")
    world.scheduler.create_schedule("us/a", "note", "0 * * * *")

    def names(**conditions: Any) -> list[str]:
        return [one.name for one in world.scheduler.forecast(**conditions).schedules]

    assert names(prefix="eu/") == ["eu/a", "eu/b"]
    assert names(contains="/a") == ["eu/a", "us/a"]
    assert names(job="bad") == names(managed_by="shop") == ["eu/b"]
    assert names(tag=("team", "a")) == ["eu/a"]
    assert names(failing=True) == []


def test_the_list_is_cut_and_the_count_is_not() -> None:
    found = with_schedules("5 * * * *", "3 * * * *", "4 * * * *").scheduler.forecast(listed=2)
    assert [one.name for one in found.schedules] == ["s1", "s2"]
    assert (found.firing, found.fires) == (3, 72)
    assert with_schedules("5 * * * *").scheduler.forecast(listed=0).schedules == []


def test_a_long_forecast_goes_on_behind_its_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_schedules(*["0 * * * *"] * 7)
    found, names, cursor = 0, list[str](), None
    for _ in range(4):
        page = world.scheduler.forecast(limit=2, cursor=cursor)
        found, names, cursor = found + page.fires, names + [one.name for one in page.schedules], page.cursor
    assert (found, names, cursor) == (7 * 23, [f"s{n}" for n in range(7)], None)
    monkeypatch.setattr(forecasting, "_STEPS", 1)
    page = world.scheduler.forecast()
    assert page.looked_at < 7
    assert page.cursor is not None
    rest = world.scheduler.forecast(cursor=page.cursor)
    assert rest.schedules[0].name == f"s{page.looked_at}"
    with pytest.raises(InvalidInput, match="cursor"):
        world.scheduler.forecast(cursor=page.cursor, prefix="s")


def test_a_schedule_that_is_too_dense_is_named_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_schedules("0 * * * *")
    world.scheduler.create_schedule("dense", "note", Rule.of("* * * * * *", exclude=["5 5 5 * * *"]))
    monkeypatch.setattr(forecasting, "_STEPS_OF_ONE", 1_000)
    found = world.scheduler.forecast()
    assert (found.uncounted, found.fires, found.firing) == (["dense"], 23, 1)


def test_a_schedule_without_a_further_day_is_named_too() -> None:
    world = World()
    world.scheduler.create_schedule("s0", "note", Rule.of("0 9 * * *", exclude=["cron(* * * * ? 2027-2199)"]))
    found = world.scheduler.forecast(since=START + 300 * DAY)
    assert (found.uncounted, found.fires) == (["s0"], 0)


def test_heads_are_enough_unless_a_rule_is_long() -> None:
    world = with_schedules("0 9 * * *", "rate(5 minutes)", "H H * * *")
    world.scheduler.create_schedule(
        "moved", "note", Rule.of(["0 9 * * *", "5 9 * * *"], exclude=["weekends"], jitter=60)
    )
    faults = Faults()
    assert world.owner(faults).forecast().firing == 4
    assert faults.verbs().count("page") == 1
    assert len(faults.calls) <= 2, "the page of heads, and the freeze"
    days = [f"2026-05-{day:02}" for day in range(6, 32)] + [f"2027-{month:02}-01" for month in range(1, 13)]
    world.scheduler.create_schedule("long", "note", Rule.of("0 10 * * *", exclude=days))
    faults = Faults()
    assert world.owner(faults).forecast().firing == 5
    assert len(faults.calls) <= 3, "and the revision of that one"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"until": START}, "until"),
        ({"until": START - DAY, "since": START - 2 * DAY}, "until"),
        ({"since": "tomorrow"}, "since"),
        ({"by": "month"}, "by"),
        ({"by": "minute", "until": START + 26 * HOUR}, "by"),
        ({"until": START + 63 * DAY}, "by"),
        ({"by": "day", "until": START + 401 * DAY}, "by"),
        ({"timezone": "Berlin"}, "timezone"),
        ({"listed": 1_001}, "listed"),
        ({"limit": 10_001}, "limit"),
        ({"limit": 0}, "limit"),
    ],
)
def test_what_cannot_be_asked(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises((InvalidInput, ExpressionError)) as caught:
        untyped(World().scheduler).forecast(**arguments)
    assert caught.value.field == field
    assert caught.value.remedy


def test_a_time_that_began_is_forecast_from_now_on() -> None:
    found = with_schedules("0 * * * *").scheduler.forecast(since=START - DAY, until=START + 2 * HOUR)
    assert found.since == START
    assert found.fires == 1


def instant(time: datetime) -> datetime:
    """Times of one zone are compared by its clock, which may repeat them."""
    return time.astimezone(UTC)


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kathmandu", "UTC"]
EXPRESSIONS = [
    "*/5 * * * *",
    "30 2 * * *",
    "0 0 * * *",
    "H H * * *",
    "H/15 * * * *",
    "0 9 L * *",
    "rate(50 minutes)",
    "cron(0/30 1-3 ? * 1,2 *)",
    "*/20 0-3 * * *",
    "DTSTART:20260101T023000 RRULE:FREQ=HOURLY;INTERVAL=5",
]
rules = st.fixed_dictionaries(
    {"expression": st.sampled_from(EXPRESSIONS), "timezone": st.sampled_from(ZONES)},
    optional={
        "exclude": st.sampled_from([["weekends"], ["* 2-3 * * *"], ["2026-03-29"]]),
        "on_excluded": st.sampled_from(["skip", "next_business_day", "previous_business_day"]),
        "calendar": st.sampled_from(["DE", "US"]),
        "gap": st.sampled_from(["next_valid", "skip", "shift"]),
        "repeated": st.sampled_from(["first", "second", "both"]),
        "window": st.sampled_from([60, 3_600]),
        "max_fires": st.sampled_from([3, 200]),
    },
)
CHANGES = [SPRING, SPRING + 210 * DAY, datetime(2026, 3, 8, 7, tzinfo=UTC), datetime(2026, 4, 4, 15, tzinfo=UTC)]
CHANGES += [
    datetime(2026, 4, 5, 3, tzinfo=UTC),
    datetime(2026, 9, 6, 4, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(rules, min_size=1, max_size=6),
    st.sampled_from(CHANGES),
    st.integers(0, 5 * 24 * 4),
    st.integers(1, 5 * 24),
    st.sampled_from(ZONES),
)
def test_it_is_what_the_schedules_preview(
    asked: list[dict[str, Any]], change: datetime, before: int, long: int, zone: str
) -> None:
    world = World(at=change - before * HOUR / 4)
    for number, words in enumerate(asked):
        try:
            world.scheduler.create_schedule(f"s{number}", "note", Rule(**words))
        except ExpressionError:  # it would never fire
            assume(False)
    until = world.at + long * HOUR
    found = world.scheduler.forecast(until=until, timezone=zone)
    wanted, of = Counter[datetime](), dict[str, list[datetime]]()
    for number in range(len(asked)):
        fires = [fire for fire in world.scheduler.preview(f"s{number}", 1_000) if fire < until]
        assume(len(fires) < 1_000)
        if fires:
            of[f"s{number}"] = fires
    for fires in of.values():
        for fire in fires:
            (span,) = [span for span in found.spans if instant(span.start) <= instant(fire) < instant(span.end)]
            wanted[instant(span.start)] += 1
    assert not found.uncounted
    assert {instant(span.start): span.fires for span in found.spans if span.fires} == dict(wanted)
    assert {one.name: (one.fires, one.first) for one in found.schedules} == {
        name: (len(fires), fires[0]) for name, fires in of.items()
    }
