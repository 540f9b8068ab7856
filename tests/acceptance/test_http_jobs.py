"""HTTP jobs on the local cloud: submitted by the SDK and the command line, done by a worker as it runs on containers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from quarterjack import Registry, Retry, Scheduler
from quarterjack.cli.app import app
from quarterjack.daemon.roles import worker_process
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import variables
from quarterjack.ready_jobs.http import http_job
from quarterjack.settings import Settings
from quarterjack.testing.cloud import fresh_settings
from typer.testing import CliRunner

from tests.support.http_endpoint import Endpoint, serving

pytestmark = pytest.mark.cloud


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as made:
        yield made


@pytest.fixture
def working(local_cloud: LocalCloud) -> Iterator[tuple[Settings, Registry]]:
    settings, jobs, stop = fresh_settings(local_cloud), Registry(), threading.Event()
    http_job("http", retry=Retry(max_attempts=3, base=1.0), networks=("127.0.0.0/8",), registry=jobs)
    process = worker_process(settings, jobs, concurrency=4)
    worker = threading.Thread(target=process.run, kwargs={"stop": stop, "grace": 10})
    worker.start()
    yield settings, jobs
    stop.set()
    worker.join()


def test_a_request_is_made_again_until_it_succeeds(working: tuple[Settings, Registry], endpoint: Endpoint) -> None:
    settings, jobs = working
    endpoint.answers(503, (200, {}, b"x" * 600))
    scheduler = Scheduler(settings=settings, jobs=jobs)
    run = scheduler.wait_for(scheduler.submit("http", {"url": endpoint.url, "body": {"a": 1}}).id, timeout=60)
    assert (run.state, run.attempt, len(run.result["body"])) == ("SUCCEEDED", 2, 600)
    assert [asked.body for asked in endpoint.asked] == [b'{"a":1}'] * 2
    assert {asked.headers["idempotency-key"] for asked in endpoint.asked} == {run.id}


def test_the_command_line_submits_it(
    working: tuple[Settings, Registry], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, jobs = working
    where = {"AWS_ENDPOINT_URL": str(settings.endpoint), "AWS_REGION": str(settings.region)}
    for name, value in (variables(settings) | where).items():
        monkeypatch.setenv(name, value)
    payload = json.dumps({"url": f"{endpoint.url}/carts/7", "method": "DELETE", "expect": [200, 404]})
    done = CliRunner().invoke(app, ["submit", "http", "--payload", payload, "--key", "cart-7"])
    assert done.exit_code == 0, done.output
    run = Scheduler(settings=settings, jobs=jobs).wait_for("default/~cart-7#once", timeout=60)
    assert (run.state, run.result["status"]) == ("SUCCEEDED", 200)
    assert [(asked.method, asked.path) for asked in endpoint.asked] == [("DELETE", "/carts/7")]
