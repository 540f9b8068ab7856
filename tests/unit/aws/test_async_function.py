"""The ticker hands shards over to itself: one asynchronous request, and False whenever nobody will take it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from quarterjack.services import hand_over_to
from quarterjack.settings import Settings
from quarterjack.ticker.fan_out import group_event

from tests.support.http_servers import VARIABLES

ROOT = Path(__file__).parents[3]


class Lambda(BaseHTTPRequestHandler):
    status: ClassVar[int]
    seen: ClassVar[list[tuple[str, str | None, Any]]]
    signatures: ClassVar[list[str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["X-Amz-Invocation-Type"], json.loads(body)))
        self.signatures.append(self.headers["Authorization"])
        self.send_response(self.status)
        if self.status >= 400:
            self.send_header("x-amzn-ErrorType", "AccessDeniedException")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    Lambda.status, Lambda.seen, Lambda.signatures = 202, [], []
    server = HTTPServer(("127.0.0.1", 0), Lambda)
    serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


def handing_over(endpoint: str) -> bool:
    settings = Settings(endpoint=endpoint, region="eu-west-1")
    return hand_over_to("acme-ticker", settings)(group_event([3, 4], 500))


def test_it_is_an_asynchronous_invocation_with_the_group(endpoint: str) -> None:
    assert handing_over(endpoint)
    assert Lambda.seen == [
        ("/2015-03-31/functions/acme-ticker/invocations", "Event", {"shards": [3, 4], "writes": 500})
    ]


@pytest.mark.parametrize("status", [403, 404, 200])
def test_what_was_not_accepted_is_said(endpoint: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    Lambda.status = status
    assert not handing_over(endpoint)
    assert ("invoke.failed" in caplog.messages) is (status >= 400)


def test_a_lambda_that_is_not_there_takes_nothing(endpoint: str) -> None:
    assert not handing_over("http://127.0.0.1:9")


def test_it_is_one_signed_request_and_botocore_is_not_loaded(endpoint: str) -> None:
    program = f"""
import sys
from quarterjack.services import hand_over_to
from quarterjack.settings import Settings
assert hand_over_to("acme-ticker", Settings(endpoint={endpoint!r}, region="eu-west-1"))({{}})
print("botocore.session" in sys.modules)
"""
    environ = {**VARIABLES, "PYTHONPATH": str(ROOT / "shared")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ)
    assert done.stdout.strip() == "False", done.stderr
    (signature,) = Lambda.signatures
    assert "/eu-west-1/lambda/aws4_request, SignedHeaders=" in signature
    assert "x-amz-invocation-type" in signature


def test_an_arn_is_encoded_in_the_path(endpoint: str) -> None:
    arn = "arn:aws:lambda:eu-west-1:123456789012:function:acme-ticker"
    settings = Settings(endpoint=endpoint, region="eu-west-1")
    assert hand_over_to(arn, settings)({})
    assert [path for path, *_ in Lambda.seen] == [f"/2015-03-31/functions/{quote(arn, safe='')}/invocations"]
