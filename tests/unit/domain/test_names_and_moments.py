"""Names, keys and moments."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.names import check_name, fire_ref, is_text, one_off_ref, parse_run_id, schedule_owner
from quarterjack.domain.run import AgendaEntry, EntryKind, parse_entry_key
from quarterjack.domain.times import STAMP_DIGITS, from_ms, stamp, to_ms
from quarterjack.errors import InvalidInput

TENANTS = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9._:@/-]{1,200}", fullmatch=True)
TIMES = st.integers(0, 10**STAMP_DIGITS - 1)


@given(TENANTS, NAMES, TIMES)
def test_the_id_of_a_run_leads_back_to_it(tenant: str, name: str, fire: int) -> None:
    for ref in (fire_ref(schedule_owner(tenant, name), fire), one_off_ref(tenant, name)):
        assert parse_run_id(str(ref)) == ref
        assert ref.tenant == tenant


@given(TENANTS, NAMES, TENANTS, NAMES)
def test_no_two_owners_are_alike(tenant: str, name: str, other: str, other_name: str) -> None:
    one, two = schedule_owner(tenant, name), schedule_owner(other, other_name)
    assert (one == two) == ((tenant, name) == (other, other_name))
    assert one != one_off_ref(other, other_name).owner, "and none is a one-off's"


@given(st.text())
def test_whatever_is_no_run_id_is_refused_by_name(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert str(parse_run_id(text)) == text


@given(TIMES, TIMES)
def test_stamps_sort_as_their_times(one: int, other: int) -> None:
    assert (stamp(one) < stamp(other)) == (one < other)
    assert len(stamp(one)) == STAMP_DIGITS
    assert int(stamp(one)) == one


@given(TIMES, st.sampled_from(EntryKind), st.text("abc/~#0123456789", min_size=1))
def test_the_key_of_an_entry_leads_back_to_it(due: int, kind: EntryKind, identity: str) -> None:
    entry = AgendaEntry(shard=0, due=due, kind=kind, id=identity)
    assert parse_entry_key(entry.key) == (due, kind, identity)


def test_entries_of_runs_know_their_run() -> None:
    ref = one_off_ref("acme", "k")
    assert AgendaEntry(shard=0, due=0, kind=EntryKind.RUN, id=str(ref)).run == ref
    assert AgendaEntry(shard=0, due=0, kind=EntryKind.WATCH, id=f"{ref}#token").run == ref


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.timezones()))  # noqa: DTZ001 (bounds are naive)
def test_a_moment_is_the_same_whatever_its_zone(moment: datetime) -> None:
    ms = to_ms(moment, "x")
    assert from_ms(ms) - moment.astimezone(UTC) <= timedelta(0)
    assert moment.astimezone(UTC) - from_ms(ms) < timedelta(milliseconds=1)
    assert to_ms(from_ms(ms, ZoneInfo("Europe/Berlin")), "x") == ms


def test_both_halves_of_a_repeated_hour_are_told_apart() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    assert to_ms(first.replace(fold=1), "x") - to_ms(first, "x") == 3_600_000


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        datetime(1, 1, 1, 23, 59, tzinfo=UTC),
        datetime(9999, 12, 31, tzinfo=UTC),
    ],
)
def test_the_ends_of_the_calendar_are_refused_by_name(moment: datetime) -> None:
    with pytest.raises(InvalidInput, match=r"^since=.* end of the calendar; pass a time from 0001-01-02"):
        to_ms(moment, "since")


@pytest.mark.parametrize("moment", [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, tzinfo=UTC)])
@pytest.mark.parametrize("hours", [-23, 14, 23])
def test_what_is_not_at_the_ends_has_a_text_in_every_zone(moment: datetime, hours: int) -> None:
    assert from_ms(to_ms(moment, "since"), timezone(timedelta(hours=hours))) == moment


@pytest.mark.parametrize("given_", [datetime(2026, 1, 1), "2026-01-01", 5, None])  # noqa: DTZ001 (that is the point)
def test_what_is_no_aware_datetime_is_refused_by_name(given_: object) -> None:
    with pytest.raises(InvalidInput, match=r"^run_at="):
        to_ms(given_, "run_at")  # type: ignore[arg-type]


def test_an_offset_is_zone_enough() -> None:
    assert to_ms(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "x") == 0


@pytest.mark.parametrize("text", ["", "x", "ä", "\U0001f600", "x" * 10])
def test_text_is_text(text: str) -> None:
    assert is_text(text, 10)


@pytest.mark.parametrize("other", [None, 5, b"x", "x" * 11, "\ud83d", "a\udc80"])
def test_what_a_table_does_not_take_is_none(other: object) -> None:
    assert not is_text(other, 10)


def test_an_error_about_a_name_says_which_argument() -> None:
    with pytest.raises(InvalidInput, match=r"^idempotency_key='a b'"):
        check_name("a b", "idempotency_key")
