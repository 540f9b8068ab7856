"""Connections: kept, dropped, limited in time, trusted, and never shared with another process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from quarterjack.aws.connections import IDLE_TIMEOUT, Connections
from quarterjack.aws.errors import ConnectFailed, NoResponse
from quarterjack.aws.http_connection import HttpResponse
from quarterjack.aws.session import AwsSession
from quarterjack.errors import Misconfigured
from quarterjack.settings import SdkVariables

from tests.support.http_servers import HANG_UP, Service, certificate_in, connections_to, serving

HEADERS = {"content-length": "2", "x-amz-target": "T.Op"}
LONG, SHORT = 30.0, 0.3  # seconds: never reached, and soon


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def ask(connections: Connections, seconds: float = LONG) -> HttpResponse:
    return connections.post(HEADERS, b"{}", seconds)


# Kept.


def test_a_connection_is_used_again(service: Service) -> None:
    connections = connections_to(service.url)
    assert [ask(connections).status for _ in range(4)] == [200] * 4
    assert len(set(service.ports)) == 1


def test_a_connection_that_the_service_is_about_to_close_is_not_used_again(service: Service) -> None:
    connections = connections_to(service.url)
    service.answers.append((200, {"Connection": "close"}, b"{}"))
    assert [ask(connections).content for _ in range(2)] == [b"{}"] * 2
    assert len(set(service.ports)) == 2


@pytest.mark.parametrize(
    ("said", "is_kept"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n", False),  # of no request of ours
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>", False),
    ],
)
def test_a_connection_is_kept_if_its_response_has_an_end_and_nothing_follows(said: bytes, *, is_kept: bool) -> None:
    with answering(said) as url:
        connections = connections_to(url)
        ask(connections)
    assert len(connections._idle) == is_kept


@pytest.mark.parametrize(("idle", "connected"), [(IDLE_TIMEOUT, 1), (IDLE_TIMEOUT + 0.1, 2)])
def test_a_connection_that_was_idle_for_long_is_not_used_again(service: Service, idle: float, connected: int) -> None:
    clock = Clock()
    connections = connections_to(service.url, clock=clock)
    ask(connections)
    clock.now += idle
    ask(connections)
    assert len(set(service.ports)) == connected


def test_a_connection_that_was_closed_meanwhile_is_not_used_again(service: Service) -> None:
    connections = connections_to(service.url)
    ask(connections)
    connections._idle[0].sock.shutdown(socket.SHUT_RD)  # to us it looks as if the other side had closed
    ask(connections)
    assert len(set(service.ports)) == 2


def test_a_connection_that_fails_takes_its_idle_siblings_with_it(service: Service) -> None:
    """As after a freeze: the clock has stood still, and no close has arrived yet."""
    connections = connections_to(service.url)
    ask_side_by_side(connections, 3)
    assert len(connections._idle) == 3
    service.answers.append(HANG_UP)
    with pytest.raises(NoResponse):
        ask(connections)
    assert not connections._idle
    ask(connections)
    assert service.ports[-1] not in service.ports[:-1]


def ask_side_by_side(connections: Connections, count: int) -> None:
    """As many connections as requests: each is taken before the next, and all are given back."""
    with ExitStack() as stack:
        taken = [stack.enter_context(_one_taken(connections)) for _ in range(count)]
    assert len(taken) == count


@contextmanager
def _one_taken(connections: Connections) -> Iterator[None]:
    ask(connections)
    connection = connections._idle.pop()
    yield
    connections._idle.append(connection)


def test_an_interrupted_request_leaves_no_connection_whose_response_may_come(service: Service) -> None:
    connections = connections_to(service.url)
    ask(connections)

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    connections._idle[0].receive = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        ask(connections)
    assert not connections._idle


# Limited in time.


def test_a_silent_service_holds_a_request_until_its_deadline_and_no_longer(service: Service) -> None:
    connections = connections_to(service.url)
    service.silent.set()
    with pytest.raises(NoResponse, match=r"timed out|deadline"):
        ask(connections, SHORT)
    assert len(service.requests) == 1


def test_a_service_that_sends_a_byte_now_and_then_extends_no_deadline() -> None:
    """Each byte moves the clock on: so many of them are read as the deadline leaves room for."""
    clock, said, ended = Clock(), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.recv(1 << 16)
                client.sendall(said)
                ended.wait(LONG)

        thread = threading.Thread(target=serve)
        thread.start()
        connections = connections_to(f"http://127.0.0.1:{server.getsockname()[1]}", clock=clock)
        connection = connections._connected(LONG)
        real, read = connection.receive, list[bytes]()

        def slowly() -> bytes:
            clock.now += 1
            read.append(real(1))
            return read[-1]

        connection.receive = slowly  # type: ignore[method-assign, assignment]
        connections._idle.append(connection)
        with pytest.raises(NoResponse, match="deadline"):
            ask(connections, 10)
        ended.set()
        thread.join()
    assert len(read) == 9


def test_a_service_that_takes_no_connection_in_time_was_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        address = full.getsockname()
        for _ in range(3):  # fill the backlog: further connections are not answered
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        with pytest.raises(ConnectFailed, match="timed out"):
            ask(connections_to(f"http://127.0.0.1:{address[1]}"), SHORT)


# What is a response.


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n",  # it may have been cut anywhere: "no such row" is said as {}
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n!\r\n{}\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17),  # headers without an end
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_half_a_response_is_none(said: bytes) -> None:
    with answering(said) as url, pytest.raises(NoResponse):
        ask(connections_to(url))


@pytest.mark.parametrize(
    ("said", "status", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n", 200, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>", 502, b"<html>"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 200, b"{}"),
    ],
)
def test_a_whole_response_is_read_in_each_of_its_forms(said: bytes, status: int, content: bytes) -> None:
    with answering(said) as url:
        response = ask(connections_to(url))
    assert (response.status, response.content) == (status, content)


@contextmanager
def answering(said: bytes) -> Iterator[str]:
    """The URL of a server that says this to one request, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(said)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


# TLS and proxies.


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return certificate_in(tmp_path)


def trusting(certificate: Path | None, url: str) -> Connections:
    variables = SdkVariables(certificates=None if certificate is None else str(certificate))
    return Connections(f"{url}/", AwsSession(variables).trust)


def test_a_trusted_service_is_asked_over_one_connection(certificate: Path) -> None:
    with serving(certificate) as service:
        connections = trusting(certificate, service.url)
        assert [ask(connections).status for _ in range(3)] == [200] * 3
        assert len(set(service.ports)) == 1


def test_a_certificate_of_no_known_authority_is_refused(certificate: Path) -> None:
    with serving(certificate) as service:
        with pytest.raises(Misconfigured, match=r"certificate verify failed.*AWS_CA_BUNDLE"):
            ask(trusting(None, service.url))
        assert service.requests == []


def test_a_certificate_of_another_name_is_refused(certificate: Path) -> None:
    with serving(certificate) as service:
        with pytest.raises(Misconfigured, match=r"IP address mismatch.*AWS_CA_BUNDLE"):
            ask(trusting(certificate, service.url.replace("localhost", "127.0.0.1")))
        assert service.requests == []


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"AWS_CA_BUNDLE=.*missing\.pem"):
        ask(trusting(tmp_path / "missing.pem", "https://localhost:1"))


def test_a_proxy_is_asked_for_the_whole_url(service: Service) -> None:
    connections = connections_to("http://dynamodb.example:8000", proxy=service.url.replace("//", "//me:p%40ss@"))
    assert ask(connections).status == 200
    (request,) = service.requests
    assert request.path == "http://dynamodb.example:8000/"
    assert request.headers["host"] == "dynamodb.example:8000"
    assert request.headers["proxy-authorization"] == "Basic bWU6cEBzcw=="


def test_a_secure_service_is_reached_through_a_tunnel(certificate: Path) -> None:
    with serving(certificate) as service, tunnel() as (proxy, asked):
        session = AwsSession(SdkVariables(certificates=str(certificate)))
        connections = Connections(f"{service.url}/", session.trust, proxy=proxy)
        assert [ask(connections).status for _ in range(2)] == [200] * 2
        assert asked == [service.url.removeprefix("https://")]
        assert [request.path for request in service.requests] == ["/", "/"]


@contextmanager
def tunnel() -> Iterator[tuple[str, list[str]]]:
    """A proxy for one tunnel: its URL, and where it was asked to go."""
    asked: list[str] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(1 << 16):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            asked.append(client.recv(1 << 16).split()[1].decode())
            host, _, port = asked[0].partition(":")
            with client, socket.create_connection((host, int(port))) as beyond:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pump, args=(beyond, client))
                back.start()
                pump(client, beyond)
                back.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked


def test_a_tunnel_that_the_proxy_refuses_is_no_connection(certificate: Path) -> None:
    with answering(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as proxy:
        session = AwsSession(SdkVariables(certificates=str(certificate)))
        with pytest.raises(ConnectFailed, match="the proxy refused the tunnel: HTTP 407"):
            ask(Connections("https://localhost:1/", session.trust, proxy=proxy))


def test_a_line_break_in_a_header_is_refused_and_its_value_not_shown(service: Service) -> None:
    headers = HEADERS | {"x-amz-security-token": "secret\nx-amz-target: T.Other"}
    with pytest.raises(Misconfigured, match="AWS_SESSION_TOKEN") as problem:
        connections_to(service.url).post(headers, b"{}", LONG)
    assert "secret" not in str(problem.value)
    assert service.requests == []


def test_a_proxy_behind_tls_is_refused_with_the_remedy() -> None:
    with pytest.raises(Misconfigured, match="QUARTERJACK_AWS_CLIENT=botocore") as problem:
        connections_to("https://sqs.eu-west-1.amazonaws.com", proxy="https://me:secret@proxy:3128")
    assert "secret" not in str(problem.value)
