"""Straight to a service behind TLS: only one whose certificate is trusted and says its name is told anything."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from minutehand.direct import Direct
from minutehand.settings import Keys
from minutehand.transport import Transport, Unreachable


class Service(BaseHTTPRequestHandler):
    """Answers with nothing, and notes by which connection it was asked."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Whoever hangs up on it is nobody's concern."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of "localhost", and its own authority; its key is in the same file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    yesterday = datetime.now(UTC) - timedelta(days=1)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), yesterday, yesterday + timedelta(days=2)
    )
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    both = tmp_path / "both.pem"
    unencrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM) + unencrypted)
    return both


@pytest.fixture
def port(certificate: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    Service.asked.clear()
    server = Server(("127.0.0.1", 0), Service)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def asking(url: str, certificates: Path | None) -> Transport:
    keys = Keys("AKIAEXAMPLE", "secret", None, None if certificates is None else str(certificates))
    return Transport("dynamodb", Direct(url, "eu-west-1", keys), wait=lambda _: None)


def test_who_is_trusted_is_asked_over_one_connection(port: int, certificate: Path) -> None:
    over = asking(f"https://localhost:{port}/", certificate)
    assert [over.call("get_item", {}) for _ in range(3)] == [{}, {}, {}]
    assert len(Service.asked) == 3
    assert len(set(Service.asked)) == 1


def test_a_certificate_of_nobody_known_is_refused(port: int) -> None:
    with pytest.raises(Unreachable, match="certificate verify failed"):
        asking(f"https://localhost:{port}/", None).call("get_item", {})
    assert Service.asked == []


def test_a_certificate_of_another_name_is_refused(port: int, certificate: Path) -> None:
    with pytest.raises(Unreachable, match="IP address mismatch"):
        asking(f"https://127.0.0.1:{port}/", certificate).call("get_item", {})
    assert Service.asked == []
