from __future__ import annotations

import asyncio
from typing import Any

import pytest
from quarterjack.web import create_app
from quarterjack.web.authentication import KeyAccess

from tests.support.api import Api, AsgiClient

HOSTS = ("127.0.0.1", "localhost")
RUN = {"job": "greet", "payload": {"to": "Ada"}}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8642", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:1", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_on_loopback_another_name_is_refused(host: str, status: int) -> None:
    """A page may let its own name point to 127.0.0.1; its requests then carry that name."""
    api = Api(hosts=HOSTS)
    assert api.ask("GET", "/schedules", Host=host).status_code == status


@pytest.mark.parametrize("site", ["cross-site", "same-site", "other"])
def test_a_page_of_another_site_changes_nothing(site: str) -> None:
    api = Api()
    status, said = api.problem("POST", "/runs", RUN, Sec_Fetch_Site=site)
    assert (status, said["code"]) == (403, "forbidden")
    assert api.ask("GET", "/schedules", Sec_Fetch_Site=site).status_code == 200
    assert api.harness.runs() == []


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_a_page_of_this_site_and_a_program_may(site: str) -> None:
    assert Api().ask("POST", "/runs", RUN, Sec_Fetch_Site=site).status_code == 201


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_form_of_a_page_is_no_json(kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = Api().client.post("/v1/tenants/default/runs", content='{"job": "greet"}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")


def test_a_body_is_bounded_whether_it_announces_its_length_or_not() -> None:
    api = Api(max_body=1_000)
    large = {"job": "greet", "payload": {"to": "x" * 2_000}}
    status, said = api.problem("POST", "/runs", large)
    assert (status, said["code"]) == (413, "too-large")

    async def pieces() -> Any:
        for _ in range(3):
            yield b" " * 500

    headers = {"Content-Type": "application/json"}
    answer = api.client.post("/v1/tenants/default/runs", content=pieces(), headers=headers)
    assert answer.status_code == 413
    assert api.post("/runs", RUN, 201)


def test_every_answer_may_be_kept_by_nobody_and_framed_by_nobody() -> None:
    api = Api()
    for answer in (api.ask("GET", "/schedules"), api.ask("GET", "/none"), api.client.get("/healthz")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_it_is_mounted_below_a_path_of_another_application() -> None:
    from fastapi import FastAPI

    api, host = Api(), FastAPI()
    host.mount("/quarterjack", create_app(api.scheduler, access=KeyAccess("k")))
    client = AsgiClient(host, {"Authorization": "Bearer k"})
    made = client.post("/quarterjack/v1/tenants/default/runs", json=RUN)
    assert made.status_code == 201
    assert made.headers["location"].startswith("/quarterjack/v1/tenants/default/runs/")
    assert client.get(made.headers["location"]).status_code == 200
    assert client.get("/quarterjack/v1/tenants/default/none").headers["content-type"] == "application/problem+json"


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error() -> None:
    api, sent = Api(), list[Any]()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/tenants/default/runs",
        "raw_path": b"",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer k"), (b"content-type", b"application/json")],
        "server": ("localhost", 80),
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    asyncio.run(api.app(scope, receive, send))
    assert api.harness.runs() == []
