"""Decisions about runs: tables where there are cases, properties where there are numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from quarterjack.domain.policies import Backoff, Delivery, Policies, Retry, Start
from quarterjack.domain.run import TERMINAL, WAITING, Failure, RunState
from quarterjack.domain.schedule import ClosedBy
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.state.lease import LEASE, SKEW, lease
from quarterjack.state.refusal import OnExisting, OnRefusedLease, Refusal, on_existing, on_refused_lease, refused_by
from quarterjack.state.retry import MAX_SLICES, GiveUp, RetryAt, after_failure, is_permanent, stuck
from quarterjack.state.start import EARLY, HOLD, MAX_DELAY, delay_for, is_past_deadline
from quarterjack.state.transition import holds
from quarterjack.stores.rows import run_of

from tests.support.builders import NOON, a_revision, a_run
from tests.support.rows import NOW, SITUATIONS

# A claim whose run exists.


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("unstarted", [False, True])
@pytest.mark.parametrize("revision", [1, 2, 3])
def test_what_becomes_of_a_claim_whose_run_exists(state: RunState, unstarted: bool, revision: int) -> None:
    run = a_run(revision=2, state=state, unstarted=unstarted)
    answer = on_existing(run, revision)
    if revision == 2:
        assert answer is (OnExisting.SEND if state is RunState.QUEUED else OnExisting.LEAVE)
    elif revision == 3 and (state is RunState.QUEUED or unstarted):
        assert answer is OnExisting.TAKE_OVER
    else:
        assert answer is OnExisting.LEAVE


# Delays.


@given(st.integers(-MINUTE, 2_000 * SECOND), st.sampled_from(Start))
def test_a_delay_is_whole_seconds_that_the_queue_takes(left: int, start: Start) -> None:
    delay = delay_for(NOON + left, start, NOON)
    assert type(delay) is int
    assert 0 <= delay <= MAX_DELAY // SECOND


@given(st.integers(-MINUTE, MAX_DELAY))
def test_a_prompt_message_never_comes_early_and_less_than_a_second_late(left: int) -> None:
    arrives = delay_for(NOON + left, Start.PROMPT, NOON) * SECOND
    assert 0 <= arrives - max(left, 0) < SECOND


@given(st.integers(0, MAX_DELAY))
def test_an_exact_message_comes_one_to_two_seconds_early_where_it_can(left: int) -> None:
    arrives = delay_for(NOON + left, Start.EXACT, NOON) * SECOND
    if left >= EARLY:
        assert EARLY <= left - arrives < EARLY + SECOND
    else:
        assert arrives == 0
    assert left - arrives <= HOLD[Start.EXACT] or left < EARLY, "the worker holds it for the rest"


# Changes of the schedule.


@pytest.mark.parametrize("due", [NOON - 1, NOON, NOON + 1])
@pytest.mark.parametrize("by", [None, *ClosedBy])
def test_what_a_change_takes_back(by: ClosedBy | None, due: int) -> None:
    revision = a_revision(active_from=NOON - MINUTE, active_until=None if by is None else NOON, closed_by=by)
    later = due > NOON
    expected = {
        None: None,
        ClosedBy.REPLACED: Refusal(RunState.SUPERSEDED, "replaced", beyond=True) if later else None,
        ClosedBy.DRAINED: Refusal(RunState.CANCELLED, "drained", beyond=True) if later else None,
        ClosedBy.PAUSED: Refusal(RunState.CANCELLED, "paused", beyond=later),
        ClosedBy.DELETED: Refusal(RunState.CANCELLED, "deleted", beyond=later),
    }
    assert refused_by(revision, due) == expected[by]


# Refused leases.


def answered(situation: str | None, *, revision: int = 2, **policies: Any) -> tuple[OnRefusedLease, str]:
    run = None if situation is None else run_of(SITUATIONS[situation])
    retry = Retry(max_attempts=policies.pop("attempts", 3))
    answer = on_refused_lease(run, revision=revision, now=NOW, policies=Policies(retry=retry, **policies))
    return answer.action, answer.why


DROP, WAIT = OnRefusedLease.DROP, OnRefusedLease.WAIT


@pytest.mark.parametrize(
    ("situation", "options", "answer"),
    [
        (None, {}, (DROP, "unknown_run")),
        ("succeeded", {}, (DROP, "ended")),
        ("dead", {}, (DROP, "ended")),
        ("paused", {}, (DROP, "ended")),
        ("queued", {"revision": 1}, (DROP, "other_revision")),
        ("running", {"revision": 3}, (DROP, "other_revision")),
        ("running", {}, (WAIT, "live_lease")),
        ("just ended", {}, (WAIT, "live_lease")),
        ("running", {"delivery": Delivery.AT_MOST_ONCE}, (WAIT, "live_lease")),
        ("abandoned", {}, (OnRefusedLease.RETRY, "changed")),
        ("abandoned", {"attempts": 2}, (OnRefusedLease.EXHAUST, "attempts_spent")),
        ("abandoned", {"delivery": Delivery.AT_MOST_ONCE}, (OnRefusedLease.LOSE, "at_most_once")),
        ("abandoned, cancel asked", {}, (OnRefusedLease.CANCEL, "cancelled")),
        ("running, cancel asked", {}, (WAIT, "live_lease")),
        ("queued, cancel asked", {}, (OnRefusedLease.CANCEL, "cancelled")),
        ("retrying", {"attempts": 2}, (OnRefusedLease.EXHAUST, "attempts_spent")),
        ("retrying", {}, (OnRefusedLease.RETRY, "changed")),
        ("queued", {}, (OnRefusedLease.RETRY, "changed")),
    ],
)
def test_what_to_do_with_a_refused_lease(
    situation: str | None, options: dict[str, Any], answer: tuple[OnRefusedLease, str]
) -> None:
    assert answered(situation, **options) == answer


def test_a_run_that_is_not_due_is_postponed_to_its_time() -> None:
    run = a_run(NOW + MINUTE, revision=2)
    answer = on_refused_lease(run, revision=2, now=NOW, policies=Policies())
    assert (answer.action, answer.why, answer.until) == (OnRefusedLease.POSTPONE, "not_due", NOW + MINUTE)


def test_one_waits_for_a_lease_until_its_margin_is_over() -> None:
    run = run_of(SITUATIONS["running"])
    assert on_refused_lease(run, revision=2, now=NOW, policies=Policies()).until == NOW + LEASE + SKEW
    bare = a_run(state=RunState.RUNNING, revision=2, lease_until=None)
    assert on_refused_lease(bare, revision=2, now=NOW, policies=Policies()).action is OnRefusedLease.RETRY


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("attempts", [1, 2, 3])
@pytest.mark.parametrize("delivery", Delivery)
@pytest.mark.parametrize("revision", [1, 2])
def test_a_lease_is_tried_again_exactly_where_it_would_be_had(
    situation: str, attempts: int, delivery: Delivery, revision: int
) -> None:
    """The decision and the guard agree: else a message would come back for ever, or a run be given up that could run."""
    policies = Policies(delivery=delivery, retry=Retry(max_attempts=attempts))
    row = SITUATIONS[situation]
    wanted = lease(
        revision=revision,
        now=NOW,
        token="x",
        worker="w",
        max_attempts=policies.max_attempts,
        steal=delivery is not Delivery.AT_MOST_ONCE,
    )
    answer = on_refused_lease(run_of(row), revision=revision, now=NOW, policies=policies)
    assert (answer.action is OnRefusedLease.RETRY) == holds(wanted.guard, row)


# Failures.

failures = st.builds(
    Failure,
    kind=st.just("E"),
    message=st.just(""),
    permanent=st.booleans(),
    retry_after=st.none() | st.floats(0, 1_000_000),
)
retries = st.builds(
    Retry,
    max_attempts=st.integers(1, 1_000),
    base=st.floats(0, 1_000_000),
    cap=st.floats(0, 1_000_000),
    backoff=st.sampled_from(Backoff),
    jitter=st.floats(0, 1),
    within=st.none() | st.floats(0, 1_000_000),
)
chances = st.floats(0, 1, exclude_max=True)


@given(failures, retries, st.integers(1, 1_001), chances, st.none() | st.floats(0, 1_000_000))
def test_whatever_fails_is_tried_again_within_its_bounds_or_never(
    failure: Failure, retry: Retry, attempt: int, chance: float, deadline: float | None
) -> None:
    policies = Policies(retry=retry, deadline=deadline)
    what = after_failure(failure, attempt=attempt, due=NOON, policies=policies, now=NOW, chance=chance)
    if isinstance(what, GiveUp):
        assert what.reason
        return
    assert not failure.permanent
    assert attempt < retry.max_attempts
    assert what.at >= NOW
    if failure.retry_after is None:
        assert what.at <= NOW + retry.cap * SECOND
    for limit in (retry.within, deadline):
        assert limit is None or what.at <= NOON + limit * SECOND


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff.EXPONENTIAL, [10, 20, 40, 80, 100, 100]),
        (Backoff.LINEAR, [10, 20, 30, 40, 50, 60]),
        (Backoff.FIXED, [10, 10, 10, 10, 10, 10]),
    ],
)
def test_waits_grow_as_they_are_told_to(backoff: Backoff, waits: list[int]) -> None:
    policies = Policies(retry=Retry(max_attempts=10, base=10.0, cap=100.0, backoff=backoff))
    for attempt, seconds in enumerate(waits, 1):
        for chance, share in ((0.0, 1.0), (0.5, 0.75), (0.999999, 0.5)):
            what = after_failure(
                Failure(kind="E", message=""), attempt=attempt, due=NOON, policies=policies, now=NOW, chance=chance
            )
            assert isinstance(what, RetryAt)
            assert abs(what.at - NOW - seconds * share * SECOND) <= 2


def test_the_last_attempt_says_how_many_there_were() -> None:
    policies = Policies(retry=Retry(max_attempts=2))
    told = [
        after_failure(Failure(kind="E", message=""), attempt=n, due=NOON, policies=policies, now=NOW, chance=0.0)
        for n in (2, 3)
    ]
    assert told == [GiveUp("failed 2 times"), GiveUp("failed 3 times")]
    once = Policies(delivery=Delivery.AT_MOST_ONCE)
    only = after_failure(Failure(kind="E", message=""), attempt=1, due=NOON, policies=once, now=NOW, chance=0.0)
    assert only == GiveUp("failed")


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        (Policies(retry=Retry(within=600.0, base=1.0)), "outside the retry window"),
        (Policies(deadline=600.0, retry=Retry(base=1.0)), "past the deadline"),
        (Policies(retry=Retry(within=601.0, base=1.0, jitter=0.0), deadline=601.0), None),
    ],
)
def test_no_attempt_is_planned_beyond_its_limits(policies: Policies, reason: str | None) -> None:
    failure = Failure(kind="E", message="")
    what = after_failure(failure, attempt=1, due=NOON, policies=policies, now=NOW, chance=0.0)
    assert isinstance(what, RetryAt) if reason is None else (isinstance(what, GiveUp) and reason in what.reason)


@pytest.mark.parametrize(
    ("kinds", "status", "retry", "permanent"),
    [
        (["ValueError", "Exception"], None, Retry(), False),
        (["ValueError", "Exception"], None, Retry(never_on=(ValueError,)), True),
        (["JSONDecodeError", "ValueError"], None, Retry(never_on=(ValueError,)), True),
        (["OSError"], None, Retry(retry_on=(OSError,)), False),
        (["ValueError"], None, Retry(retry_on=(OSError,)), True),
        (["OSError"], None, Retry(retry_on=(OSError,), never_on=(OSError,)), True),
        *((["E"], status, Retry(), True) for status in (400, 401, 403, 404, 409, 410, 422, 451, 499)),
        *((["E"], status, Retry(), False) for status in (None, 408, 425, 429, 200, 302, 500, 503, 599)),
        (["E"], 404, Retry(by_status=False), False),
        (["E"], 404, Retry(always_on=("E",)), False),
        (["E"], 404, Retry(always_on=("F",)), True),
        (["E"], 404, Retry(retry_on=("E",)), False),
        (["E"], 404, Retry(retry_on=("F",)), True),
        (["E", "V"], None, Retry(always_on=("E",), never_on=("V",)), False),
        (["V"], None, Retry(always_on=("E",), never_on=("V",)), True),
        (["E"], None, Retry(always_on=("E",), retry_on=("F",)), False),
    ],
)
def test_which_failures_are_permanent(kinds: list[str], status: int | None, retry: Retry, permanent: bool) -> None:
    assert is_permanent(kinds, status, retry) is permanent


@pytest.mark.parametrize(("now", "past"), [(NOON + MINUTE, False), (NOON + MINUTE + 1, True)])
def test_a_deadline_counts_from_the_due_time(now: int, past: bool) -> None:
    assert is_past_deadline(NOON, Policies(deadline=60.0), now) is past
    assert not is_past_deadline(NOON, Policies(), now)


# The words themselves.


def test_every_state_waits_runs_or_is_over() -> None:
    assert WAITING | TERMINAL | {RunState.RUNNING} == set(RunState)
    assert not WAITING & TERMINAL
    assert [a_run(state=state).is_terminal for state in sorted(TERMINAL)] == [True] * len(TERMINAL)


# Slices.


@pytest.mark.parametrize(
    ("checkpointed", "slices", "why"),
    [
        (True, 0, None),
        (True, MAX_SLICES - 1, None),
        (True, MAX_SLICES, "has had 10,000 slices"),
        (False, 0, "recorded no checkpoint"),
        (False, MAX_SLICES, "recorded no checkpoint"),
    ],
)
def test_a_slice_goes_on_if_it_moved_something(*, checkpointed: bool, slices: int, why: str | None) -> None:
    problem = stuck(checkpointed=checkpointed, slices=slices)
    assert problem is None if why is None else why in str(problem)
