"""A worker says at its start which secrets in variables it could not use."""

from __future__ import annotations

import base64
import logging

import pytest
from quarterjack import Registry
from quarterjack.daemon.worker_shell import tell_unusable_secrets
from quarterjack.ready_jobs.http import Secret, http_job
from quarterjack.ready_jobs.notifiers import pagerduty_notifier, webhook_notifier

SIGNING = f"whsec_{base64.b64encode(b'k' * 24).decode()}"


def declared(*, allowed: bool) -> Registry:
    jobs = Registry()
    webhook_notifier(
        "hook", url="https://1.1.1.1/", signing=Secret(env="SIGNING"), allow_env_secrets=allowed, registry=jobs
    )
    pagerduty_notifier("pager", routing_key=Secret(env="ROUTING"), allow_env_secrets=allowed, registry=jobs)
    headers = {"X-Key": Secret(env="TOKEN"), "X-Other": Secret(parameter="/acme/other")}
    http_job("call", url="https://1.1.1.1/", headers=headers, allow_env_secrets=allowed, registry=jobs)
    jobs.job("plain")(lambda ctx, payload: None)
    return jobs


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    for name, value in {"SIGNING": SIGNING, "ROUTING": "hush-0123", "TOKEN": "hush-4567"}.items():
        monkeypatch.setenv(name, value)


def told(jobs: Registry, caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    with caplog.at_level(logging.ERROR):
        count = tell_unusable_secrets(jobs)
    found = {vars(record)["job"]: vars(record)["error"] for record in caplog.records}
    assert len(found) == count
    assert "hush" not in repr(found)
    return found


def test_nothing_is_said_of_those_that_are_there(caplog: pytest.LogCaptureFixture) -> None:
    assert told(declared(allowed=True), caplog) == {}


def test_those_that_no_deployed_worker_reads_are_told(caplog: pytest.LogCaptureFixture) -> None:
    found = told(declared(allowed=False), caplog)
    assert found.keys() == {"hook", "pager", "call"}
    assert all("allow_env_secrets=True" in text for text in found.values())


def test_under_quarterjack_local_variables_are_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    assert told(declared(allowed=False), caplog) == {}


def test_one_that_is_missing_or_no_signing_secret_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOKEN")
    monkeypatch.setenv("SIGNING", "hush-hush-hush")
    found = told(declared(allowed=True), caplog)
    assert found.keys() == {"hook", "call"}
    assert "TOKEN is not set" in found["call"]
    assert "signing: what lies there is not a signing secret" in found["hook"]
