"""Callback tokens: an outside system completes or fails what a run waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from quarterjack import Registry, Run, RunState
from quarterjack.cli.app import run as command
from quarterjack.domain.names import callback_token
from quarterjack.errors import CallbackFailed, Conflict, InvalidInput, NotFound
from quarterjack.testing import Harness

from tests.support.api import NOON, Api

FITS = {"type": "string"}


def waiting() -> tuple[Harness, Run, str]:
    """A run that has handed out its token."""
    jobs, handed = Registry(), list[str]()

    @jobs.job("encode")
    def encode(ctx: Any, payload: Any) -> Any:
        handed.append(ctx.callback_token("encoded"))
        try:
            return ctx.wait_for("encoded", timeout=3_600, schema=FITS)
        except CallbackFailed as problem:
            if payload == "catch":
                return f"caught: {problem}"
            raise

    harness = Harness(jobs, at=NOON)
    run = harness.scheduler.submit("encode", "catch")
    harness.advance()
    return harness, run, handed[0]


def test_a_result_answers_the_wait() -> None:
    harness, run, token = waiting()
    receipt = harness.scheduler.complete(token, "a.mp4")
    assert (receipt.run_id, receipt.name, receipt.outcome.value) == (run.id, "encoded", "accepted")
    assert harness.scheduler.complete(token, "a.mp4").outcome.value == "repeated"
    later = harness.scheduler.fail(token, "a.mp4")
    assert (later.outcome.value, later.payload, later.error) == ("answered", "a.mp4", None)
    harness.advance()
    assert harness.scheduler.get_run(run.id).result == "a.mp4"


def test_a_failure_raises_in_the_job_and_binds_to_no_schema() -> None:
    harness, run, token = waiting()
    receipt = harness.scheduler.fail(token, "no disk")
    assert (receipt.outcome.value, receipt.payload, receipt.error) == ("accepted", None, "no disk")
    assert harness.scheduler.fail(token, "no disk").outcome.value == "repeated"
    assert harness.scheduler.complete(token, "no disk").outcome.value == "answered"
    harness.advance()
    assert harness.scheduler.get_run(run.id).result == "caught: signal 'encoded': no disk"


def test_a_failure_that_is_not_caught_fails_the_run_for_good() -> None:
    harness, _, _ = waiting()
    run = harness.scheduler.submit("encode")
    harness.advance()
    harness.scheduler.fail(callback_token(run.id, "encoded"), "no disk")
    harness.advance()
    found = harness.scheduler.get_run(run.id)
    assert (found.state, found.error_type, found.attempt) == (RunState.DEAD, "CallbackFailed", 1)


def test_a_result_has_to_fit() -> None:
    harness, _, token = waiting()
    with pytest.raises(InvalidInput, match="payload=7"):
        harness.scheduler.complete(token, 7)


@pytest.mark.parametrize("change", [None, 7, "", "qjt_", "qjt_!", "x", "cut", "more"])
def test_what_is_no_token_is_refused(change: Any) -> None:
    harness, run, token = waiting()
    changed = {"cut": token[:-1], "more": token + "A"}.get(change, change)
    with pytest.raises(InvalidInput, match="token="):
        harness.scheduler.complete(changed)
    with pytest.raises(InvalidInput, match="token="):
        harness.scheduler.fail(changed, "x")
    assert harness.scheduler.get_run(run.id).state is RunState.PARKED


def test_a_mistyped_token_is_refused_as_such() -> None:
    """Each wrong character, and each two that were swapped: the token of another run or signal would be looked up."""
    harness, run, token = waiting()
    body = range(len("qjt_"), len(token))
    wrong = [token[:at] + ("B" if token[at] == "A" else "A") + token[at + 1 :] for at in body]
    wrong += [token[:at] + token[at + 1] + token[at] + token[at + 2 :] for at in body[:-1]]
    for changed in {*wrong} - {token}:
        with pytest.raises(
            InvalidInput, match=r"token='qjt_.*; pass what ctx\.callback_token\(name\) returned"
        ) as refused:
            harness.scheduler.heartbeat(changed)
        assert "checksum" in str(refused.value) or changed[-1] != token[-1]
    assert harness.scheduler.complete(token, "a.mp4").run_id == run.id


def test_a_token_of_another_tenant_or_of_an_ended_run_is_refused() -> None:
    harness, run, token = waiting()
    with pytest.raises(NotFound):
        harness.scheduler.with_tenant("other").complete(token)
    harness.scheduler.cancel_run(run.id)
    with pytest.raises(Conflict):
        harness.scheduler.complete(token, "late")


@pytest.mark.parametrize("error", ["", " ", None, 7, "x" * 1_001])
def test_an_error_is_a_text(error: Any) -> None:
    harness, _, token = waiting()
    with pytest.raises(InvalidInput) as refused:
        harness.scheduler.fail(token, error)
    assert refused.value.field == "error"


def test_by_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    harness, _, token = waiting()
    monkeypatch.setattr("quarterjack.cli.shell.Shell.scheduler", harness.scheduler)
    assert command(["--json", "runs", "complete", token, "--result", '"a.mp4"']) == 0
    assert command(["--json", "runs", "fail", token, "no disk"]) == 0
    outcomes = [json.loads(line)["outcome"] for line in capsys.readouterr().out.splitlines()]
    assert outcomes == ["accepted", "answered"]
    assert command(["runs", "complete", token[:-2]]) == 1
    assert "token" in capsys.readouterr().err


def test_by_http() -> None:
    harness, _, token = waiting()
    api = Api(scheduler=harness.scheduler)
    assert api.problem("POST", f"/callbacks/{token}/complete", 7)[1]["field"] == "payload"
    assert api.problem("POST", f"/callbacks/{token}/fail", {"error": ""})[1]["field"] == "error"
    assert api.problem("POST", f"/callbacks/{token[:-1]}/fail", {"error": "x"})[1]["field"] == "token"
    receipt = api.post(f"/callbacks/{token}/fail", {"error": "no disk"})
    assert (receipt["outcome"], receipt["error"]) == ("accepted", "no disk")
    assert api.post(f"/callbacks/{token}/complete", "a.mp4")["outcome"] == "answered"
