"""The historian as a process on the local cloud: ends of runs reach a webhook, and the archive does not wait for it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from minutehand.daemon.roles import run_historian
from minutehand.domain.times import DAY, SECOND
from minutehand.historian.archive_reader import ArchiveFilter, read_archive
from minutehand.ports.services import Services
from minutehand.ready_jobs.http.webhook import signature
from minutehand.services import connect, system_clock
from minutehand.settings import Settings
from minutehand.state.lease import succeed

from tests.support.builders import a_run
from tests.support.http_endpoint import serving
from tests.support.lease_steps import lease_of

pytestmark = pytest.mark.cloud

KEY = b"k" * 32


def waited_for(what: Callable[[], bool], seconds: float = 30.0) -> bool:
    pause = threading.Event()
    return any(what() or pause.wait(0.05) for _ in range(int(seconds / 0.05)))


def test_ends_reach_a_webhook_that_was_down_and_the_archive_did_not_wait(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_HOOK", f"whsec_{base64.b64encode(KEY).decode()}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(local_settings.endpoint))  # a secret in a variable is for a local cloud
    services, stop = connect(local_settings), threading.Event()
    with serving() as receiver:
        receiver.answers(503)
        settings = replace(
            local_settings,
            events=f"webhook:{receiver.url}/hook",
            event_secret="env:ACME_HOOK",
            event_networks="127.0.0.0/8",
        )
        process = threading.Thread(target=run_historian, args=(settings,), kwargs={"stop": stop, "period": 0.1})
        process.start()
        try:
            run = _ended(services)
            assert waited_for(lambda: len(_archived(services)) == 3), "while the receiver answers 503"
            assert waited_for(lambda: len(receiver.asked) > 1)
            tried = len(receiver.asked)
            receiver.answers(200)
            assert waited_for(lambda: len(receiver.asked) > tried)
        finally:
            stop.set()
            process.join()
    asked = receiver.asked[-1]
    assert len({one.headers["webhook-id"] for one in receiver.asked}) == 1
    at = int(asked.headers["webhook-timestamp"])
    assert asked.headers["webhook-signature"] == signature(KEY, asked.headers["webhook-id"], at, asked.body)
    assert json.loads(asked.body)["data"]["run"] == run


def _ended(services: Services) -> str:
    """A run that has succeeded."""
    now = system_clock() // SECOND * SECOND
    run = a_run(now - SECOND)
    services.ledger.claim([run])
    leased = lease_of(services, run)
    done = succeed(fence=leased.fence, now=now, expires=now + DAY, result="1")
    assert services.ledger.move(run.ref, done).applied
    return str(run.ref)


def _archived(services: Services) -> list[str]:
    now = system_clock()
    found = read_archive(services.archive, "acme", ArchiveFilter(since=now - DAY, until=now + DAY))
    return [line.kind for line in found]
