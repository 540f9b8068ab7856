"""Nobody uses the local cloud without its key: no web page, no other process of this machine."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from quarterjack import Scheduler, Settings
from quarterjack.errors import Misconfigured
from quarterjack.local.cloud import LocalCloud
from quarterjack.local.engine import authorization, guarded, refusal

KEY = "LOCAL0123456789"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}  # what a page may send without asking first
ROUTES = (
    "/",
    "/_ministack/health",
    "/_ministack/reset",
    "/health",
    "/_localstack/health",
    "/2015-03-31/functions",
    "/bucket/key",
)


def scope(kind: str = "http", query: str = "", **headers: str) -> dict[str, Any]:
    given = {"host": "127.0.0.1:4566", **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode()) for name, value in given.items() if value]
    return {"type": kind, "headers": pairs, "query_string": query.encode()}


def reason(given: dict[str, Any], issued: str | None = None) -> str | None:
    return refusal(given, [KEY], lambda key, token: (key, token) == (issued, "token"))


SIGNED = authorization(KEY)["Authorization"]


@pytest.mark.parametrize(
    "allowed",
    [
        scope(authorization=SIGNED),
        scope(authorization=SIGNED, host="localhost"),
        scope(authorization=SIGNED.replace("Credential", "SignedHeaders=host, Credential")),
        scope(query=urlencode({"X-Amz-Credential": f"{KEY}/20260504/us-east-1/s3/aws4_request"})),
        scope(query=urlencode({"AWSAccessKeyId": KEY})),
        scope(authorization=SIGNED.replace(KEY, "000000000000"), x_amz_security_token=KEY),  # a deployed function
        scope(authorization=SIGNED.replace(KEY, "ASIAISSUED"), x_amz_security_token="token"),  # an assumed role
    ],
)
def test_a_request_with_a_key_of_this_start_is_let_in(allowed: dict[str, Any]) -> None:
    assert reason(allowed, issued="ASIAISSUED") is None


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (scope(), "access key"),
        (scope(authorization=SIGNED.replace(KEY, "test")), "access key"),
        (scope(authorization=SIGNED.replace(KEY, KEY + "0")), "access key"),
        (scope(authorization=f"Bearer {KEY}"), "access key"),
        (scope(authorization=SIGNED.replace(KEY, "ASIAISSUED")), "access key"),
        (scope(query=urlencode({"X-Amz-Credential": "test/20260504/us-east-1/s3/aws4_request"})), "access key"),
        (scope(authorization=SIGNED, origin="https://example.com"), "Origin"),
        (scope(authorization=SIGNED, origin="null"), "Origin"),
        (scope(authorization=SIGNED, host="evil.example:4566"), "Host"),
        (scope(authorization=SIGNED, host="127.0.0.1.evil.example"), "Host"),
        (scope(authorization=SIGNED, host=""), "Host"),
    ],
)
def test_every_other_request_is_refused_with_the_reason(refused: dict[str, Any], why: str) -> None:
    assert why in str(reason(refused, issued="ASIAISSUED"))


def test_a_websocket_is_closed_and_the_lifespan_is_none_of_its_business() -> None:
    served, sent = list[str](), list[dict[str, Any]]()

    async def app(given: dict[str, Any], receive: Any, send: Any) -> None:
        served.append(given["type"])

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    application = guarded(app, [KEY], lambda key, token: False)
    for given in (scope("websocket"), scope("http"), {"type": "lifespan"}, scope("http", authorization=SIGNED)):
        asyncio.run(awaited(application(given, receive, send)))
    assert served == ["lifespan", "http"]
    assert [message.get("code") or message.get("status") for message in sent] == [1008, 403, None]


async def awaited(response: Awaitable[None]) -> None:
    await response


class Page:
    """What runs in a browser on this machine, or beside it."""

    def __init__(self, cloud: LocalCloud, settings: Settings) -> None:
        self._cloud = cloud
        where: Any = {"endpoint_url": cloud.endpoint, "region_name": cloud.region}
        self._sqs = boto3.client("sqs", **where)
        self._queue = self._sqs.get_queue_url(QueueName=settings.queue("work"))["QueueUrl"]

    def send_job(self, **headers: str) -> int:
        """Send a message to the work queue, as a form of a page would; the status."""
        body = urlencode(
            {"Action": "SendMessage", "QueueUrl": self._queue, "MessageBody": "a job", "Version": "2012-11-05"}
        )
        return self.request("POST", "/", body, {**FORM, **headers})

    def request(self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._cloud.port, timeout=10)
        connection.request(method, path, body, headers or {})
        status = connection.getresponse().status
        connection.close()
        return status

    @property
    def messages(self) -> int:
        names = ["ApproximateNumberOfMessages"]
        found = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=names)["Attributes"]
        return int(found[names[0]])


@pytest.mark.cloud
def test_what_a_page_sends_reaches_no_worker(local_cloud: LocalCloud, local_settings: Settings) -> None:
    page, key = Page(local_cloud, local_settings), authorization(local_cloud.credentials["AWS_ACCESS_KEY_ID"])
    foreign = {"Host": f"rebound.example:{local_cloud.port}"}
    for headers in ({}, authorization("test"), {**key, "Origin": "https://example.com"}, {**key, **foreign}):
        assert page.send_job(**headers) == 403
    assert page.messages == 0
    assert page.send_job(**key) == 200
    assert page.messages == 1


@pytest.mark.cloud
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_no_route_answers_without_the_key(method: str, local_cloud: LocalCloud, local_settings: Settings) -> None:
    page = Page(local_cloud, local_settings)
    assert {page.request(method, path) for path in ROUTES} == {403}
    preflight = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    assert page.request("OPTIONS", "/", headers=preflight) == 403


@pytest.mark.cloud
@pytest.mark.parametrize("act", ["read", "send", "store"])
def test_who_has_another_key_is_told_which_and_not_to_grant_anything(
    act: str, local_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    scheduler = Scheduler(settings=local_settings)
    acts: dict[str, Callable[[], object]] = {
        "read": lambda: scheduler.get_schedule("s"),
        "send": lambda: scheduler.submit("j"),
        "store": lambda: scheduler.submit("j", "x" * 200_000),
    }
    with pytest.raises(Misconfigured, match="use the `export` line that `quarterjack local` prints") as refused:
        acts[act]()
    assert "grant" not in str(refused.value)


@pytest.mark.cloud
def test_each_start_has_a_key_of_its_own(local_cloud: LocalCloud) -> None:
    with LocalCloud() as other:
        assert other.credentials["AWS_ACCESS_KEY_ID"] != local_cloud.credentials["AWS_ACCESS_KEY_ID"]
        before = dict(other.credentials)
        other.stop()
        assert other.start().credentials != before
