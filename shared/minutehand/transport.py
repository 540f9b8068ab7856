"""Requests to DynamoDB and SQS without botocore's serialisers and parsers, which are two thirds of a tick's CPU.

Both speak JSON in which arguments and answers are what botocore's methods take and give (this package sends no binary values, which
are the difference). Credentials, endpoint, connections and events are botocore's: what hooks into its ``before-send``, as moto does,
hooks in here.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from socket import IPPROTO_TCP, TCP_NODELAY
from threading import Event
from typing import Any
from zlib import crc32

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.exceptions import ClientError, HTTPClientError, NoCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from minutehand.signature import Signer

_ATTEMPTS = 4  # of one request, in all
_BASE, _CAP = 0.05, 2.0  # seconds: full-jitter waits before each further attempt
_CONNECT, _READ = 3, 25  # seconds; a long poll takes 20
_CONNECTIONS = 50  # kept open at the most
_THROTTLES = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
SERVICES = {"dynamodb": "DynamoDB_20120810", "sqs": "AmazonSQS"}  # what speaks JSON: the prefix of its operations


@dataclass(frozen=True)
class _Answer:
    """One HTTP answer."""

    status_code: int
    headers: Any
    content: bytes


class Transport:
    """The requests of one boto3 client."""

    def __init__(self, session: Any, client: Any, *, wait: Callable[[float], object] | None = None) -> None:
        meta = client.meta
        self._url, self._events, self._region = meta.endpoint_url.rstrip("/") + "/", meta.events, meta.region_name
        self._service, self._model = meta.service_model.service_name, meta.service_model
        self._operations = meta.method_to_api_mapping
        self._session = session
        self._http = URLLib3Session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(meta.endpoint_url),
            timeout=(_CONNECT, _READ),
            max_pool_connections=_CONNECTIONS,
            socket_options=[(IPPROTO_TCP, TCP_NODELAY, 1)],  # else each request waits 40 ms for an acknowledgement
        )
        self._signer = Signer(self._service, self._region, self._url)
        self._wait = wait or Event().wait

    def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """One operation by its name in boto3. Raises what botocore would: ClientError, HTTPClientError, NoCredentialsError."""
        name = self._operations[operation]
        if name == "TransactWriteItems":  # so that a repeated request is recognised
            arguments = {"ClientRequestToken": uuid.uuid4().hex, **arguments}
        arguments = self._provided(name, arguments)
        body = _encode(arguments).encode()
        answer = self._send(name, body)
        parsed: dict[str, Any] = json.loads(answer.content) if answer.content else {}
        self._events.emit(
            f"after-call.{self._service}.{name}", http_response=answer, parsed=parsed, model=None, context={}
        )
        return parsed

    def _provided(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, as whoever listens wants them."""
        event = f"provide-client-params.{self._service}.{name}"
        answers = self._events.emit(event, params=arguments, model=self._model.operation_model(name), context={})
        return next((given for _, given in reversed(answers) if given is not None), arguments)

    def _send(self, name: str, body: bytes) -> _Answer:
        """Send until it is answered for good."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = self._once(name, body)
                if answer.status_code < 300:
                    return answer
                raise self._error(name, answer)
            except HTTPClientError:
                if attempt == _ATTEMPTS:
                    raise
            except ClientError as problem:
                if attempt == _ATTEMPTS or not _is_transient(problem):
                    raise
            self._wait(random.uniform(0, min(_CAP, _BASE * 2.0**attempt)))
        raise AssertionError("the last attempt returns or raises")

    def _once(self, name: str, body: bytes) -> _Answer:
        request = self._signed(name, body)
        event = f"before-send.{self._service}.{name}"
        given = self._events.emit_until_response(event, request=request)[1]
        response = self._http.send(request) if given is None else given
        answer = _Answer(response.status_code, response.headers, response.content)
        checksum = answer.headers.get("x-amz-crc32")
        if checksum is not None and int(checksum) != crc32(answer.content):
            raise HTTPClientError(error="the answer does not match its checksum")
        return answer

    def _signed(self, name: str, body: bytes) -> AWSPreparedRequest:
        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        target, now = f"{SERVICES[self._service]}.{name}", datetime.now(UTC)
        headers = self._signer.headers(target, body, credentials.get_frozen_credentials(), now)
        return AWSPreparedRequest("POST", self._url, HeadersDict(headers), body, stream_output=False)

    def _error(self, name: str, answer: _Answer) -> ClientError:
        """The error that an answer is, with all that came with it: the old item, the reasons of a transaction."""
        try:
            body = json.loads(answer.content)
        except ValueError:
            body = {}
        body = body if isinstance(body, dict) else {}
        code = str(body.pop("__type", answer.status_code)).rpartition("#")[2]
        legacy = answer.headers.get("x-amzn-query-error")  # the name that SQS had for it before it spoke JSON
        text = body.pop("message", body.pop("Message", ""))
        return ClientError(
            {
                **body,
                "Error": {"Code": legacy.partition(";")[0] if legacy else code, "Message": text},
                "ResponseMetadata": {"HTTPStatusCode": answer.status_code},
            },
            name,
        )


def _is_transient(problem: ClientError) -> bool:
    status: int = problem.response["ResponseMetadata"]["HTTPStatusCode"]
    return status >= 500 or status == 429 or problem.response["Error"]["Code"] in _THROTTLES
