"""The API and the console of a local session: loaded by the first request, ended with the session. No cloud is asked."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from quarterjack.errors import InvalidInput
from quarterjack.extras import install_remedy
from quarterjack.local import front_door, loopback
from quarterjack.local.front_door import open_front_door
from quarterjack.local.session import session
from quarterjack.settings import Settings
from rich.console import Console

ROOT = Path(__file__).parents[3]
SETTINGS = Settings(endpoint="http://127.0.0.1:9", region="eu-central-1", tenant="acme")
NOT_LOADED = """
import sys
from quarterjack.local.front_door import open_front_door
from quarterjack.settings import Settings
with open_front_door(Settings(), 0, print) as address:
    assert address.url.startswith("http://127.0.0.1:")
print(*sys.modules)
"""


def ask(url: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{url}{path}", headers=headers, timeout=60, trust_env=False)


def test_a_session_that_nobody_asks_loads_no_framework() -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", NOT_LOADED], capture_output=True, text=True, check=True, env=environ, timeout=60
    )
    assert not {"fastapi", "uvicorn", "jinja2"} & set(done.stdout.split())


def test_the_first_request_is_answered_and_the_end_closes_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    problems: list[str] = []
    with open_front_door(SETTINGS, 0, problems.append) as address:
        assert ask(address.url, "/healthz").json()["status"] == "ok"
        assert ask(address.url, "/v1/tenants/acme/schedules").status_code == 401
        assert ask(address.url, "/healthz", Host="evil.example").status_code == 421
        assert ask(address.url, "/console/sign-in").status_code == 200
        sent = {"data": {"key": address.key}, "headers": {"Sec-Fetch-Site": "same-origin"}}
        opened = httpx.post(f"{address.url}/console/sign-in", trust_env=False, **sent)  # type: ignore[arg-type]
        assert (opened.status_code, "HttpOnly" in opened.headers["set-cookie"]) == (303, True)
    with pytest.raises(httpx.ConnectError):
        ask(address.url, "/healthz")
    assert problems == []


def test_the_usual_port_gives_way_and_one_that_was_asked_for_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(front_door, "PORT", port)
        with open_front_door(SETTINGS, None, print) as address:
            assert not address.url.endswith(f":{port}")
        with pytest.raises(InvalidInput, match="--port") as refusal, open_front_door(SETTINGS, port, print):
            pass
        assert (refusal.value.field, refusal.value.value) == ("--port", port)


def test_a_server_that_cannot_begin_says_so_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told, problems = threading.Event(), list[str]()

    def on_failure(problem: str) -> None:
        problems.append(problem)
        told.set()

    monkeypatch.setitem(sys.modules, "quarterjack.console.serving", None)
    with (
        open_front_door(SETTINGS, 0, on_failure) as address,
        socket.create_connection(("127.0.0.1", int(address.url.rpartition(":")[2]))),
    ):
        assert told.wait(30)
    assert problems[0].startswith("the API and the console ended: ModuleNotFoundError")


def test_without_the_extra_or_against_ones_will_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO())
    with session._served(session.LocalOptions(serves=False), SETTINGS, screen) as said:
        assert said == "No console and no HTTP API: --no-serve"
    monkeypatch.setattr(front_door, "_NEEDS", ("sys", "no_such_module"))
    with session._served(session.LocalOptions(), SETTINGS, screen) as said:
        assert said.endswith(f"no_such_module is not installed; {install_remedy('web')}")


def test_keys_are_of_one_start() -> None:
    assert loopback.new_key() != loopback.new_key()
    assert loopback.new_key().startswith("qjk_local_")
