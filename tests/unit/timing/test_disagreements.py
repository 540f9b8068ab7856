"""Every known disagreement with another implementation, with who is right and why.

docs/explanation/time.md refers to this file. When a peer changes its mind a test here fails.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim
from dateutil.rrule import rrulestr

from tests.support.timing.expressions import ask, at, refused, short

BERLIN = "Europe/Berlin"


def by_croniter(expression: str, zone: str, after: str, count: int) -> list[str]:
    peer = croniter(expression, at(after).astimezone(ZoneInfo(zone)))
    return [short(peer.get_next(datetime)) for _ in range(count)]


def by_cronsim(expression: str, zone: str, after: str, count: int) -> list[str]:
    return [short(fire) for fire in islice(CronSim(expression, at(after).astimezone(ZoneInfo(zone))), count)]


def by_dateutil(text: str, count: int) -> list[str]:
    return [short(fire.replace(tzinfo=UTC)) for fire in islice(rrulestr(text), count)]


def test_croniter_fires_a_fixed_time_twice_in_a_repeated_hour() -> None:
    """Ours is right: Debian's cron and every user's nightly backup run once."""
    asked = ("30 2 * * *", BERLIN, "2026-10-24T12:00", 2)
    assert by_croniter(*asked) == ["10-25T02:30+02:00", "10-25T02:30+01:00"]
    assert ask(*asked) == ["10-25T02:30+02:00", "10-26T02:30+01:00"]


def test_croniter_invents_a_wildcard_fire_after_a_gap() -> None:
    """Ours is right: no clock ever shows 02:00 to 02:59 that day, and the expression asks for nothing else."""
    asked = ("*/20 2 * * *", BERLIN, "2026-03-29T00:00", 1)
    assert by_croniter(*asked) == ["03-29T03:00+02:00"]
    assert ask(*asked) == ["03-30T02:00+02:00"]


def test_croniter_reads_a_range_of_one_as_the_whole_field() -> None:
    """Ours is right: from 3 to 3 is 3."""
    assert by_croniter("0 0 3-3 * *", "UTC", "2026-01-01", 1) == ["01-02T00:00+00:00"]
    assert ask("0 0 3-3 * *", "UTC", "2026-01-01", 1) == ["01-03T00:00+00:00"]


def test_croniter_accepts_reversed_ranges() -> None:
    """A choice: it wraps around, Debian refuses; a typing error must not become a schedule."""
    assert by_croniter("0 0 * * 5-1", "UTC", "2026-01-01", 4)[3] == "01-05T00:00+00:00"
    assert "runs backwards" in refused("0 0 * * 5-1").problem


def test_croniter_accepts_what_never_matches_until_it_is_asked() -> None:
    """Ours is right: the user is at the keyboard when a schedule is made, and asleep when it is due."""
    assert croniter.is_valid("0 0 31 4 *")
    with pytest.raises(CroniterBadDateError):
        by_croniter("0 0 31 4 *", "UTC", "2026-01-01", 1)
    assert "never occurs" in refused("0 0 31 4 *").problem


def test_croniter_takes_either_day_although_one_field_begins_with_a_star() -> None:
    """Ours is Debian's rule and cronsim's."""
    assert by_croniter("0 0 */2 * MON", "UTC", "2026-01-01", 1) == ["01-03T00:00+00:00"]
    assert (
        by_cronsim("0 0 */2 * MON", "UTC", "2026-01-01", 1)
        == ask("0 0 */2 * MON", "UTC", "2026-01-01", 1)
        == ["01-05T00:00+00:00"]
    )


def test_cronsim_answers_with_the_past_when_asked_within_the_second_pass() -> None:
    """Ours is right: the next fire is later than the question."""
    asked = ("30 2 * * *", BERLIN, "2026-10-25T01:10", 1)
    assert by_cronsim(*asked) == ["10-25T02:30+02:00"]  # 00:30 UTC, forty minutes before the question
    assert ask(*asked) == ["10-26T02:30+01:00"]


# Africa/Khartoum          UTC          wall clock
#   1980-04-26   22:00        00:00 +02:00 → 01:00 +03:00 (April 27th, a Sunday)


def test_cronsim_lets_a_wildcard_fire_at_a_midnight_that_is_skipped() -> None:
    """Ours is right: no minute of hour 0 is shown that day."""
    asked = ("* 0 * * 0", "Africa/Khartoum", "1980-04-26T21:30", 1)
    assert by_cronsim(*asked) == ["04-27T00:00+02:00"]  # a time that does not exist
    assert ask(*asked) == ["05-04T00:00+03:00"]


def test_cronsim_reads_a_stepped_range_of_one_as_open_ended() -> None:
    """Ours is right: from 3 to 3 in steps of anything is 3; what is open-ended is written 3/4."""
    assert by_cronsim("0 3-3/4 * * *", "UTC", "2026-01-01T04:00", 1) == ["01-01T07:00+00:00"]
    assert ask("0 3-3/4 * * *", "UTC", "2026-01-01T04:00", 1) == ["01-02T03:00+00:00"]


def test_cronsim_counts_sunday_twice_in_an_open_ended_step() -> None:
    """A choice: its week runs from 0 to 7, ours ends with Saturday, and croniter's too."""
    assert by_cronsim("0 0 * * 5/2", "UTC", "2026-01-02", 1) == ["01-04T00:00+00:00"]
    assert (
        by_croniter("0 0 * * 5/2", "UTC", "2026-01-02", 1)
        == ask("0 0 * * 5/2", "UTC", "2026-01-02", 1)
        == ["01-09T00:00+00:00"]
    )


def test_cronsim_and_debian_take_a_step_without_a_star_for_a_set_time() -> None:
    """A choice: `0-6/2` repeats within the hours of a night, as `*/2` does, so it goes by the clock on the wall."""
    asked = ("0 0-6/2 * * *", BERLIN, "2026-03-29T00:30", 1)
    assert by_cronsim(*asked) == ["03-29T03:00+02:00"]
    assert ask(*asked) == ["03-29T04:00+02:00"]


def test_cronsim_has_no_policy_for_six_fields() -> None:
    """A choice: it treats six fields as wildcards; a nightly job with seconds is as nightly as one without."""
    asked = ("0 30 2 * * *", BERLIN, "2026-10-24T12:00", 2)
    assert by_cronsim(*asked) == ["10-25T02:30+02:00", "10-25T02:30+01:00"]
    assert ask(*asked) == ["10-25T02:30+02:00", "10-26T02:30+01:00"]


def test_dateutil_wants_plain_and_numbered_weekdays_at_once() -> None:
    """Ours is right: a BYDAY list is a list of days, RFC 5545 3.3.10."""
    text = "DTSTART:20260101T000000\nRRULE:FREQ=MONTHLY;BYDAY=SU,2MO"
    with pytest.raises(StopIteration):
        next(iter(rrulestr(text + ";UNTIL=20300101T000000")))
    assert ask(text, "UTC", "2026-01-01", 2) == ["01-04T00:00+00:00", "01-11T00:00+00:00"]


def test_dateutil_counts_positions_of_the_first_week_from_its_start() -> None:
    """Ours is right: BYSETPOS picks from the whole week, and only then is dropped what lies before DTSTART."""
    text = "DTSTART:20260107T090000\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1"  # DTSTART is a Wednesday
    assert by_dateutil(text, 2) == ["01-07T09:00+00:00", "01-12T09:00+00:00"]
    assert ask(text, "UTC", "2026-01-01", 2) == ["01-12T09:00+00:00", "01-19T09:00+00:00"]


def test_dateutil_forgets_the_start_of_a_set_without_a_rule() -> None:
    """Ours is right: DTSTART is the first instance, RFC 5545 3.8.5.2."""
    text = "DTSTART:20260101T090000\nRDATE:20260103T090000"
    assert by_dateutil(text, 1) == ["01-03T09:00+00:00"]
    assert ask(text, "UTC", "2025-12-31", 1) == ["01-01T09:00+00:00"]


@pytest.mark.parametrize(
    "nonsense", ["FREQ=DAILY;INTERVAL=0", "FREQ=YEARLY;BYMONTH=13", "FREQ=WEEKLY;BYMONTHDAY=3", "FREQ=DAILY;BYDAY=1MO"]
)
def test_dateutil_accepts_what_the_rfc_forbids(nonsense: str) -> None:
    """Ours is right: with the first two it spins for ever, and the others do not say what their author meant."""
    rrulestr(f"DTSTART:20260101T000000\nRRULE:{nonsense}")
    assert refused(f"DTSTART:20260101T000000\nRRULE:{nonsense}").position is not None


def test_dateutil_takes_a_date_as_the_midnight_that_begins_it() -> None:
    """A choice: RFC 5545 wants UNTIL to be of DTSTART's kind; that the last day is lost, its author would not guess."""
    text = "DTSTART:20260101T090000\nRRULE:FREQ=DAILY;UNTIL=20260102"
    assert by_dateutil(text, 9) == ["01-01T09:00+00:00"]
    assert "DTSTART has a time" in refused(text).problem
