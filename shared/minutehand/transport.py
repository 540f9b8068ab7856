"""Requests to DynamoDB and SQS without botocore's serialisers and parsers, which are two thirds of a tick's CPU.

Both speak JSON in which arguments and answers are what botocore's methods take and give (this package sends no binary values, which
are the difference). How a request leaves the process is its link's affair: over connections of our own (``direct``), or over
botocore's, with its credentials and events (``hooked``).
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from threading import Event
from typing import Any, NamedTuple, Protocol
from zlib import crc32

from minutehand.signature import Credentials, Signer

_ATTEMPTS = 4  # of one request, in all
_BASE, _CAP = 0.05, 2.0  # seconds: full-jitter waits before each further attempt
CONNECT_TIMEOUT, READ_TIMEOUT = 3, 25  # seconds; a long poll takes 20
CONNECTIONS = 50  # kept open at the most
_THROTTLES = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().decode
SERVICES = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}  # what speaks JSON: the prefix of its operations


class Refused(Exception):
    """The service's answer is an error. ``response`` is what botocore's ClientError has: code, message, status, what came with it."""

    def __init__(self, response: dict[str, Any]) -> None:
        super().__init__(response["Error"]["Code"], response["Error"]["Message"])
        self.response = response


class Unanswered(Exception):
    """No answer came: the request may have taken effect or not."""


class Unreachable(Unanswered):
    """There is no connection: the request was not sent."""


class Headers(Protocol):
    """Of an answer, asked for by names in lower case."""

    def get(self, name: str, /) -> str | None: ...


class Answer(NamedTuple):
    """One HTTP answer."""

    status_code: int
    headers: Headers
    content: bytes


class Link(Protocol):
    """How requests to one service leave this process."""

    url: str
    region: str

    def credentials(self) -> Credentials:
        """Those of this moment."""

    def asked(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of an operation, as whoever listens wants them."""

    def send(self, name: str, headers: dict[str, str], body: bytes) -> Answer:
        """One request. Raises Unanswered."""

    def answered(self, name: str, answer: Answer, parsed: dict[str, Any]) -> None:
        """Tell whoever listens; they may change what was parsed."""


class Transport:
    """The requests to one service."""

    def __init__(self, service: str, link: Link, *, wait: Callable[[float], object] | None = None) -> None:
        self._link, self._target = link, f"{SERVICES[service]}."
        self._signer = Signer(service, link.region, link.url)
        self._wait = wait or Event().wait

    def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """One operation by its name in boto3. Raises Refused, Unanswered."""
        name = _named(operation)
        if name == "TransactWriteItems":  # so that a repeated request is recognised
            arguments = {"ClientRequestToken": uuid.uuid4().hex, **arguments}
        body = _encode(self._link.asked(name, arguments)).encode()
        answer, parsed = self._send(name, body)
        self._link.answered(name, answer, parsed)
        return parsed

    def _send(self, name: str, body: bytes) -> tuple[Answer, dict[str, Any]]:
        """Send until it is answered for good. Unreachable is only what no attempt has sent."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = self._once(name, body)
                if answer.status_code < 300:
                    return answer, _parsed(answer)
                raise Refused(_error(answer))
            except Unreachable as problem:
                if attempt == 1:
                    raise
                raise Unanswered(f"it was sent before, but now: {problem}") from problem
            except Unanswered:
                if attempt == _ATTEMPTS:
                    raise
            except Refused as problem:
                if attempt == _ATTEMPTS or not _is_transient(problem.response):
                    raise
            self._wait(random.uniform(0, min(_CAP, _BASE * 2.0**attempt)))
        raise AssertionError("the last attempt returns or raises")

    def _once(self, name: str, body: bytes) -> Answer:
        headers = self._signer.headers(self._target + name, body, self._link.credentials(), datetime.now(UTC))
        answer = self._link.send(name, headers, body)
        checksum = answer.headers.get("x-amz-crc32")
        if checksum is not None and checksum != str(crc32(answer.content)):
            raise Unanswered("the answer does not match its checksum")
        return answer


@cache
def _named(operation: str) -> str:
    """``batch_get_item`` is called ``BatchGetItem``."""
    return operation.title().replace("_", "")


def _parsed(answer: Answer) -> dict[str, Any]:
    """What an answer says. Raises Unanswered for what no such service says: something stands between, and may have passed it on."""
    try:
        parsed = _decode(answer.content.decode()) if answer.content else {}
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        raise Unanswered(f"the answer is not JSON of a service: {answer.content[:80]!r}")
    return parsed


def _error(answer: Answer) -> dict[str, Any]:
    """The error that an answer is, with all that came with it: the old item, the reasons of a transaction."""
    try:
        body = json.loads(answer.content)
    except ValueError:
        body = {}
    body = body if isinstance(body, dict) else {}
    code = str(body.pop("__type", answer.status_code)).rpartition("#")[2]
    legacy = answer.headers.get("x-amzn-query-error")  # the name that SQS had for it before it spoke JSON
    text = body.pop("message", body.pop("Message", ""))
    return {
        **body,
        "Error": {"Code": legacy.partition(";")[0] if legacy else code, "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": answer.status_code},
    }


def _is_transient(response: dict[str, Any]) -> bool:
    return passes(response["ResponseMetadata"]["HTTPStatusCode"]) or response["Error"]["Code"] in _THROTTLES


def passes(status: int) -> bool:
    """Whether an error of this HTTP status may be over soon, whoever says it: services, and what stands before them."""
    return status >= 500 or status in (408, 429)
