"""Requests that name their service are answered as MiniStack's whole application answers them, and each response is written at once."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.emulator.requests import shortened
from quarterjack.local.emulator.serving import Joined
from quarterjack.local.engine import authorization

DYNAMODB, SQS = "DynamoDB_20120810.", "AmazonSQS."


def ask(cloud: LocalCloud, target: str, body: bytes, path: str = "/") -> tuple[int, dict[str, str], Any]:
    """Status, the headers that say something of the content, and the body of a response."""
    headers = authorization(cloud.credentials["AWS_ACCESS_KEY_ID"]) | {"X-Amz-Target": target}
    request = urllib.request.Request(cloud.endpoint + path, body, headers)
    try:
        answer = urllib.request.urlopen(request, timeout=10)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        named = {name.lower(): value for name, value in answer.headers.items()}
        assert named["x-amzn-requestid"]
        assert named["date"]
        kept = ("content-type", "x-amz-crc32", "x-amzn-errortype", "x-amzn-query-error")
        return answer.status, {name: named[name] for name in kept if name in named}, answer.read()


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (f"{DYNAMODB}ListTables", {"Limit": 1}),
        (f"{DYNAMODB}DescribeTable", {"TableName": "nowhere"}),
        (f"{DYNAMODB}Nothing", {}),
        (f"{SQS}GetQueueUrl", {"QueueName": "nowhere"}),
        (f"{SQS}ReceiveMessage", {"QueueUrl": "nowhere"}),
        (f"{SQS}Nothing", {}),
        (f"{DYNAMODB}ListTables", None),
        (f"{SQS}GetQueueUrl", None),
    ],
)
def test_the_direct_way_gives_the_answer_of_the_whole_way(local_cloud: LocalCloud, target: str, body: Any) -> None:
    content = b"no JSON" if body is None else json.dumps(body).encode()
    assert ask(local_cloud, target, content) == ask(local_cloud, target, content, "/?whole=way")


def test_each_caller_has_a_region_of_its_own(local_cloud: LocalCloud) -> None:
    def queues(region: str, action: str, **arguments: str) -> Any:
        key = local_cloud.credentials["AWS_ACCESS_KEY_ID"]
        signed = (
            f"AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/sqs/aws4_request, SignedHeaders=host, Signature=-"
        )
        headers = {"Authorization": signed, "X-Amz-Target": SQS + action}
        request = urllib.request.Request(local_cloud.endpoint, json.dumps(arguments).encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    queues("eu-central-1", "CreateQueue", QueueName="of-this-region")
    assert queues("eu-central-1", "ListQueues", QueueNamePrefix="of-this")["QueueUrls"]
    assert not queues("eu-west-1", "ListQueues", QueueNamePrefix="of-this").get("QueueUrls")


class Emulator(SimpleNamespace):
    """What the direct way needs of ``ministack.app``; it notes who answers."""

    def __init__(self, **changed: Any) -> None:
        self.answered = list[str]()
        self.lock = asyncio.Lock()
        context = {f"set_request_{name}": lambda _: None for name in ("account_id", "client_ip", "region")}
        super().__init__(
            AUTH=False,
            app=self._whole,
            SERVICE_HANDLERS={"dynamodb": self._direct, "sqs": self._failing},
            _get_reset_lock=lambda: self.lock,
            extract_access_key_id=lambda *_: "key",
            extract_region=lambda *_: "us-east-1",
            **context,
        )
        vars(self).update(changed)

    async def _whole(self, *_: Any) -> None:
        self.answered.append("whole")

    async def _direct(self, *_: Any) -> Any:
        self.answered.append("direct")
        return 200, {}, "{}"

    async def _failing(self, *_: Any) -> Any:
        raise RuntimeError("odd")


def sent(emulator: Emulator, *parts: Any, target: str = f"{DYNAMODB}GetItem", **changed: Any) -> list[dict[str, Any]]:
    """The messages that a request is answered with; ``parts`` of it are received."""
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "client": None} | changed
    if scope["type"] == "websocket":
        del scope["method"]
    scope["headers"] = [(b"X-Amz-Target", target.encode()), *changed.get("headers", [])]
    incoming, outgoing = list(parts or [{"type": "http.request", "body": b"{}"}]), list[dict[str, Any]]()

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        outgoing.append(message)

    async def answered() -> None:
        await shortened(emulator)(scope, receive, send)

    asyncio.run(answered())
    return outgoing


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "/bucket"},
        {"method": "PUT"},
        {"query_string": b"a=b"},
        {"headers": [(b"Content-Encoding", b"gzip")]},
        {"target": "Logs_20140328.PutLogEvents"},
        {"type": "lifespan"},
        {"type": "websocket"},
    ],
)
def test_every_other_request_goes_the_whole_way(changed: dict[str, Any]) -> None:
    emulator = Emulator()
    sent(emulator)
    sent(emulator, **changed)
    assert emulator.answered == ["direct", "whole"]


def test_a_reset_holds_requests_back() -> None:
    emulator = Emulator()
    emulator.lock._locked = True  # type: ignore[attr-defined]
    sent(emulator)
    assert emulator.answered == ["whole"]


def test_an_emulator_that_checks_keys_or_works_otherwise_is_left_as_it_is() -> None:
    checking, other = Emulator(AUTH=True), Emulator()
    del other.SERVICE_HANDLERS
    assert [shortened(checking), shortened(other)] == [checking.app, other.app]


def test_a_request_of_several_parts_is_put_together_and_one_that_is_cut_off_dropped() -> None:
    emulator, bodies = Emulator(), list[bytes]()

    async def handle(*request: Any) -> Any:
        bodies.append(request[3])
        return 200, {}, b"{}"

    emulator.SERVICE_HANDLERS["dynamodb"] = handle
    first = {"type": "http.request", "body": b"{", "more_body": True}
    assert sent(emulator, first, {"type": "http.request", "body": b"}"})[1]["body"] == b"{}"
    assert sent(emulator, first, {"type": "http.disconnect"}) == []
    assert bodies == [b"{}"]


def test_a_failure_of_the_emulator_is_answered_with_500() -> None:
    start, body = sent(Emulator(), target=f"{SQS}ReceiveMessage")
    assert start["status"] == 500
    assert json.loads(body["body"]) == {"__type": "InternalError", "message": "odd"}


def test_head_and_body_are_written_together() -> None:
    writes = list[bytes]()
    transport: Any = SimpleNamespace(
        write=writes.append, close=lambda: writes.append(b"closed"), is_closing=lambda: False
    )

    async def respond() -> None:
        joined = Joined(transport, asyncio.get_running_loop())
        joined.write(b"head ")
        joined.write(b"body")
        assert not writes
        await asyncio.sleep(0)
        joined.write(b"last")
        joined.close()
        assert not joined.is_closing(), "the transport's"

    asyncio.run(respond())
    assert writes == [b"head body", b"last", b"closed"]
