"""Secrets of isolated jobs: their worker looks them up, and their process masks them."""

from __future__ import annotations

import json

import pytest
from quarterjack import RunState
from quarterjack.masking import MASK

from tests.support.scenes.isolated_jobs import Stage

HUSH = "hush/é 0123456789"


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.services.secrets.put("acme", "crm", HUSH)
    stage.services.secrets.put("beta", "crm", "other-0123456789")
    stage.services.secrets.put("beta", "theirs", "other-0123456789")
    return stage


def stored(stage: Stage) -> str:
    return repr([row for table in stage.memory._tables.values() for row in table])


@pytest.mark.parametrize(
    ("how", "state", "text"),
    [
        ("return", RunState.SUCCEEDED, f"{{'token': '{MASK}', 'length': {len(HUSH)}}}"),
        ("raise", RunState.DEAD, f"no login with {MASK}"),
        ("step", RunState.DEAD, "the result of step 'login' holds the secret 'crm'"),
    ],
)
def test_the_secret_of_the_runs_tenant_is_there_and_stays(
    stage: Stage, capfd: pytest.CaptureFixture[str], how: str, state: RunState, text: str
) -> None:
    run = stage.run("secretive", {"name": "crm", "how": how})
    assert (run.state, text in f"{run.result} {run.error}") == (state, True)
    lines = capfd.readouterr().err
    (line,) = [json.loads(line) for line in lines.splitlines() if "sent " in line]
    assert (line["event"], line["tenant"]) == (f"sent {MASK}", "acme")
    for form in (HUSH, json.dumps(HUSH)[1:-1], "0123456789"):
        assert form not in stored(stage) + lines


def test_the_stage_that_its_worker_is_told_is_masked(stage: Stage) -> None:
    run = stage.run("secretive", {"name": "crm", "how": "stage"})
    assert run.state is RunState.SUCCEEDED, run.error
    assert (run.stage, "hush" in stored(stage)) == (None, False)


def test_a_coroutine_has_it_too(stage: Stage) -> None:
    assert stage.run("secretive-async", "crm").result == len(HUSH)


@pytest.mark.parametrize(
    ("name", "kind"), [("theirs", "Misconfigured"), ("../beta/theirs", "InvalidInput"), ("beta/theirs", "InvalidInput")]
)
def test_another_tenants_is_not_to_be_had(stage: Stage, name: str, kind: str) -> None:
    run = stage.run("secretive", {"name": name, "how": "return"})
    assert (run.error_type, run.result) == (kind, None)
