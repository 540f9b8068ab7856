"""The harness that users test their own jobs with."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

import pytest
from quarterjack import Context, Registry, Retry, Run, RunState, ScheduleState
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness, clock, harness

START = datetime(2026, 5, 4, 8, 30, tzinfo=UTC)


class Log(list[str]):
    """What the jobs did, and the jobs that do it."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.registry.job("note")(self._note)
        self.registry.job("exact", start="exact")(self._note)
        self.registry.job("flaky", retry=Retry(max_attempts=3, base=10.0))(self._flaky)
        self.registry.job("hopeless", retry=Retry(max_attempts=2, base=1.0))(self._hopeless)
        self.registry.job("async")(self._async)
        self.harness = Harness(self.registry, at=START)

    def _note(self, ctx: Context, payload: object) -> None:
        self.append(f"{self.harness.clock.now():%H:%M:%S} {payload or ctx.schedule}")

    async def _async(self, ctx: Context, payload: object) -> None:
        self._note(ctx, payload)

    def _flaky(self, ctx: Context, payload: object) -> None:
        self._note(ctx, f"attempt {ctx.attempt}")
        if ctx.attempt < 3:
            raise RuntimeError("not yet")

    def _hopeless(self, ctx: Context, payload: object) -> None:
        raise RuntimeError("never")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.mark.parametrize("module", [harness, clock])
def test_its_examples_run(module: ModuleType) -> None:
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def test_nothing_happens_before_its_time(log: Log) -> None:
    log.harness.scheduler.create_schedule("hourly", "note", "0 * * * *")
    assert log.harness.advance(minutes=29, seconds=59) == []
    assert log == []
    (run,) = log.harness.advance(seconds=1)
    assert (run.state, run.lateness) == (RunState.SUCCEEDED, timedelta(0))
    assert log == ["09:00:00 hourly"]


def test_a_submission_runs_at_once(log: Log) -> None:
    run = log.harness.scheduler.submit("note", "now")
    assert [done.id for done in log.harness.advance()] == [run.id]
    assert log == ["08:30:00 now"]
    assert log.harness.clock.now() == START


def test_a_delayed_submission_waits(log: Log) -> None:
    log.harness.scheduler.submit("note", "later", delay=timedelta(days=3, milliseconds=1))
    assert log.harness.advance(days=3) == []
    assert len(log.harness.advance(seconds=1)) == 1


def test_two_schedules_take_turns(log: Log) -> None:
    log.harness.scheduler.create_schedule("a", "note", "*/20 * * * *")
    log.harness.scheduler.create_schedule("b", "exact", "*/30 * * * *")
    log.harness.run_until(START + timedelta(hours=1))
    assert sorted(log) == sorted(["08:40:00 a", "09:00:00 a", "09:00:00 b", "09:20:00 a", "09:30:00 b"])
    assert log[0] == "08:40:00 a"
    assert log.harness.clock.now() == START + timedelta(hours=1)


def test_an_exact_start_does_not_run_the_clock_ahead(log: Log) -> None:
    log.harness.scheduler.create_schedule("sharp", "exact", "at(2026-05-04T08:31:01)")
    assert log.harness.advance(seconds=60) == []
    assert log.harness.clock.now() == START + timedelta(seconds=60)
    (run,) = log.harness.advance(seconds=1)
    assert run.lateness == timedelta(0)


def test_retries_take_place_at_their_time(log: Log) -> None:
    log.harness.scheduler.submit("flaky")
    (run,) = log.harness.advance()
    assert (run.state, run.attempt) == (RunState.RETRYING, 1)
    (run,) = log.harness.advance(minutes=5)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)
    assert [line.split(" ", 1)[1] for line in log] == ["attempt 1", "attempt 2", "attempt 3"]


def test_what_fails_for_good_is_dead_and_buried(log: Log) -> None:
    log.harness.scheduler.submit("hopeless")
    (run,) = log.harness.advance(minutes=1)
    assert (run.state, run.error_type, run.error) == (RunState.DEAD, "RuntimeError", "never")
    assert len(log.harness.memory.dead) == 0


def test_async_jobs_run_too(log: Log) -> None:
    log.harness.scheduler.submit("async", "x")
    log.harness.advance()
    assert log == ["08:30:00 x"]


def test_pause_resume_and_completion_are_seen(log: Log) -> None:
    log.harness.scheduler.create_schedule("s", "note", "rate(10 minutes)")
    log.harness.advance(minutes=10)
    log.harness.scheduler.pause_schedule("s")
    assert log.harness.advance(hours=1) == []
    log.harness.scheduler.update_schedule("s", expression="at(2026-05-04T12:00:00)")
    log.harness.scheduler.resume_schedule("s")
    log.harness.advance(hours=3)
    assert log == ["08:40:00 s", "12:00:00 s"]
    assert log.harness.scheduler.get_schedule("s").state is ScheduleState.COMPLETED


def test_a_month_takes_no_time(log: Log) -> None:
    log.harness.scheduler.create_schedule("daily", "note", "0 9 * * *")
    assert len(log.harness.advance(days=31)) == 31


def test_time_does_not_run_backwards(log: Log) -> None:
    with pytest.raises(InvalidInput, match="has passed already"):
        log.harness.run_until(START - timedelta(seconds=1))
    with pytest.raises(InvalidInput, match="is negative"):
        log.harness.clock.advance(timedelta(seconds=-1))
    log.harness.clock.move_to(START - timedelta(hours=1))
    assert log.harness.clock.now() == START


def test_a_naive_moment_is_refused(log: Log) -> None:
    with pytest.raises(InvalidInput, match="no time zone"):
        Harness(log.registry, at=datetime(2026, 5, 4))  # noqa: DTZ001 (that is the point)


def test_a_job_that_submits_itself_for_ever_is_told_so(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "_MOST", 50)
    log.registry.job("again")(lambda ctx, payload: log.harness.scheduler.submit("again"))
    log.harness.scheduler.submit("again")
    with pytest.raises(RuntimeError, match="submit itself for ever"):
        log.harness.advance()


# Jobs that take their time.


@dataclass
class Copying:
    """A job of five parts, twenty-five seconds each, and what happens after so many of them."""

    options: dict[str, Any] = field(default_factory=dict)
    after: dict[int, Callable[[], object]] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        registry = Registry()
        registry.job("copy", **self.options)(self._copy)
        self.harness = Harness(registry, at=START)
        self.submitted = self.harness.scheduler.submit("copy")

    def _copy(self, ctx: Context, payload: object) -> str:
        for part in range(1, 6):
            ctx.raise_if_cancelled()
            self.harness.clock.advance(timedelta(seconds=25))
            self.done.append(part)
            ctx.progress(part / 5, f"part {part}")
            self.after.get(part, int)()
        return "copied"

    @property
    def run(self) -> Run:
        return self.harness.scheduler.get_run(self.submitted.id)

    def cancel(self) -> None:
        self.harness.scheduler.cancel_run(self.submitted.id)


def test_a_long_job_keeps_its_lease_and_is_one_attempt() -> None:
    copying = Copying()
    (run,) = copying.harness.advance()
    assert (run.state, run.attempt, run.result) == (RunState.SUCCEEDED, 1, "copied")
    assert copying.harness.clock.now() == START + timedelta(seconds=125)


def test_a_job_sees_its_cancellation_at_the_next_heartbeat() -> None:
    copying = Copying()
    copying.after[2] = copying.cancel  # at 50 s; the beat at 60 s falls into the third part
    (run,) = copying.harness.advance()
    assert (run.state, run.reason, copying.done) == (RunState.CANCELLED, "requested", [1, 2, 3])


def test_others_see_its_progress_as_of_the_last_heartbeat() -> None:
    copying, seen = Copying(), list[tuple[float | None, str | None]]()
    copying.after[3] = lambda: seen.append((copying.run.progress, copying.run.stage))
    copying.harness.advance()
    assert seen == [(0.4, "part 2")], "the beat at 60 s; the third part ended at 75 s"


def test_a_heartbeat_may_be_asked_for() -> None:
    copying, seen = Copying(), list[float | None]()

    def look() -> None:
        copying.cancel()
        copying.harness.heartbeat()
        seen.append(copying.run.progress)

    copying.after[1] = look
    copying.harness.advance()
    assert (seen, copying.done, copying.run.state) == ([0.2], [1], RunState.CANCELLED)


def test_a_job_that_swallows_its_cancellation_is_cancelled_all_the_same() -> None:
    registry = Registry()

    @registry.job("deaf", cancel_grace=30)
    def deaf(ctx: Context, payload: object) -> str:
        own.scheduler.cancel_run(ctx.run_id)
        own.clock.advance(timedelta(seconds=51))
        assert ctx.cancelled
        return "done anyway"

    own = Harness(registry, at=START)
    own.scheduler.submit("deaf")
    (run,) = own.advance()
    assert (run.state, run.result) == (RunState.CANCELLED, None)
    assert run.reason == "did not end within 30 s of its cancellation"


def test_what_waits_beside_a_long_job_is_not_taken_twice() -> None:
    """Messages at hand are kept hidden while another one's job runs."""
    copying = Copying()
    others = [copying.harness.scheduler.submit("copy") for _ in range(3)]
    copying.harness.advance()
    assert [copying.harness.run(one.id).attempt for one in others] == [1, 1, 1]
    assert copying.done == [1, 2, 3, 4, 5] * 4


def test_a_job_that_lets_time_pass_does_not_end_the_call_in_which_it_runs() -> None:
    """``advance`` of 30 minutes ended after 22, with fires that had not run."""
    jobs, began = Registry(), list[str]()

    @jobs.job("slow")
    def slow(ctx: Context, payload: object) -> None:
        began.append(f"{ctx.scheduled_at:%H:%M}")
        if len(began) < 3:
            tested.advance(minutes=10)

    tested = Harness(jobs, at=datetime(2026, 8, 14, 20, 0, 30, tzinfo=UTC))
    tested.scheduler.create_schedule("slow", "slow", "*/5 * * * *", overlap="skip")
    tested.advance(minutes=45)
    assert f"{tested.clock.now():%H:%M:%S}" == "20:45:30"
    assert began == ["20:05", "20:20", "20:35", "20:40", "20:45"]
