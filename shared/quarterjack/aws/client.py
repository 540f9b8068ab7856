"""A client of one service: operations by their names in boto3, errors as this package's, and one OpenTelemetry span for each
call where OpenTelemetry's API is in use.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from quarterjack.aws.connections import Connections
from quarterjack.aws.errors import NoResponse, ServiceError, translated
from quarterjack.aws.session import AwsSession, endpoint_of
from quarterjack.aws.transport import PROTOCOLS, BatchBackoff, Transport, attempts_of
from quarterjack.concurrency.forks import PerProcess
from quarterjack.errors import Unavailable
from quarterjack.settings import Settings


def idle() -> float:
    """Wall time minus processor time of this thread, in seconds: the difference of two readings is the time it was blocked."""
    return time.perf_counter() - time.thread_time()


class Client:
    """A client of one service, for any number of threads. Clients that share a ``session`` are made in one thread.

    DynamoDB and SQS are called by ``transport``, unless the settings ask for botocore; all other services by botocore, of whose Config
    ``config`` are fields. ``waited`` is told of each request how many seconds its thread was blocked, by ``idle``.
    """

    def __init__(
        self,
        service: str,
        settings: Settings,
        session: AwsSession | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        waited: Callable[[float], object] = lambda _: None,
        idle: Callable[[], float] = idle,
    ) -> None:
        self._service, self._waited, self._idle = service, waited, idle
        session = session or AwsSession()
        self.transport: Transport | None = None
        self._botocore = PerProcess(lambda: _botocore_client(session, service, settings, config or {}))
        if service in PROTOCOLS and settings.aws_client != "botocore":
            self.transport = _transport(service, settings, session)
        else:
            _ = self._botocore.value  # so that a wrong region is told here

    def call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """One operation. Raises ConditionFailed, TransactionRefused, Unavailable or Misconfigured."""
        return self._called(operation, arguments, None)

    def call_once(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """One attempt at an operation, for callers that repeat what it leaves over in ``rounds``."""
        return self._called(operation, arguments, 1)

    def rounds(self, backoff: BatchBackoff) -> Iterator[int]:
        """The rounds of a batch: they end early once the service has used up its retries."""
        transport = self.transport
        return backoff.rounds_with_waits(lambda: transport is not None and transport.quota.is_empty)

    def _called(self, operation: str, arguments: dict[str, Any], attempts: int | None) -> dict[str, Any]:
        began = self._idle()
        try:
            with span(self._service, operation):
                if self.transport is not None:
                    return self.transport.call(operation, arguments, attempts=attempts)
                return _by_botocore(self._botocore.value, operation, arguments)
        except ServiceError as problem:
            raise translated(problem.response, operation) from problem
        except NoResponse as problem:  # connection refused, deadlines: it may have taken effect or not
            raise Unavailable(f"{operation}: {problem}") from problem
        finally:
            self._waited(self._idle() - began)


def _transport(service: str, settings: Settings, session: AwsSession) -> Transport:
    endpoint = endpoint_of(service, settings, session)
    connections = Connections(f"{endpoint.url}/", session.trust, proxy=session.proxy(endpoint.url))
    return Transport(service, endpoint, session.credentials, connections, attempts=attempts_of(session.variables))


def _botocore_client(session: AwsSession, service: str, settings: Settings, config: Mapping[str, Any]) -> Any:
    from quarterjack.aws import botocore_client  # noqa: PLC0415 (botocore is half of a function's cold start)

    return botocore_client.new_client(session, service, settings, config)


def _by_botocore(client: Any, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from quarterjack.aws import botocore_client  # noqa: PLC0415 (as above)

    return botocore_client.call(client, operation, arguments)


_NAMES = {"dynamodb": "DynamoDB", "sqs": "SQS"}
_NOTHING: AbstractContextManager[object] = nullcontext()


def span(service: str, operation: str) -> AbstractContextManager[object]:
    """The span around one call, named and described by OpenTelemetry's conventions for AWS; an error ends it as one.

    A process whose spans anybody collects has loaded the API. It is not loaded here: that takes 70 ms of processor time.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return _NOTHING
    name, method = _NAMES.get(service, service), operation.title().replace("_", "")
    started: AbstractContextManager[object] = trace.get_tracer("quarterjack").start_as_current_span(
        f"{name}.{method}",
        kind=trace.SpanKind.CLIENT,
        attributes={"rpc.system": "aws-api", "rpc.service": name, "rpc.method": method},
    )
    return started
