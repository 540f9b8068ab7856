"""Requests over botocore: its credentials of every kind, its endpoints, its connections, and its events for whoever hooks into them.

The events are ``provide-client-params``, ``before-send`` and ``after-call``: what listens to them, as moto does, is heard here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import botocore.session
from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ProxyConnectionError,
)
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from minutehand.errors import Misconfigured, Unavailable
from minutehand.settings import Settings
from minutehand.signature import Credentials
from minutehand.transport import (
    CONNECT_TIMEOUT,
    CONNECTIONS,
    READ_TIMEOUT,
    Answer,
    Refused,
    Unanswered,
    Unreachable,
)

_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4},
    connect_timeout=CONNECT_TIMEOUT,
    read_timeout=READ_TIMEOUT,
    max_pool_connections=CONNECTIONS,
    user_agent="minutehand",  # botocore would compose its own anew for every call
    parameter_validation=False,  # every argument is made here, of checked values
)


def new_session() -> botocore.session.Session:
    """What the clients of one installation share: credentials, configuration, the descriptions of services.

    It is botocore's, as boto3's clients are: boto3 itself would add a fifth to a function's cold start and nothing to a client.
    """
    return botocore.session.get_session()


def new_client(session: botocore.session.Session, service: str, settings: Settings, config: Mapping[str, Any]) -> Any:
    """A client as boto3 makes it. Raises Misconfigured."""
    try:
        return session.create_client(
            service,
            endpoint_url=settings.endpoint,
            region_name=settings.region,
            config=_CONFIG.merge(Config(**config)),
        )
    except (NoRegionError, ValueError) as problem:
        raise Misconfigured(
            f"AWS_REGION={settings.region!r}: {problem}; set it to the region of your stack"
        ) from problem


def call(client: Any, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """One operation of a service that does not speak JSON as DynamoDB and SQS do. Raises Refused, Unanswered."""
    try:
        answer: dict[str, Any] = getattr(client, operation)(**arguments)
    except ClientError as problem:
        raise Refused(problem.response) from problem
    except NoCredentialsError as problem:
        raise _no_credentials() from problem
    except BotoCoreError as problem:  # connection refused, timeouts
        raise Unanswered(str(problem)) from problem
    return answer


class Hooked:
    """The link of one of botocore's clients."""

    def __init__(self, session: botocore.session.Session, client: Any) -> None:
        meta = client.meta
        self.url, self.region = meta.endpoint_url.rstrip("/") + "/", meta.region_name
        self._events, self._model, self._service = meta.events, meta.service_model, meta.service_model.service_name
        self._session = session
        self._http = URLLib3Session(
            verify=session.get_config_variable("ca_bundle") or True,
            proxies=get_environ_proxies(meta.endpoint_url),
            timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
            max_pool_connections=CONNECTIONS,
            socket_options=[(IPPROTO_TCP, TCP_NODELAY, 1)],  # else each request waits 40 ms for an acknowledgement
        )

    def credentials(self) -> Credentials:
        """From wherever botocore has them, refreshed when they are old."""
        try:
            found = self._session.get_credentials()
            if found is not None:
                frozen: Credentials = found.get_frozen_credentials()
                return frozen
        except BotoCoreError as problem:
            raise Unavailable(f"credentials: {problem}") from problem
        raise _no_credentials()

    def asked(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        event = f"provide-client-params.{self._service}.{name}"
        answers = self._events.emit(event, params=arguments, model=self._model.operation_model(name), context={})
        return next((given for _, given in reversed(answers) if given is not None), arguments)

    def send(self, name: str, headers: dict[str, str], body: bytes) -> Answer:
        request = AWSPreparedRequest("POST", self.url, HeadersDict(headers), body, stream_output=False)
        event = f"before-send.{self._service}.{name}"
        try:
            given = self._events.emit_until_response(event, request=request)[1]
            response = self._http.send(request) if given is None else given
            return Answer(response.status_code, response.headers, response.content)
        except (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError) as problem:
            raise Unreachable(str(problem)) from problem
        except BotoCoreError as problem:  # of TLS as well: it may have broken down over the answer
            raise Unanswered(str(problem)) from problem

    def answered(self, name: str, answer: Answer, parsed: dict[str, Any]) -> None:
        event = f"after-call.{self._service}.{name}"
        self._events.emit(event, http_response=answer, parsed=parsed, model=None, context={})


def _no_credentials() -> Misconfigured:
    return Misconfigured("no AWS credentials; set AWS_PROFILE, or AWS_ENDPOINT_URL and keys for a local cloud")
