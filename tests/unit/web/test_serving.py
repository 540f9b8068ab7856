"""``quarterjack serve``, as a process on this machine. No cloud is asked: what is tried here comes before that."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[3]
ENVIRON = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)]),
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_MAX_ATTEMPTS": "1",
}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "quarterjack", "--json", "serve", *words]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    with subprocess.Popen(command("--port", "0"), stdout=subprocess.PIPE, text=True, env=ENVIRON) as process:
        assert process.stdout is not None
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def ask(server: Any, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server[1]['url']}{path}", headers=headers, timeout=30, trust_env=False)


def test_it_listens_on_loopback_and_gives_a_key_once(server: Any) -> None:
    assert server[1]["url"].startswith("http://127.0.0.1:")
    assert server[1]["key"].startswith("qjk_local_")
    assert len(server[1]["key"]) > 50
    health = ask(server, "/healthz")
    assert (health.status_code, "server" in health.headers) == (200, False)


def test_it_answers_who_has_the_key_and_comes_by_its_own_name(server: Any) -> None:
    key = f"Bearer {server[1]['key']}"
    assert ask(server, "/v1/tenants/default/schedules").status_code == 401
    assert ask(server, "/v1/tenants/default/schedules", Authorization=key, Host="evil.example").status_code == 421
    away = ask(server, "/v1/tenants/default/schedules", Authorization=key)
    assert (away.status_code, away.json()["code"]) == (503, "unavailable")


def test_a_port_that_is_taken_is_named(server: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(command("--port", port), capture_output=True, text=True, env=ENVIRON, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[-1])["field"] == "--port"


def test_it_ends_in_order(server: Any) -> None:
    process, _ = server
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
