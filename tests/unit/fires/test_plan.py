"""Steps of a chain, as a pure function: no fire is left out, no step is too large, and parted chains meet again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from quarterjack.domain.options import CatchUp, Options
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.times import DAY, MINUTE, SECOND
from quarterjack.fires.context import LOOKAHEAD, REACH
from quarterjack.fires.plan import LARGEST, SHARED, WINDOWS, first_entry, plan_chain, shift_of
from quarterjack.state.catch_up import LARGEST_GAP

from tests.support.builders import NOON, a_definition, a_revision

PERIODS = (1, 7, 10, 30, 60, 90, 120, 300, 600, 3_600)
periods = st.sampled_from(PERIODS)
times = st.integers(NOON, NOON + DAY)
names = st.text("abcdefgh", min_size=1, max_size=6)  # each with windows of its own


def every(seconds: int, catch_up: CatchUp = CatchUp.ALL, window: float = 1800.0) -> Revision:
    options = Options(catch_up=catch_up, catch_up_window=window)
    return a_revision(definition=a_definition(f"rate({seconds} seconds)", options=options))


def next_due(revision: Revision, after: int, seconds: int) -> int:
    period = seconds * SECOND
    return revision.active_from + ((after - revision.active_from) // period + 1) * period


@given(period=periods, after=times, ahead=st.integers(-DAY, LOOKAHEAD))
def test_a_step_takes_all_that_is_due_and_leaves_the_next(period: int, after: int, ahead: int) -> None:
    revision, now = every(period), after - ahead
    step = plan_chain(revision, after=after, now=now, oldest=0)
    first = next_due(revision, after, period)
    dealt_with = [*step.passed, *step.fires]
    assert dealt_with == [first + i * period * SECOND for i in range(len(dealt_with))], "without a gap"
    assert len(step.fires) <= LARGEST
    assert not step.exhausted
    assert step.following is not None
    assert step.following.due == next_due(revision, dealt_with[-1] if dealt_with else after, period), "nor one behind"
    assert step.following.due == next_due(revision, step.following.after, period)
    assert step.cut == (step.following.due <= now + LOOKAHEAD)
    assert len(step.fires) == LARGEST or not step.cut


@given(period=periods, after=times)
def test_beyond_the_look_ahead_a_step_has_ten_at_the_most_and_stays_within_reach(period: int, after: int) -> None:
    step = plan_chain(every(period), after=after, now=after, oldest=0)
    if step.fires and step.fires[-1] > after + LOOKAHEAD:
        assert len(step.fires) <= SHARED
        assert step.fires[0] <= after + LOOKAHEAD
        assert step.fires[-1] <= after + REACH


@pytest.mark.parametrize(("period", "fires"), [(60, 10), (120, 5), (300, 2), (30, 10), (600, 1)])
def test_once_a_chain_is_under_way_its_fires_share_the_steps(period: int, fires: int) -> None:
    revision = a_revision(definition=a_definition(f"rate({period} seconds)"), active_from=NOON // DAY * DAY)
    after, steps = revision.active_from, []
    for tick in range(120):
        now = revision.active_from + tick * MINUTE
        step = plan_chain(revision, after=after, now=now, oldest=0)
        if step.fires:
            assert step.following is not None
            after = step.following.after
            steps.append(len(step.fires))
    assert set(steps[2:]) == {fires}


@settings(deadline=None)  # a busy machine takes its time
@example(period=600, after=2_094_551_058_498, early=0, reach=0, name="daba")  # each passed over the other, for good
@given(period=periods, after=times, early=st.integers(0, 2 * MINUTE), reach=st.sampled_from([0, REACH]), name=names)
def test_chains_that_parted_meet_again_within_the_hour(
    period: int, after: int, early: int, reach: int, name: str
) -> None:
    """The same entry handled at two moments, ticks a minute from then on."""
    revision, now = replace(every(period), name=name), after
    ends = set()
    for moment, how_far in ((now, REACH), (now + early, reach)):
        following = plan_chain(revision, after=after, now=moment, oldest=0, reach=how_far).following
        assert following is not None
        ends.add((following.key, following.after))
    for tick in range(1, 121):
        moment = now + early + tick * MINUTE
        moved = set()
        for key, behind in ends:
            if int(key.split("#")[0]) > moment + LOOKAHEAD:
                moved.add((key, behind))
                continue
            following = plan_chain(revision, after=behind, now=moment, oldest=0).following
            assert following is not None
            moved.add((following.key, following.after))
        ends = moved
    assert len({key for key, _ in ends}) == 1


def test_windows_of_owners_are_spread_over_ten_minutes_and_always_the_same() -> None:
    shifts = [shift_of(f"acme/s{number}") for number in range(6_000)]
    assert shifts[:3] == [shift_of(f"acme/s{number}") for number in range(3)]
    assert all(shift % SECOND == 0 and 0 <= shift < WINDOWS[0] for shift in shifts)
    minutes = Counter(shift // MINUTE for shift in shifts)
    assert len(minutes) == 10
    assert max(minutes.values()) < 1.2 * 600
    assert shift_of("acme/s") == 295 * SECOND, "of this release and every other: chains of both must meet"


def test_the_end_of_a_revision_ends_its_chain() -> None:
    revision = replace(every(60), active_until=NOON + 150 * SECOND, closed_by=ClosedBy.REPLACED)
    step = plan_chain(revision, after=NOON, now=NOON, oldest=0)
    assert step.fires == (NOON + MINUTE, NOON + 2 * MINUTE)
    assert (step.following, step.exhausted) == (None, False)


def test_the_end_of_an_expression_exhausts_it() -> None:
    revision = a_revision(definition=a_definition("at(2036-12-24T18:00:00)"))
    entry = first_entry(revision)
    assert entry is not None
    step = plan_chain(revision, after=NOON, now=entry.due, oldest=0)
    assert (step.fires, step.following, step.exhausted, step.cut) == ((entry.due,), None, True, False)


def test_the_first_entry_is_the_first_fire_after_the_beginning() -> None:
    entry = first_entry(every(60))
    assert entry is not None
    assert (entry.due, entry.after, entry.id) == (NOON + MINUTE, NOON, "acme/report#1")


def test_a_revision_that_never_fires_has_no_first_entry() -> None:
    assert first_entry(a_revision(definition=a_definition("at(2020-01-01T00:00:00)"))) is None


@pytest.mark.parametrize("oldest", [NOON + 10 * MINUTE, NOON + 10 * MINUTE - 1])
def test_what_is_older_than_the_retention_is_passed_over(oldest: int) -> None:
    step = plan_chain(every(60), after=NOON, now=NOON + 20 * MINUTE, oldest=oldest)
    assert step.fires[0] == (oldest // MINUTE + 1) * MINUTE


# Missed fires.


@settings(deadline=None)
@given(
    period=periods,
    after=times,
    behind=st.integers(0, 2 * 3_600 * SECOND),
    catch_up=st.sampled_from(CatchUp),
    window=st.sampled_from([0.0, 30.0, 60.0, 61.0, 600.0, 1800.0, 7200.0]),
)
def test_what_is_passed_over_is_what_the_policy_says(
    period: int, after: int, behind: int, catch_up: CatchUp, window: float
) -> None:
    revision, now = every(period, catch_up, window), after + behind
    step = plan_chain(revision, after=after, now=now, oldest=0)
    due = range(next_due(revision, after, period), now + 1, period * SECOND)
    missed = [fire for fire in due if now - fire > 60 * SECOND]
    young = [fire for fire in missed if now - fire <= window * SECOND]
    run_late = {CatchUp.ALL: young, CatchUp.LATEST: [f for f in young if f == missed[-1]], CatchUp.NONE: []}[catch_up]
    assert list(step.passed) == [fire for fire in missed if fire not in run_late]
    started = [fire for fire in step.fires if fire <= now]
    expected = run_late + [fire for fire in due if fire not in missed]
    assert started == expected[: len(started)]
    assert len(started) == min(len(expected), LARGEST)


def test_a_very_long_gap_is_passed_over_in_pieces() -> None:
    revision = every(1, CatchUp.LATEST)
    now = revision.active_from + (LARGEST_GAP + 10) * SECOND + MINUTE
    step = plan_chain(revision, after=revision.active_from, now=now, oldest=0)
    assert (len(step.passed), step.fires, step.cut) == (LARGEST_GAP, (), True)
    assert step.following is not None
    assert step.following.after == step.passed[-1]
    rest = plan_chain(revision, after=step.following.after, now=now, oldest=0)
    assert len(rest.passed) == 8, "the last missed one is run"
    assert rest.fires[0] == now - MINUTE - SECOND


def test_a_gap_that_ends_at_the_bound_exactly_still_leaves_the_latest() -> None:
    revision = every(1, CatchUp.LATEST)
    now = revision.active_from + LARGEST_GAP * SECOND + MINUTE + 1
    step = plan_chain(revision, after=revision.active_from, now=now, oldest=0)
    assert len(step.passed) == LARGEST_GAP - 1
    assert step.fires[0] == now - MINUTE - 1


def test_what_was_missed_before_the_end_of_a_revision_is_still_its_own() -> None:
    revision = replace(every(60, CatchUp.LATEST), active_until=NOON + 150 * SECOND, closed_by=ClosedBy.REPLACED)
    step = plan_chain(revision, after=NOON, now=NOON + 20 * MINUTE, oldest=0)
    assert (step.passed, step.fires, step.following) == ((NOON + MINUTE,), (NOON + 2 * MINUTE,), None)
