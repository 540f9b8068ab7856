"""No secret of a payload reaches the ledger, the logs or a notice by an error of the job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from quarterjack import Context, Redact, Registry, Retry
from quarterjack.errors import InvalidInput
from quarterjack.testing import Harness

HUSH = "hush-0123"
NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def raising(payload: Any) -> None:
    raise ValueError(f"cannot log in as {payload['user']} with {payload['password']}")


def checking(payload: Any) -> None:
    raise InvalidInput("payload", payload, "is wrong", "correct it")


def chained(payload: Any) -> None:
    try:
        raising(payload)
    except ValueError as problem:
        raise RuntimeError("no login") from problem


def coded(payload: Any) -> None:
    class Odd(Exception):
        code = payload["password"]

    raise Odd


def long(payload: Any) -> None:
    raise ValueError("x" * 1_995 + payload["password"])


@pytest.mark.parametrize("body", [raising, checking, chained, coded, long])
def test_no_error_repeats_a_secret_of_the_payload(body: Any, caplog: pytest.LogCaptureFixture) -> None:
    jobs = Registry()

    @jobs.job("login", retry=Retry(max_attempts=2))
    def login(ctx: Context, payload: Any) -> None:
        body(payload)

    harness = Harness(jobs, at=NOON)
    topic = "arn:aws:sns:eu-west-1:123456789012:failures"
    payload = {"password": HUSH, "user": "ada"}
    harness.scheduler.create_schedule("a", "login", "1 12 * * *", timezone="UTC", payload=payload, on_failure=topic)
    harness.advance(hours=1)
    (run,) = harness.scheduler.list_runs("a").items
    run = harness.scheduler.get_run(run.id)
    (dead,) = harness.scheduler.list_dead().items
    (notice,) = harness.notices
    logged = caplog.text + repr([vars(record) for record in caplog.records])
    told = repr((run.error, run.reason, run.error_code, run.failed_attempts, dead, notice)) + logged
    assert run.state == "DEAD"
    assert "[redacted]" in told
    assert "hush" not in told


def test_a_job_names_its_own_fields() -> None:
    jobs = Registry()

    @jobs.job("pay", redact=Redact(fields=("iban",)), retry=Retry(max_attempts=1))
    def pay(ctx: Context, payload: Any) -> None:
        raise ValueError(f"no account {payload['iban']}")

    harness = Harness(jobs, at=NOON)
    run = harness.scheduler.submit("pay", {"iban": "DE-77-01"})
    harness.advance(minutes=1)
    assert harness.scheduler.get_run(run.id).error == "no account [redacted]"
    with pytest.raises(InvalidInput, match="redact"):
        jobs.job("other", redact=("iban",))  # type: ignore[arg-type]


def test_a_result_that_cannot_be_kept_is_not_told() -> None:
    jobs = Registry()

    @jobs.job("odd")
    def odd(ctx: Context, payload: Any) -> Any:
        return {"token": HUSH, "at": object()}

    harness = Harness(jobs, at=NOON)
    run = harness.scheduler.submit("odd", None)
    harness.advance(minutes=1)
    assert "not kept" in str(harness.scheduler.get_run(run.id).reason)
    assert "hush" not in repr(harness.scheduler.get_run(run.id))
