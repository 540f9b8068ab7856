"""An endpoint that repeats a secret in the address to which it redirects: it is stored and logged nowhere."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest
from quarterjack import Registry, Retry
from quarterjack.ready_jobs.http import Secret, http_job
from quarterjack.ready_jobs.http.exchange import JobResponse
from quarterjack.testing import Harness

SECRET = "Tok-4711-Abc"


def _answers(location: str) -> Iterator[JobResponse]:
    yield JobResponse(status=302, headers={"location": location}, body=b"", is_whole=True)
    yield JobResponse(status=404, headers={}, body=b"", is_whole=True)


@pytest.mark.parametrize(
    "location",
    [f"https://[::{SECRET}]/", f"https://[{SECRET}]/", f"https://[{SECRET}", f"https://{SECRET}.example.com/"],
)
@pytest.mark.parametrize("resolves", [True, False])
def test_a_secret_in_the_target_of_a_redirect_is_seen_nowhere(
    location: str, resolves: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = _answers(location)

    def exchange(*_: object) -> JobResponse:
        return next(answers)

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, object, object, object, tuple[str, int]]]:
        if not resolves and host != "api.example.com":
            raise socket.gaierror(-2, "Name or service not known")
        return [(None, None, None, None, ("1.1.1.1", port))]

    monkeypatch.setattr(sys.modules["quarterjack.ready_jobs.http.send"], "exchange", exchange)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("API_TOKEN", SECRET)
    jobs = Registry()
    http_job(
        "api.call",
        url="https://api.example.com/",
        headers={"Authorization": Secret(env="API_TOKEN", form="Bearer {}")},
        method="GET",
        redirects=1,
        retry=Retry(max_attempts=1),
        allow_env_secrets=True,
        registry=jobs,
    )
    harness = Harness(jobs, at=datetime(2026, 5, 4, 12, tzinfo=UTC))
    run = harness.scheduler.submit("api.call")
    with caplog.at_level(logging.DEBUG):
        harness.advance()
    seen = harness.scheduler.get_run(run.id)
    assert seen.state == "DEAD"
    told: list[Mapping[str, object]] = [vars(record) for record in caplog.records]
    assert SECRET.lower() not in f"{seen} {told}".lower()
