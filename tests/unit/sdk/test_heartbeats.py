"""Heartbeats of something started elsewhere: a wait lasts while they come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from quarterjack import Registry, Run, RunState
from quarterjack.cli.app import run as command
from quarterjack.domain.names import callback_token
from quarterjack.domain.times import from_ms
from quarterjack.errors import Conflict, InvalidInput, WaitTimedOut
from quarterjack.testing import Harness

from tests.support.api import NOON, Api


def waiting(heartbeat: Any = 600, timeout: float = 7_200, **options: Any) -> tuple[Harness, Run, str]:
    """A run whose wait lasts ten minutes without a heartbeat, and two hours at most."""
    jobs = Registry()

    @jobs.job("encode")
    def encode(ctx: Any, payload: Any) -> Any:
        try:
            return ctx.wait_for("encoded", timeout=timeout, heartbeat=heartbeat)
        except WaitTimedOut as problem:
            return str(problem)

    harness = Harness(jobs, at=NOON)
    run = harness.scheduler.submit("encode", **options)
    harness.advance()
    return harness, harness.scheduler.get_run(run.id), callback_token(run.id, "encoded")


def test_without_a_heartbeat_the_wait_times_out() -> None:
    harness, run, _ = waiting()
    assert run.wake_at is not None
    assert timedelta(minutes=9) < run.wake_at - NOON < timedelta(minutes=11)
    harness.advance(minutes=20)
    assert "no signal 'encoded' and no heartbeat came until" in harness.scheduler.get_run(run.id).result


def test_it_lasts_while_heartbeats_come_and_then_takes_the_result() -> None:
    harness, run, token = waiting()
    for _ in range(6):
        harness.advance(minutes=8)
        beaten = harness.scheduler.heartbeat(token)
        until = from_ms(harness.scheduler.session.clock()) + timedelta(minutes=10)
        assert (beaten.state, beaten.wake_at) == (RunState.PARKED, until)
    harness.advance(minutes=8)
    harness.scheduler.complete(token, "a.mp4")
    harness.advance()
    found = harness.scheduler.get_run(run.id)
    assert (found.result, found.attempt) == ("a.mp4", 1)


def test_no_heartbeat_reaches_beyond_the_timeout() -> None:
    harness, run, token = waiting(timeout=1_200)
    harness.advance(minutes=8)
    harness.scheduler.heartbeat(token)
    harness.advance(minutes=8)
    ends = harness.scheduler.heartbeat(token).wake_at
    assert ends is not None
    assert ends - NOON < timedelta(minutes=21)
    harness.advance(minutes=15)
    assert "came until" in harness.scheduler.get_run(run.id).result


def test_no_heartbeat_reaches_beyond_the_deadline() -> None:
    harness, run, token = waiting(deadline=900)
    harness.advance(minutes=8)
    harness.scheduler.heartbeat(token)
    harness.advance(minutes=9)
    assert harness.scheduler.get_run(run.id).state is RunState.EXPIRED


def test_a_heartbeat_after_the_end_is_refused() -> None:
    harness, run, token = waiting()
    harness.advance(minutes=20)
    with pytest.raises(Conflict, match="SUCCEEDED"):
        harness.scheduler.heartbeat(token)
    harness, run, token = waiting()
    harness.scheduler.cancel_run(run.id)
    with pytest.raises(Conflict, match="CANCELLED"):
        harness.scheduler.heartbeat(token)


def test_a_heartbeat_before_the_run_has_parked_changes_nothing() -> None:
    harness, _, _ = waiting()
    run = harness.scheduler.submit("encode", delay=600)
    assert harness.scheduler.heartbeat(callback_token(run.id, "encoded")).state is RunState.QUEUED


def test_a_wait_that_needs_no_heartbeat_or_another_signal_says_so() -> None:
    harness, run, token = waiting(heartbeat=None)
    with pytest.raises(Conflict, match="needs no heartbeats"):
        harness.scheduler.heartbeat(token)
    with pytest.raises(Conflict, match="not for signal 'other'"):
        harness.scheduler.heartbeat(callback_token(run.id, "other"))
    with pytest.raises(InvalidInput, match="token="):
        harness.scheduler.heartbeat(token[:-3])


@pytest.mark.parametrize("heartbeat", [0, -1, "soon", timedelta(0), 10**9])
def test_a_heartbeat_is_a_time_over_zero(heartbeat: Any) -> None:
    _, run, _ = waiting(heartbeat)
    assert run.error is not None
    assert run.error.startswith("heartbeat=")


def test_by_command_and_by_http(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    harness, _, token = waiting()
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", harness.scheduler)
    assert command(["runs", "heartbeat", token]) == 0
    assert "PARKED" in capsys.readouterr().out
    api = Api(scheduler=harness.scheduler)
    assert api.post(f"/callbacks/{token}/heartbeat")["state"] == "PARKED"
    assert api.problem("POST", f"/callbacks/{token[:-1]}/heartbeat")[1]["field"] == "token"
