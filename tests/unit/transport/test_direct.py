"""Straight to a service that answers at a loopback address: the same as by botocore, and connections that are used again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import botocore.session
import pytest
from minutehand.aws import Client, translated
from minutehand.direct import Direct, direct_to
from minutehand.errors import Misconfigured, Unavailable
from minutehand.settings import Keys, Settings, plain_keys
from minutehand.transport import Refused, Transport, Unanswered, Unreachable

ROOT = Path(__file__).parents[3]
KEYS = Keys("AKIAEXAMPLE", "secret", None, None)
SAID = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/nowhere"}
Answer = tuple[int, dict[str, str], bytes]


class Service(BaseHTTPRequestHandler):
    """Answers one after the other; ``None`` hangs up instead."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[list[Answer | None]]
    asked: ClassVar[list[tuple[str, Any, int]]]  # operation, arguments, the client's port

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.headers["X-Amz-Target"], json.loads(body), self.client_address[1]))
        answer = self.answers.pop(0) if self.answers else (200, {}, b"{}")
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, content = answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Say nothing."""


@pytest.fixture
def service() -> Iterator[type[Service]]:
    class Mine(Service):
        answers: ClassVar[list[Answer | None]] = []
        asked: ClassVar[list[tuple[str, Any, int]]] = []

    with serving(Mine) as url:
        Mine.url = url  # type: ignore[attr-defined]
        yield Mine


@contextmanager
def serving(handler: type[Service]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def transport(service: Any, waits: list[float] | None = None) -> Transport:
    wait: Callable[[float], object] = (waits if waits is not None else []).append
    return Transport("dynamodb", Direct(service.url, "eu-west-1", KEYS), wait=wait)


def test_a_request_is_signed_and_its_answer_read(service: Any) -> None:
    content = b'{"Item": {"owner": {"S": "acme"}}}'
    service.answers.append((200, {"x-amz-crc32": str(crc32(content))}, content))
    assert transport(service).call("get_item", {"TableName": "t"}) == {"Item": {"owner": {"S": "acme"}}}
    ((target, arguments, _),) = service.asked
    assert (target, arguments) == ("DynamoDB_20120810.GetItem", {"TableName": "t"})


def test_a_connection_is_used_again_until_the_service_closes_it(service: Any) -> None:
    over = transport(service)
    service.answers += [(200, {}, b"{}"), (200, {"Connection": "close"}, b"{}")]
    for _ in range(4):
        over.call("get_item", {})
    first, second, third, fourth = (port for _, _, port in service.asked)
    assert first == second != third == fourth


def test_a_connection_that_was_dropped_meanwhile_is_not_used(service: Any) -> None:
    waits: list[float] = []
    over = transport(service, waits)
    link: Any = over._link
    over.call("get_item", {})
    link._kept[0].sock.shutdown(socket.SHUT_RD)  # to us it looks as if the other side had closed
    over.call("get_item", {})
    ports = [port for _, _, port in service.asked]
    assert len(set(ports)) == 2
    assert waits == []


def test_what_is_not_answered_is_asked_again(service: Any) -> None:
    waits: list[float] = []
    service.answers += [None, (200, {"x-amz-crc32": "1"}, b"{}"), (500, {}, b"")]
    assert transport(service, waits).call("update_item", {}) == {}
    assert len(service.asked) == 4
    assert len(waits) == 3


def test_after_four_attempts_it_is_unanswered(service: Any) -> None:
    service.answers += [None] * 4
    with pytest.raises(Unanswered, match=service.url):
        transport(service).call("update_item", {})
    assert len(service.asked) == 4


PASSING = [(408, b""), (429, b""), (503, b"<html>"), (400, b'{"__type": "com.amazon.coral#RequestTimeoutException"}')]


@pytest.mark.parametrize(("status", "content"), PASSING)
def test_what_may_be_over_soon_is_asked_again_and_unavailable_in_the_end(
    service: Any, status: int, content: bytes
) -> None:
    """A proxy's 408 to a connection that it grew tired of, for one."""
    service.answers.append((status, {}, content))
    assert transport(service).call("get_item", {}) == {}
    assert len(service.asked) == 2
    service.answers += [(status, {}, content)] * 4
    with pytest.raises(Refused) as refused:
        transport(service).call("get_item", {})
    assert len(service.asked) == 6
    assert isinstance(translated(refused.value.response, "get_item"), Unavailable)


def test_a_refusal_carries_what_came_with_it(service: Any) -> None:
    said = {"__type": "com.amazonaws#ConditionalCheckFailedException", "message": "no", "Item": {"a": {"S": "b"}}}
    service.answers.append((400, {}, json.dumps(said).encode()))
    with pytest.raises(Refused, match="ConditionalCheckFailedException") as refused:
        transport(service).call("put_item", {})
    assert refused.value.response["Item"] == {"a": {"S": "b"}}
    assert len(service.asked) == 1


def test_nobody_there_is_said_at_once(service: Any) -> None:
    waits: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    link = Direct(nobody, "eu-west-1", KEYS)
    with pytest.raises(Unreachable, match="could not connect"):
        Transport("sqs", link, wait=waits.append).call("send_message", {})
    assert waits == []


def test_what_was_sent_once_is_never_said_not_to_have_been(service: Any) -> None:
    """It hangs up over the first attempt, and is gone at the second."""
    service.answers.append(None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    link = Direct(service.url, "eu-west-1", KEYS)

    def gone(_: float) -> None:
        link._port = nobody

    with pytest.raises(Unanswered, match="sent before") as problem:
        Transport("dynamodb", link, wait=gone).call("update_item", {})
    assert not isinstance(problem.value, Unreachable)
    assert len(service.asked) == 1


@pytest.mark.parametrize("said", [b"<html>Welcome to our network</html>", b"[]", b"\xff"])
def test_what_no_service_says_is_no_answer(service: Any, said: bytes) -> None:
    service.answers.append((200, {}, said))
    assert transport(service).call("update_item", {}) == {}
    service.answers += [(200, {"x-amz-crc32": "none"}, b"{}")] * 4
    with pytest.raises(Unanswered, match="checksum"):
        transport(service).call("update_item", {})
    service.answers += [(200, {}, said)] * 4
    with pytest.raises(Unanswered, match="not JSON"):
        transport(service).call("update_item", {})


def test_threads_do_not_share_a_connection(service: Any) -> None:
    over, meet = transport(service), threading.Barrier(4)

    def ask(number: int) -> None:
        meet.wait()
        for _ in range(20):
            over.call("get_item", {"number": number})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(arguments["number"] for _, arguments, _ in service.asked) == sorted([0, 1, 2, 3] * 20)
    assert len({port for _, _, port in service.asked}) <= 4


# Where it is used, and where botocore is.


@pytest.mark.parametrize("service", ["dynamodb", "sqs"])
def test_endpoints_are_botocores(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every region that it knows in any partition: the same, or none."""
    for name, value in SAID.items():
        monkeypatch.setenv(name, value)
    session = botocore.session.get_session()
    found = 0
    for partition in session.get_available_partitions():
        for region in session.get_available_regions(service, partition_name=partition):
            link = direct_to(service, Settings(region=region))
            assert (link is not None) == (partition == "aws")
            if link is not None:
                found += 1
                assert link.url == session.create_client(service, region_name=region).meta.endpoint_url + "/"
    assert found > 30


@pytest.mark.parametrize(
    "also",
    [
        {"AWS_PROFILE": "work"},
        {"AWS_CONFIG_FILE": "/etc/aws"},
        {"HTTPS_PROXY": "http://proxy:3128"},
        {"AWS_CREDENTIAL_EXPIRATION": "2026-11-21T06:00:00Z"},
        {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_ACCESS_KEY_ID": ""},
    ],
)
def test_what_only_botocore_heeds_is_left_to_it(also: dict[str, str]) -> None:
    assert plain_keys(own_endpoint=False, environ=SAID) == KEYS
    assert plain_keys(own_endpoint=False, environ=SAID | also) is None


@pytest.mark.parametrize("odd", ["s3cret\n", "s3 cret", "s3cr\u00e9t", "\ufeffs3cret"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
def test_keys_that_no_request_can_carry_are_refused_and_not_shown(name: str, odd: str) -> None:
    with pytest.raises(Misconfigured, match=name) as problem:
        plain_keys(own_endpoint=False, environ=SAID | {name: odd})
    assert "s3" not in str(problem.value)


@pytest.mark.parametrize("name", ["config", "credentials"])
def test_a_file_of_profiles_is_left_to_botocore(name: str, tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / name).touch()
    assert plain_keys(own_endpoint=True, environ=SAID | {"HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:4566", "ftp://cloud/", "http://user@cloud/", "http:///", "http://cloud/?a=b"),
        *("http://cloud:99999/", "http://[::1/", "http://a..b/"),
    ],
)
def test_an_odd_endpoint_is_left_to_botocore(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SAID.items():
        monkeypatch.setenv(name, value)
    assert direct_to("sqs", Settings(endpoint=url, region="eu-west-1")) is None
    assert direct_to("sqs", Settings(endpoint="http://cloud:4566/aws", region="EU west")) is None
    assert direct_to("sqs", Settings(endpoint="http://cloud:4566/aws", region="eu-west-1")) is not None


def test_a_client_tells_how_long_it_waited_whatever_the_answer_was(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SAID.items():
        monkeypatch.setenv(name, value)
    service.answers += [(200, {}, b"{}"), (400, {}, b'{"__type": "AccessDeniedException"}')]
    waits: list[float] = []
    idle = iter([5.0, 5.25, 7.0, 7.5])
    settings = Settings(endpoint=service.url, region="eu-west-1")
    client = Client("dynamodb", settings, waited=waits.append, idle=lambda: next(idle))
    client.call("get_item")
    with pytest.raises(Misconfigured):
        client.call("get_item")
    assert waits == [0.25, 0.5]


def in_a_new_process(program: str, **also: str) -> str:
    environ = {
        **SAID,
        **also,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "shared"), str(ROOT)]),
        "AWS_REGION": "eu-west-1",
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CALL = """
from minutehand.aws import Client
from minutehand.settings import from_environment
client = Client("dynamodb", from_environment()){and_then}
print(client.call("get_item"))
import sys
print("botocore.session" in sys.modules)
"""


def test_who_asks_for_the_client_of_botocore_may_listen(service: Any) -> None:
    assert in_a_new_process(CALL.format(and_then=""), AWS_ENDPOINT_URL=service.url) == "{}\nFalse"
    listens = "\nclient.raw.meta.events.register('after-call', lambda parsed, **_: parsed.update(heard=True))"
    heard = in_a_new_process(CALL.format(and_then=listens), AWS_ENDPOINT_URL=service.url)
    assert heard == "{'heard': True}\nTrue"


def test_where_botocore_is_loaded_its_listeners_are_heard(service: Any) -> None:
    """As moto's are: registered with botocore itself, before our client is made."""
    listens = """
import botocore.handlers, botocore.session
botocore.handlers.BUILTIN_HANDLERS.append(("after-call", lambda parsed, **_: parsed.update(heard=True)))
"""
    heard = in_a_new_process(listens + CALL.format(and_then=""), AWS_ENDPOINT_URL=service.url)
    assert heard == "{'heard': True}\nTrue"


def test_a_fork_has_connections_of_its_own(service: Any) -> None:
    """Over its parent's, each could get the other's answers."""
    forks = (
        CALL.format(and_then="")
        + """
import os
child = os.fork()
print(client.call("get_item"), flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(0)
"""
    )
    in_a_new_process(forks, AWS_ENDPOINT_URL=service.url)
    ports = [port for _, _, port in service.asked]
    assert sorted(ports.count(port) for port in set(ports)) == [1, 2]
