"""Answers that have to fit the schema of a wait: refused where they enter, and checked once more by the job."""

from __future__ import annotations

from typing import Any

import pytest
from quarterjack import Registry, Run, RunState
from quarterjack.errors import InvalidInput, UnknownJobWarning
from quarterjack.owner.runs import signal as sending
from quarterjack.testing import Harness

from tests.support.api import NOON

APPROVAL = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "by": {"type": "string", "maxLength": 20}},
    "required": ["ok"],
    "additionalProperties": False,
}


def harness(schema: Any = APPROVAL) -> Harness:
    jobs = Registry()

    @jobs.job("approve")
    def approve(ctx: Any, payload: Any) -> Any:
        if payload == "later":
            ctx.sleep(60)
        return ctx.wait_for("approval", timeout=3_600, schema=schema)

    return Harness(jobs, at=NOON)


def waiting(made: Harness, payload: Any = None) -> Run:
    run = made.scheduler.submit("approve", payload)
    made.advance()
    return made.scheduler.get_run(run.id)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({}, "payload.ok"),
        ({"ok": "yes"}, "payload.ok"),
        ({"ok": True, "of": 1}, "payload.of"),
        ([], "payload"),
        (None, "payload"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_by_its_field(payload: Any, field: str) -> None:
    made = harness()
    run = waiting(made)
    with pytest.raises(InvalidInput) as refused:
        made.scheduler.signal(run.id, "approval", payload)
    assert refused.value.field == field
    made.advance(minutes=2)
    assert made.scheduler.get_run(run.id).state is RunState.PARKED, "nothing was written"
    made.scheduler.signal(run.id, "approval", {"ok": True})
    made.advance()
    assert made.scheduler.get_run(run.id).result == {"ok": True}


def test_a_run_shows_the_schema_while_it_waits() -> None:
    made = harness()
    run = waiting(made)
    assert run.answer_schema == APPROVAL
    made.scheduler.signal(run.id, "approval", {"ok": False})
    made.advance()
    assert made.scheduler.get_run(run.id).answer_schema is None


def test_an_early_answer_that_does_not_fit_fails_the_run_for_good() -> None:
    made = harness()
    run = waiting(made, "later")
    assert made.scheduler.signal(run.id, "approval", {"ok": "yes"}).outcome.value == "accepted"
    made.advance(minutes=5)
    found = made.scheduler.get_run(run.id)
    assert (found.state, found.attempt, found.error_type) == (RunState.DEAD, 1, "Permanent")
    assert found.error == (
        "the answer to signal 'approval' does not fit the schema of the wait: payload.ok='yes': does not fit the schema of "
        "'approval'; give true or false"
    )


def test_an_early_answer_that_fits_is_the_answer() -> None:
    made = harness()
    run = waiting(made, "later")
    made.scheduler.signal(run.id, "approval", {"ok": True})
    made.advance(minutes=5)
    assert made.scheduler.get_run(run.id).result == {"ok": True}


def test_a_later_answer_is_told_the_first_one_also_if_it_does_not_fit() -> None:
    made = harness()
    run = waiting(made)
    made.scheduler.signal(run.id, "approval", {"ok": True})
    assert made.scheduler.signal(run.id, "approval", {"ok": 7}).outcome.value == "answered"


@pytest.mark.parametrize("schema", [{"type": "objekt"}, "object", {"$ref": "https://elsewhere"}, {"pattern": "(?=x)"}])
def test_a_schema_that_cannot_be_used_fails_the_attempt(schema: Any) -> None:
    made = harness(schema)
    run = made.scheduler.submit("approve")
    made.advance()
    found = made.scheduler.get_run(run.id)
    assert (found.state, found.error_type) == (RunState.RETRYING, "InvalidInput")
    assert found.error is not None
    assert found.error.startswith("schema")


def test_without_the_engine_the_sender_is_warned_and_the_job_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = harness()
    run = waiting(made)
    with monkeypatch.context() as patched:
        patched.setattr(sending, "is_engine_installed", lambda: False)
        with pytest.warns(UnknownJobWarning, match="checked by the job only"):
            receipt = made.scheduler.signal(run.id, "approval", 1)
    assert receipt.outcome.value == "accepted"
    made.advance()
    assert made.scheduler.get_run(run.id).state is RunState.DEAD
