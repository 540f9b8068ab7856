"""``make contract ENDPOINT=…``: which cloud it is, and what is expected to fail there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import endpoints


@pytest.fixture
def answering() -> Iterator[tuple[str, list[str]]]:
    """A server, and the paths for which it answers."""
    known: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in known else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", known
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/_localstack/health", "localstack"),
        ("/moto-api/", "moto"),
        ("/_ministack/health", "ministack"),
        ("", "endpoint"),
    ],
)
def test_an_engine_is_known_by_a_route_of_its_own(answering: tuple[str, list[str]], path: str, name: str) -> None:
    url, known = answering
    known.append(path)
    assert endpoints.engine_at.__wrapped__(url + "/") == name


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://dynamodb.eu-central-1.amazonaws.com", "make aws-proof"),
        ("localhost:4566", "is not a URL"),
        ("", "is not a URL"),
    ],
)
def test_what_is_no_emulator_is_refused(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        endpoints.checked(url)


def test_nothing_there_is_told(answering: tuple[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="does not answer"):
        endpoints.engine_at.__wrapped__("http://127.0.0.1:1")


def test_known_faults_are_expected_strictly_and_slow_ones_skipped() -> None:
    def item(node: str) -> Any:
        marks: list[Any] = []
        place = SimpleNamespace(name=node.partition("::")[0])
        return SimpleNamespace(nodeid=f"tests/contract/{node}", path=place, add_marker=marks.append, marks=marks)

    fault, slow, fine, own = (
        item("test_batch_failures.py::test_throttled_claims_are_made_in_a_later_round[ThrottlingError]"),
        item("test_many.py::test_two_tickers_and_two_workers_run_every_fire_once"),
        item("test_batch_failures.py::test_anything_else"),
        item("test_local_command.py::test_it"),
    )
    assert endpoints.amend([fault, slow, fine, own], "moto") == [own]
    assert [(mark.name, mark.kwargs.get("strict")) for mark in (*fault.marks, *slow.marks)] == [
        ("xfail", True),
        ("skip", None),
    ]
    assert fine.marks == []
    assert endpoints.amend([fault], "localstack") == []
    assert len(fault.marks) == 1
