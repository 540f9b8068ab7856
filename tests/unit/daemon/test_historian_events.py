"""The historian as a process on the local cloud: ends of runs reach a webhook, and the archive does not wait for it."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from quarterjack import Scheduler
from quarterjack.daemon.roles import run_historian
from quarterjack.domain.tenants.caller import role
from quarterjack.domain.times import DAY, SECOND
from quarterjack.fires.context import FireContext
from quarterjack.historian.archive import ArchiveFilter, read_archive
from quarterjack.ports.services import Services
from quarterjack.ready_jobs.http.webhook import signature
from quarterjack.services import connect, system_clock
from quarterjack.settings import Settings
from quarterjack.state.ending import bury
from quarterjack.state.lease import succeed
from quarterjack.undertaker.incidents import record_dead_run

from tests.support.builders import BOOM, a_run
from tests.support.command_line import typed
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


def test_an_incident_reaches_a_webhook(local_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a ticker writes it that was told of events: its record is in the stream."""
    monkeypatch.setenv("ACME_HOOK", f"whsec_{base64.b64encode(KEY).decode()}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(local_settings.endpoint))
    stop = threading.Event()
    with serving() as receiver:
        settings = replace(
            local_settings,
            events=f"webhook:{receiver.url}/hook",
            event_types="schedule.failing",
            event_secret="env:ACME_HOOK",
            event_networks="127.0.0.0/8",
        )
        services = connect(settings)
        _create_and_fail(services)
        process = threading.Thread(target=run_historian, args=(settings,), kwargs={"stop": stop, "period": 0.1})
        process.start()
        try:
            assert waited_for(lambda: bool(receiver.asked))
        finally:
            stop.set()
            process.join()
    document = json.loads(receiver.asked[0].body)
    assert (document["type"], document["data"]["schedule"]) == ("schedule.failing", "s")
    assert document["id"] == receiver.asked[0].headers["webhook-id"]


def test_the_command_writes_metrics_of_history_and_of_events(
    local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of the round in which SIGTERM comes are written by the history, and lost of events: two ends make two rounds."""
    monkeypatch.setenv("ACME_HOOK", f"whsec_{base64.b64encode(KEY).decode()}")
    monkeypatch.setenv("QUARTERJACK_EVENT_SECRET", "env:ACME_HOOK")
    monkeypatch.setenv("QUARTERJACK_EVENT_NETWORKS", "127.0.0.0/8")
    services = connect(local_settings)
    with serving() as receiver:
        monkeypatch.setenv("QUARTERJACK_EVENTS", f"webhook:{receiver.url}/hook")
        words = ("historian", "--embedded-metrics", "--period", "0.1")
        with typed(local_settings, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            arrived = []
            for number in (1, 2):
                _ended(services, late=60 * number)
                waited_for(lambda number=number: len(receiver.asked) >= number)  # type: ignore[misc]
                arrived.append(len(receiver.asked))
            waited_for(lambda: len(_archived(services)) == 6)
            process.terminate()
            out, err = process.communicate(timeout=30)
    assert arrived == [1, 2], err
    assert process.returncode == 0, err
    lines = {line["service"]: line for line in map(json.loads, out.splitlines())}
    history, events = lines[f"{local_settings.prefix}-historian"], lines[f"{local_settings.prefix}-events"]
    assert history["HistorianChanges"] == [6]
    assert events["EventChanges"][0] >= 3
    assert "EventsStopped" not in events


def _create_and_fail(services: Services) -> None:
    """A schedule that tells nobody, and a run of it that has failed for good."""
    now = system_clock() // SECOND * SECOND
    Scheduler("acme", services=services).create_schedule("s", "j", "0 0 1 1 *")
    run = a_run(now - SECOND, owner="acme/s")
    services.ledger.claim([run])
    leased = lease_of(services, run)
    buried = bury(fence=leased.fence, now=now, expires=now + DAY, reason="failed", failure=BOOM)
    moved = services.ledger.move(run.ref, buried)
    assert moved.run is not None
    context = FireContext(services=services, clock=system_clock, caller=role("undertaker"))
    assert record_dead_run(moved.run, context).put


def _ended(services: Services, *, late: int = 1) -> str:
    """A run that has succeeded, of a fire so many seconds ago."""
    now = system_clock() // SECOND * SECOND
    run = a_run(now - late * SECOND)
    services.ledger.claim([run])
    leased = lease_of(services, run)
    done = succeed(fence=leased.fence, now=now, expires=now + DAY, result="1")
    assert services.ledger.move(run.ref, done).applied
    return str(run.ref)


def _archived(services: Services) -> list[str]:
    now = system_clock()
    found = read_archive(services.archive, "acme", ArchiveFilter(since=now - DAY, until=now + DAY))
    return [line.kind for line in found]
