"""Attempts that take too long, and what becomes of a thread that cannot be killed."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Context, Retry, RunState
from quarterjack.errors import LeaseLost

from tests.support.scenes.threads import Threads
from tests.support.scenes.world import World


def test_an_attempt_past_its_timeout_fails_and_its_thread_is_abandoned() -> None:
    threads, late = Threads(), []

    @threads.world.jobs.job("slow", timeout=30.0)
    def slow(ctx: Context, payload: Any) -> str:
        try:
            threads.began.set()
            threads.go_on.wait()
            ctx.step("late", lambda: late.append("effect"))
        except LeaseLost as problem:
            late.append(type(problem).__name__)
            raise
        finally:
            threads.over.set()
        return "nobody hears this"

    run = threads.start("slow")
    threads.skip(29)
    assert not threads.outcomes
    threads.skip(1)
    outcome = threads.end()
    assert (outcome.state, threads.abandoned) == (RunState.RETRYING, True)
    found = threads.look(run)
    assert (found.error_type, found.attempt) == ("Timeout", 1)
    assert found.error == "the attempt took longer than its timeout of 30 s"
    before = threads.world.memory.runs()
    threads.release()
    assert late == ["LeaseLost"], "its fence is gone: no effect, no record"
    assert threads.world.memory.runs() == before


def test_a_timeout_of_a_submission_goes_before_the_jobs_own() -> None:
    threads = Threads()

    @threads.world.jobs.job("slow", timeout=30.0)
    def slow(ctx: Context, payload: Any) -> None:
        threads.began.set()
        threads.go_on.wait()
        threads.over.set()

    run = threads.start("slow", timeout=5.0)
    threads.skip(5)
    threads.end()
    threads.release()
    assert threads.look(run).error_type == "Timeout"


@pytest.mark.parametrize(
    ("retry", "state"),
    [
        (Retry(), RunState.RETRYING),
        (Retry(retry_on=(TimeoutError,)), RunState.RETRYING),
        (Retry(retry_on=(ConnectionError,)), RunState.DEAD),
        (Retry(never_on=("Timeout",)), RunState.DEAD),
        (Retry(max_attempts=1), RunState.DEAD),
    ],
)
def test_a_timeout_is_classified_as_any_failure(retry: Retry, state: RunState) -> None:
    world = World()
    world.jobs.job("slow", timeout=1.0, retry=retry)(lambda ctx, payload: world.wait(2))
    run = world.scheduler.submit("slow")
    world.work()
    assert world.scheduler.get_run(run.id).state is state


def test_a_thread_whose_lease_was_lost_is_abandoned() -> None:
    threads = Threads()

    @threads.world.jobs.job("slow")
    def slow(ctx: Context, payload: Any) -> None:
        threads.began.set()
        threads.go_on.wait()
        threads.over.set()

    run = threads.start("slow")
    for ticket in threads.worker.heartbeat.all():
        ticket.lose()
    outcome = threads.end()
    assert (outcome.action, outcome.gone, threads.abandoned) == ("lost", False, True)
    assert threads.look(run).state is RunState.RUNNING
    threads.release()
    assert threads.look(run).state is RunState.RUNNING


def test_a_run_past_its_deadline_does_not_start() -> None:
    world = World()
    run = world.scheduler.submit("note", deadline=60.0)
    world.wait(61)
    world.work()
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.reason, found.attempt) == (RunState.EXPIRED, "deadline passed", 0)
    assert world.started == []
    assert len(world.memory.work) == 0


def test_no_attempt_starts_past_the_deadline_and_the_failure_says_so() -> None:
    world = World()
    run = world.scheduler.submit("bad", deadline=15.0, retry=Retry(max_attempts=5, base=10.0, jitter=0.0))
    world.live(60)
    found = world.scheduler.get_run(run.id)
    assert (found.state, found.attempt) == (RunState.DEAD, 2)
    assert found.reason == "failed, and the next attempt would be past the deadline"
    assert len(found.failed_attempts) == 2
