"""What the door lets in comes out at the worker: payloads, results, steps and checkpoints, however deep they are nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quarterjack import Context, Registry, Retry, Run, RunState
from quarterjack.declare import schedule
from quarterjack.domain.payload import MAX_DEPTH
from quarterjack.errors import InvalidInput
from quarterjack.sdk.scheduler import Scheduler
from quarterjack.testing import Harness

START = datetime(2026, 5, 4, 8, 30, tzinfo=UTC)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
SMALL = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


def nested(levels: int, inside: Any = None, *, key: str | None = None) -> Any:
    """``inside``, in so many lists, or dicts with that key."""
    for _ in range(levels):
        inside = [inside] if key is None else {key: inside}
    return inside


@cache
def bottomless(key: str | None) -> Any:
    """50,000 levels, made once: that takes longer than it takes to refuse them."""
    return nested(50_000, key=key)


# Around the limit, around the 988 levels at which Python's own reader gives up, and where recursion in C ends a process.
LEVELS = st.integers(0, MAX_DEPTH + 8) | st.integers(900, 1_100)
VALUES = st.builds(nested, LEVELS, SMALL, key=st.none() | st.text(max_size=3)) | st.builds(
    bottomless, st.sampled_from([None, "", "a"])
)


def is_too_deep(value: Any) -> bool:
    """The oracle: goes down level by level, on the value."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        found = [one for one in level if isinstance(one, (list, dict))]
        if not found:
            return False
        level = [below for one in found for below in (one.values() if isinstance(one, dict) else one)]
    return True


@contextmanager
def accepted_unless_too_deep(payload: Any) -> Iterator[list[bool]]:
    """Yields a list that is not empty once the block went through; one that is too deep must be refused as the payload."""
    accepted = list[bool]()
    if is_too_deep(payload):
        with pytest.raises(InvalidInput, match=r"^payload="):
            yield accepted
    else:
        accepted.append(True)
        yield accepted


class Place:
    """A harness with a job that keeps what it was given, and a schedule for the doors that need one."""

    def __init__(self) -> None:
        self.jobs, self.given = Registry(), list[Any]()
        self.jobs.job("take", retry=Retry(max_attempts=1))(self.take)
        self.harness = Harness(self.jobs, at=START)
        self.harness.scheduler.create_schedule("old", "take", "0 0 1 1 *", payload="old")
        self.harness.scheduler.create_schedule("hourly", "take", "0 * * * *", payload="old")

    def take(self, ctx: Context, payload: Any) -> None:
        if payload == "fail":
            raise KeyError("gone")
        self.given.append(payload)


def _submit(scheduler: Scheduler, payload: Any) -> None:
    scheduler.submit("take", payload)


def _create(scheduler: Scheduler, payload: Any) -> None:
    scheduler.create_schedule("new", "take", "31 8 4 5 *", payload=payload)


def _update(scheduler: Scheduler, payload: Any) -> None:
    scheduler.update_schedule("old", expression="31 8 4 5 *", payload=payload)


def _upsert(scheduler: Scheduler, payload: Any) -> None:
    scheduler.upsert_schedule("old", "take", "31 8 4 5 *", payload=payload)


def _trigger(scheduler: Scheduler, payload: Any) -> None:
    scheduler.trigger("old", payload=payload)


def _backfill(scheduler: Scheduler, payload: Any) -> None:
    hour = timedelta(hours=1)
    scheduler.backfill("hourly", START - hour, START, payload=payload, current=True, dry_run=False)


DOORS = [_submit, _create, _update, _upsert, _trigger, _backfill]


@pytest.mark.parametrize("door", DOORS)
@given(VALUES)
@settings(max_examples=25, deadline=None)
def test_what_is_accepted_comes_out_at_the_worker(door: Callable[[Scheduler, Any], None], payload: Any) -> None:
    place = Place()
    with accepted_unless_too_deep(payload) as accepted:
        door(place.harness.scheduler, payload)
    if not accepted:
        return
    runs = place.harness.advance(minutes=2)
    assert [run.state for run in runs] == [RunState.SUCCEEDED]
    assert place.given == [payload]


@pytest.mark.parametrize("redrive", [True, False])
@given(VALUES)
@settings(max_examples=25, deadline=None)
def test_what_is_accepted_to_repeat_a_run_comes_out_at_the_worker(redrive: bool, payload: Any) -> None:
    place = Place()
    (failed,) = failed_runs(place)
    scheduler = place.harness.scheduler
    with accepted_unless_too_deep(payload) as accepted:
        _ = (
            scheduler.redrive(failed.id, payload=payload)
            if redrive
            else scheduler.replay_run(failed.id, payload=payload)
        )
    if not accepted:
        return
    (run,) = place.harness.advance(minutes=2)
    assert run.state is (RunState.DEAD if payload == "fail" else RunState.SUCCEEDED)
    assert place.given == ([] if payload == "fail" else [payload])


def failed_runs(place: Place) -> list[Run]:
    place.harness.scheduler.submit("take", "fail")
    return place.harness.advance(seconds=1)


@pytest.mark.parametrize("door", DOORS)
def test_the_limit_is_a_number(door: Callable[[Scheduler, Any], None]) -> None:
    door(Place().harness.scheduler, nested(MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, 988, 100_000):
        with pytest.raises(InvalidInput, match=r"payload.*nested more than 64 levels deep; flatten it"):
            door(Place().harness.scheduler, nested(levels))


def test_a_declaration_is_refused_where_it_is_written() -> None:
    with pytest.raises(InvalidInput, match="nested more than 64 levels deep"):
        schedule("@daily", payload=nested(MAX_DEPTH + 1))(Registry().job("declared")(lambda ctx, payload: None))


# What a job leaves behind.

Leave = Callable[[Context, Any], Any]


def _step(ctx: Context, value: Any) -> Any:
    return ctx.step("one", lambda: value)


def _checkpoint(ctx: Context, value: Any) -> Any:
    ctx.checkpoint(value)
    return ctx.resume


@pytest.mark.parametrize("leave", [_step, _checkpoint])
@given(VALUES)
@settings(max_examples=25, deadline=None)
def test_a_step_or_checkpoint_that_is_accepted_can_be_read_again(leave: Leave, value: Any) -> None:
    jobs, found = Registry(), list[Any]()

    @jobs.job("leave")
    def job(ctx: Context, payload: Any) -> None:
        try:
            found.append(leave(ctx, value) == value)
        except InvalidInput as problem:
            found.append("nested more than" in problem.problem)

    harness = Harness(jobs, at=START)
    harness.scheduler.submit("leave")
    (run,) = harness.advance(minutes=1)
    assert run.state is RunState.SUCCEEDED
    assert found == [True]
    assert harness.scheduler.get_run(run.id).state is RunState.SUCCEEDED


@given(VALUES)
@settings(max_examples=25, deadline=None)
def test_a_result_that_is_too_deep_is_noted_and_not_kept(value: Any) -> None:
    jobs = Registry()
    jobs.job("answer")(lambda ctx, payload: value)
    harness = Harness(jobs, at=START)
    harness.scheduler.submit("answer")
    (run,) = harness.advance(minutes=1)
    kept = harness.scheduler.get_run(run.id)
    assert kept.state is RunState.SUCCEEDED
    assert kept.result == value or "nested more than 64 levels deep" in (kept.reason or "")
