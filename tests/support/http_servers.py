"""HTTP services on the loopback for the tests of ``quarterjack.aws``: they answer from a list and note each request."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from quarterjack.aws.connections import Connections
from quarterjack.aws.session import AwsSession, Endpoint
from quarterjack.aws.transport import ATTEMPTS, Transport
from quarterjack.settings import Keys, SdkVariables

REGION = "eu-west-1"
KEYS = Keys("AKIAEXAMPLE", "secret", None)
VARIABLES = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/nowhere"}


class Request(NamedTuple):
    """One request as the service saw it."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: Any
    port: int  # of the client: of the connection

    @property
    def target(self) -> str:
        return self.headers["x-amz-target"]


Response = tuple[int, dict[str, str], bytes]
HANG_UP = None
OK: Response = (200, {}, b"{}")


class Service:
    """Gives its ``answers`` one by one, then OK; ``always`` goes before them."""

    def __init__(self) -> None:
        self.answers: list[Response | None] = []
        self.always: Response | None = None
        self.requests: list[Request] = []
        self.url = ""
        self.silent = threading.Event()  # while it is set nothing is answered
        self.heard = threading.Event()

    @property
    def ports(self) -> list[int]:
        return [request.port for request in self.requests]

    def next(self) -> Response | None:
        return self.always or (self.answers.pop(0) if self.answers else OK)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    service: Service

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is part of some tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write a response: two would wait for an acknowledgement
    server: Server

    def do_POST(self) -> None:
        service, body = self.server.service, self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        service.requests.append(Request(self.path, headers, json.loads(body), self.client_address[1]))
        service.heard.set()
        if service.silent.is_set():
            self.rfile.read(1)  # until the client hangs up
            self.close_connection = True
            return
        answer = service.next()
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, also, content = answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **also}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[Service]:
    """A service, behind TLS if there is a certificate."""
    server = Server(("127.0.0.1", 0), Handler)
    server.service = service = Service()
    service.url = f"http://127.0.0.1:{server.server_port}"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        service.url = f"https://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def connections_to(url: str, **also: Any) -> Connections:
    return Connections(f"{url}/", AwsSession(SdkVariables(keys=KEYS)).trust, **also)


def transport_to(
    url: str, waits: list[float] | None = None, *, service: str = "dynamodb", attempts: int = ATTEMPTS, **also: Any
) -> Transport:
    """A transport whose waits are noted instead of waited."""
    return Transport(
        service,
        Endpoint(url, REGION),
        lambda: KEYS,
        connections_to(url, **also),
        attempts=attempts,
        wait=(waits if waits is not None else []).append,
    )


def error(code: str, status: int = 400, **headers: str) -> Response:
    content = json.dumps({"__type": f"com.amazonaws#{code}", "message": "no"}).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, content


def certificate_in(folder: Path) -> Path:
    """A certificate of "localhost", which is its own authority; its key is in the same file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    yesterday = datetime.now(UTC) - timedelta(days=1)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), yesterday, yesterday + timedelta(days=2)
    )
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    for extension, critical in (
        (x509.SubjectAlternativeName([x509.DNSName("localhost")]), False),
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False),
        (
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **usage),
            True,
        ),
    ):
        made = made.add_extension(extension, critical=critical)
    both = folder / "both.pem"
    unencrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both.write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM) + unencrypted)
    return both
