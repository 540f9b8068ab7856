"""Requests to DynamoDB and SQS: JSON as their APIs have it, signed (AWS Signature Version 4), and sent until answered.

The retries are those of botocore's standard mode: attempts, waits between them, and a quota.
"""

from __future__ import annotations

import json
import random
import uuid
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from threading import Event
from typing import Any, NamedTuple
from zlib import crc32

from quarterjack.aws.connections import Connections
from quarterjack.aws.errors import ConnectFailed, NoResponse, ServiceError
from quarterjack.aws.http_connection import HttpResponse
from quarterjack.aws.session import Credentials, Endpoint, Signer
from quarterjack.clock import TRUSTED, system_clock
from quarterjack.domain.times import from_ms
from quarterjack.errors import Misconfigured
from quarterjack.settings import SdkVariables
from quarterjack.version import VERSION

ATTEMPTS = 4  # of one request, in all; AWS_MAX_ATTEMPTS goes before it
_BASE, _CAP = 0.05, 2.0  # seconds: full-jitter waits before each further attempt
_QUOTA = 100  # tokens of a full quota
_COST = 5  # tokens of one retry: against constant errors 100 requests are repeated 20 times in all


class RetryQuota:
    """Tokens that retries of one service take and successes give back, as in botocore's standard mode.

    The tokens are in a bounded deque, whose operations are atomic: there is no lock that a fork could copy while it is held.
    """

    def __init__(self) -> None:
        self._tokens: deque[None] = deque([None] * _QUOTA, maxlen=_QUOTA)

    @property
    def is_empty(self) -> bool:
        """Whether no further retry may be sent."""
        return len(self._tokens) < _COST

    def take(self) -> bool:
        """Pay for one retry; False if it may not be sent."""
        if self.is_empty:
            return False
        for _ in range(_COST):
            if self._tokens:
                self._tokens.pop()
        return True

    def succeeded(self, *, after_retry: bool) -> None:
        """Give back what the retry took, or one token for a request that needed none."""
        self._tokens.extend([None] * (_COST if after_retry else 1))


def attempts_of(variables: SdkVariables) -> int:
    """Attempts of one request. Raises Misconfigured for a retry mode of the SDKs that these requests do not have."""
    if variables.retry_mode not in (None, "standard"):
        raise Misconfigured(
            f"AWS_RETRY_MODE={variables.retry_mode!r} is not a mode of Quarterjack's own requests; use 'standard', leave it out, "
            "or set QUARTERJACK_AWS_CLIENT=botocore"
        )
    return variables.max_attempts or ATTEMPTS


def wait_before(attempt: int) -> float:
    """Seconds before the attempt after the given one."""
    return random.uniform(0, min(_CAP, _BASE * 2.0**attempt))


@dataclass(frozen=True, kw_only=True)
class BatchBackoff:
    """Full-jitter exponential waits between the rounds of a batch: each round asks again for the items without an answer."""

    rounds: int = 7  # in all; the last answer is final
    base: float = 0.05  # seconds
    cap: float = 2.0  # seconds
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)
    random: random.Random = field(default_factory=random.Random)

    def rounds_with_waits(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[int]:
        """0, 1, 2 …, waiting before each but the first; ends early once ``is_over``."""
        for number in range(self.rounds):
            if number:
                if is_over():
                    return
                self.wait(self.random.uniform(0, min(self.cap, self.base * 2.0**number)))
            yield number


DEADLINE = 5.0  # seconds for one attempt, in all: four and their waits end within a shard's lock
USER_AGENT = f"quarterjack/{VERSION}"


def _binary(value: bytes) -> str:
    return b64encode(value).decode()


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=_binary).encode
_decode = json.JSONDecoder().decode


class _Protocol(NamedTuple):
    prefix: str  # of an operation's name in X-Amz-Target
    headers: Mapping[str, str]


PROTOCOLS = {
    "dynamodb": _Protocol("DynamoDB_20120810.", {}),
    "dynamodbstreams": _Protocol("DynamoDBStreams_20120810.", {}),
    "sqs": _Protocol("AmazonSQS.", {"x-amzn-query-mode": "true"}),  # errors are named as before SQS spoke JSON, too
}


_SIGNED_AS = {"dynamodbstreams": "dynamodb"}  # where the service's name in a signature is another one


class Transport:
    """The requests to one service, from any number of threads."""

    def __init__(
        self,
        service: str,
        endpoint: Endpoint,
        credentials: Callable[[], Credentials],
        connections: Connections,
        *,
        attempts: int = ATTEMPTS,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.connections, self.quota = connections, RetryQuota()
        self._credentials, self._attempts = credentials, attempts
        self._prefix, headers = PROTOCOLS[service]
        self._signer = Signer(_SIGNED_AS.get(service, service), endpoint.region, f"{endpoint.url}/", fixed=headers)
        self._wait = wait or Event().wait

    def call(self, operation: str, arguments: dict[str, Any], *, attempts: int | None = None) -> dict[str, Any]:
        """One operation by its name in boto3. Raises ServiceError, NoResponse."""
        name = _api_name(operation)
        if name == "TransactWriteItems":  # so that a repeated request is recognised
            arguments = {"ClientRequestToken": uuid.uuid4().hex, **arguments}
        body, seconds = _encode(arguments).encode(), DEADLINE + arguments.get("WaitTimeSeconds", 0)
        return self._send(name, body, seconds, attempts or self._attempts)

    def _send(self, name: str, body: bytes, seconds: float, attempts: int) -> dict[str, Any]:
        """Send until it is answered for good. ConnectFailed says that no attempt was sent."""
        attempt = 1
        while True:
            try:
                parsed = _parsed(self._once(name, body, seconds))
            except ConnectFailed as problem:
                if attempt == 1:
                    raise
                raise NoResponse(f"it was sent before, but now: {problem}") from problem
            except (NoResponse, ServiceError) as problem:
                if isinstance(problem, ServiceError) and not problem.is_transient:
                    raise
                if attempt >= attempts > 1 or not self.quota.take() or attempts == 1:
                    raise  # a single attempt has paid for its caller's next round
            else:
                self.quota.succeeded(after_retry=attempt > 1)
                return parsed
            self._wait(wait_before(attempt))
            attempt += 1

    def _once(self, name: str, body: bytes, seconds: float) -> HttpResponse:
        """One attempt. A request that was signed at a wrong time is refused with the right one, and signed again."""
        lead = system_clock.lead()
        response = self._post(name, body, seconds)
        if 400 <= response.status < 500 and abs(system_clock.lead() - lead) > TRUSTED:
            response = self._post(name, body, seconds)
        checksum = response.headers.get("x-amz-crc32")
        if checksum is not None and checksum != str(crc32(response.content)):
            raise NoResponse("the response does not match its checksum")
        return response

    def _post(self, name: str, body: bytes, seconds: float) -> HttpResponse:
        now, sent = from_ms(system_clock()), system_clock.steady()
        headers = self._signer.headers(self._prefix + name, body, self._credentials(), now)
        headers["user-agent"] = USER_AGENT
        response = self.connections.post(headers, body, seconds)
        system_clock.heard(response.headers.get("date"), sent)
        return response


@cache
def _api_name(operation: str) -> str:
    """``batch_get_item`` is called ``BatchGetItem``."""
    return operation.title().replace("_", "")


def _parsed(response: HttpResponse) -> dict[str, Any]:
    """A success's content. Raises ServiceError for an error, NoResponse for content that no such service sends: a proxy did."""
    if response.status >= 300:
        raise ServiceError(_error(response))
    parsed = _json(response.content or b"{}")
    if not isinstance(parsed, dict):
        raise NoResponse(f"the response is not JSON of a service: {response.content[:80]!r}")
    return parsed


def _error(response: HttpResponse) -> dict[str, Any]:
    """The error response with all its fields: the old item, the reasons of a transaction."""
    found = _json(response.content)
    body = found if isinstance(found, dict) else {}
    code = str(body.pop("__type", response.status)).rpartition("#")[2].partition(":")[0]
    legacy, _, _ = (response.headers.get("x-amzn-query-error") or "").partition(";")
    text = body.pop("message", body.pop("Message", ""))
    return {
        **body,
        "Error": {"Code": legacy or code, "Message": text},
        "ResponseMetadata": {"HTTPStatusCode": response.status},
    }


def _json(content: bytes) -> Any:
    try:
        return _decode(content.decode())
    except ValueError:
        return None
