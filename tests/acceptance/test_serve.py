"""``quarterjack serve`` on the local cloud, beside a worker: from a request to the run's result, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from quarterjack import Settings
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.processes import variables

pytestmark = [pytest.mark.check, pytest.mark.cloud]

ROOT = Path(__file__).parents[2]
JOBS = """
from quarterjack import job


@job("served.greet")
def greet(ctx, payload):
    return f"Hello {payload['to']}"
"""


@pytest.fixture
def environ(local_cloud: LocalCloud, local_settings: Settings, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "served_jobs.py").write_text(JOBS)
    path = os.pathsep.join([str(tmp_path), str(ROOT / "shared"), str(ROOT)])
    return {**os.environ, **local_cloud.environment, **variables(local_settings), "PYTHONPATH": path}


@pytest.fixture
def client(environ: dict[str, str]) -> Iterator[httpx.Client]:
    words = [sys.executable, "-m", "quarterjack", "--json", "serve", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        headers = {"Authorization": f"Bearer {said['key']}"}
        try:
            with httpx.Client(base_url=said["url"], headers=headers, timeout=60, trust_env=False) as found:
                yield found
        finally:
            server.terminate()
            assert server.wait(timeout=60) == 0


def test_a_run_is_submitted_and_its_result_awaited(client: httpx.Client, environ: dict[str, str]) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "quarterjack", "worker", "--jobs", "served_jobs", "--grace", "1"],
        stderr=subprocess.DEVNULL,
        env=environ,
    )
    try:
        base = "/v1/tenants/default"
        body: dict[str, Any] = {"job": "served.greet", "payload": {"to": "Ada"}}
        answers = [client.post(f"{base}/runs", json=body, headers={"Idempotency-Key": "a1"}) for _ in range(2)]
        assert {answer.status_code for answer in answers} == {201}
        first, again = (answer.json() for answer in answers)
        assert first["id"] == again["id"]
        for _ in range(3):  # each waits for 20 s
            run = client.get(f"{base}/runs/{first['url_id']}?wait=20").json()
            if run["state"] == "SUCCEEDED":
                break
        assert (run["state"], run["result"]) == ("SUCCEEDED", "Hello Ada")
        made = client.put(
            f"{base}/schedules/a~b",
            json=body | {"expression": "0 * * * *"},
            headers=[(b"quarterjack-reason", "Prüfung".encode())],
        )
        assert made.status_code == 201
        line = client.get(f"{base}/audit?schedule=a/b").json()["items"][0]
        assert (line["via"], line["reason"]) == ("api", "Prüfung")
        assert line["actor"].startswith("iam:")
    finally:
        worker.terminate()
        worker.wait(timeout=60)
