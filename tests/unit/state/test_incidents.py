"""What ends decides what is wrong: the same head in the end, whoever hears of what first."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.history.dead_run import DeadRunRow
from quarterjack.domain.names import fire_ref
from quarterjack.domain.notice import NoticeKind
from quarterjack.domain.options import Options, changed
from quarterjack.domain.schedule import Head, ScheduleState
from quarterjack.domain.times import MINUTE, from_ms, to_ms
from quarterjack.errors import InvalidInput
from quarterjack.state.incidents import (
    after_failure,
    after_success,
    began,
    ends_by,
    failing_since,
    next_end_check,
    notice_of,
    resumed,
    target,
    without_success,
)

from tests.support.builders import NOON, OWNER, a_head

HEAD = a_head()


def died(at: int) -> DeadRunRow:
    return DeadRunRow(
        run=fire_ref(OWNER, at),
        job="report",
        ended_at=at,
        fence=1,
        attempts=1,
        reason="failed",
        error_type="E",
        error="no",
    )


def failed(head: Head, at: int, *, success: int | None = None, most: int | None = None) -> tuple[Head, list[str]]:
    judged = after_failure(head, died(at), success=success, most=most)
    return judged.head, [str(one.kind) for one in judged.events]


def test_a_failure_begins_an_incident_and_the_next_is_counted() -> None:
    one, told = failed(HEAD, NOON)
    assert (one.failing, one.failed_at, began(one.incident or ""), told) == (1, NOON, NOON, ["failure"])
    two, told = failed(one, NOON + 5)
    assert (two.failing, two.failed_at, two.incident, told) == (2, NOON + 5, one.incident, [])


def test_a_success_ends_it_and_says_how_long_the_row_was() -> None:
    two, _ = failed(failed(HEAD, NOON)[0], NOON + 5)
    judged = after_success(two, NOON + 6)
    assert (judged.head.failing, judged.head.incident) == (0, None)
    (told,) = judged.events
    assert (told.kind, told.count, told.incident) == (NoticeKind.RECOVERY, 2, two.incident)


@pytest.mark.parametrize("at", [NOON - 1, NOON])
def test_a_success_before_it_ends_nothing(at: int) -> None:
    one, _ = failed(HEAD, NOON)
    assert after_success(one, at).head == one


def test_a_failure_of_which_one_hears_after_the_success_is_told_with_its_end() -> None:
    after, told = failed(HEAD, NOON, success=NOON + 5)
    assert (after.failing, after.incident, after.failed_at, told) == (0, None, NOON, ["failure", "recovery"])


def test_of_two_failures_with_a_success_between_them_the_row_is_one() -> None:
    """Whichever of them is heard of first."""
    first, _ = failed(HEAD, NOON)
    after, told = failed(first, NOON + 10, success=NOON + 5)
    assert (after.failing, began(after.incident or ""), told) == (1, NOON + 10, ["recovery", "failure"])
    second, _ = failed(HEAD, NOON + 10)
    assert failed(second, NOON, success=NOON + 5) == (second, [])


def test_two_failures_without_a_success_are_two_in_any_order() -> None:
    later, _ = failed(HEAD, NOON + 10)
    both, told = failed(later, NOON)
    assert (both.failing, both.failed_at, told) == (2, NOON + 10, [])


def test_a_failure_of_the_same_instant_as_one_of_an_incident_that_is_over_begins_none_with_its_id() -> None:
    begun, _ = failed(HEAD, NOON)
    over = after_success(begun, NOON + 5).head
    assert failed(over, NOON, success=NOON + 9) == (over, [])


def test_what_is_older_than_a_resume_is_not_counted_again() -> None:
    late = resumed(failed(HEAD, NOON)[0])
    assert failed(late, NOON - 5) == (late, [])


@pytest.mark.parametrize(
    ("state", "success", "paused"),
    [
        (ScheduleState.ACTIVE, None, True),
        (ScheduleState.PAUSED, None, False),
        (ScheduleState.COMPLETED, None, False),
        (ScheduleState.ACTIVE, NOON + 9, False),  # it has recovered before anybody heard of it
    ],
)
def test_one_too_many_pauses_what_is_active(state: ScheduleState, success: int | None, paused: bool) -> None:
    one, _ = failed(replace(HEAD, state=state), NOON)
    two, told = failed(one, NOON + 5, most=2, success=success)
    assert (two.state is ScheduleState.PAUSED and two.state is not state) == paused
    assert (NoticeKind.PAUSED in told) == paused


def test_silence_is_an_incident_unless_one_goes_on() -> None:
    silent = without_success(HEAD, NOON)
    assert (silent.head.incident, silent.head.failing) == (f"no_success-{NOON}", 0)
    assert [told.kind for told in silent.events] == [NoticeKind.NO_SUCCESS]
    failing, _ = failed(HEAD, NOON)
    assert without_success(failing, NOON + 5).events == ()
    more, told = failed(silent.head, NOON + 5)
    assert (more.incident, more.failing, told) == (silent.head.incident, 1, [])
    assert after_success(more, NOON + 4).head == more
    assert after_success(more, NOON + 6).head.incident is None


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_in_any_order_of_hearing_the_end_is_the_same(well: list[bool], order: object) -> None:
    """Runs end one after the other; verdicts are heard in any order, with the ledger's last success at hand, as it is then.

    In the end everything is in the ledger. A last look finds a success that nobody reported.
    """
    ends = [NOON + place for place in range(len(well))]
    failures = [at for at, good in zip(ends, well, strict=True) if not good]
    heard = list(failures)
    order.shuffle(heard)  # type: ignore[attr-defined]
    successes = [at for at, good in zip(ends, well, strict=True) if good]
    last = max(successes, default=None)
    head = HEAD
    for at in heard:
        head, _ = failed(head, at, success=last)
    if last is not None:
        head = after_success(head, last).head
    row = [at for at in failures if last is None or at > last]
    assert head.failing == len(row)
    assert (head.incident is not None) == bool(row)
    assert failing_since(head) >= max(failures, default=0)


def test_a_notice_says_what_happened_in_a_sentence() -> None:
    judged = after_failure(HEAD, died(NOON), success=None, most=1)
    notices = [notice_of(one, judged.head, dead=died(NOON)) for one in judged.events]
    assert [notice.kind for notice in notices] == [NoticeKind.FAILURE, NoticeKind.PAUSED]
    assert notices[0].text == "acme/report fails: a run of job 'report' failed for good (failed): E: no"
    assert notices[1].text == "acme/report is paused, because 1 of its runs in a row failed for good (failed): E: no"
    assert (notices[0].error_type, notices[0].run) == ("E", str(died(NOON).run))
    assert type(notices[0]).of(notices[0].document()) == notices[0]
    assert notices[0].token != notices[1].token


def test_a_recovery_is_told_to_whom_it_is_for() -> None:
    options = Options(on_failure="job:a", on_recovery="job:b")
    assert [target(kind, options) for kind in NoticeKind] == ["job:a"] * 3 + ["job:b", "job:a", "job:b"]


@pytest.mark.parametrize(
    ("due", "by", "zone", "end"),
    [
        ("2026-05-04T22:00:00+02:00", "06:00", "Europe/Berlin", "2026-05-05T06:00:00+02:00"),
        ("2026-05-04T05:59:59+02:00", "06:00", "Europe/Berlin", "2026-05-04T06:00:00+02:00"),
        ("2026-05-04T06:00:00+02:00", "06:00", "Europe/Berlin", "2026-05-05T06:00:00+02:00"),  # not at once
        ("2026-03-28T22:00:00+01:00", "06:00", "Europe/Berlin", "2026-03-29T06:00:00+02:00"),  # a night of seven hours
        ("2026-03-28T22:00:00+01:00", "02:30", "Europe/Berlin", "2026-03-29T03:00:00+02:00"),  # the clocks skip it
        ("2026-10-25T00:00:00+02:00", "02:30", "Europe/Berlin", "2026-10-25T02:30:00+02:00"),  # the first of two
        ("2026-05-04T22:00:00+00:00", 5400.0, "Europe/Berlin", "2026-05-04T23:30:00+00:00"),
    ],
)
def test_a_time_of_day_is_in_the_zone_of_the_schedule(due: str, by: float | str, zone: str, end: str) -> None:
    at = ends_by(to_ms(datetime.fromisoformat(due), "due"), by, zone)
    assert from_ms(at) == datetime.fromisoformat(end)


@pytest.mark.parametrize(("since", "ages"), [(0, [1, 2, 3]), (3600, [1, 2, 8, 60])])
def test_ends_of_overdue_runs_are_looked_for_ever_more_seldom(since: int, ages: list[int]) -> None:
    for age in ages:
        after = next_end_check(since, since + age * MINUTE) - since - age * MINUTE
        assert MINUTE <= after == min(max(age * MINUTE // 8, MINUTE), 15 * MINUTE)


@pytest.mark.parametrize("given", ["6:00", "24:00", "06:60", "06:00:00", "six", "", 59, -1, True, 1e9])
def test_what_is_no_end_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="must_end_by"):
        changed(Options(), {"must_end_by": given})
