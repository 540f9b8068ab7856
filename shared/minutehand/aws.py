"""Calls to AWS: one place that makes clients, translates their errors and paces retries of single items.

botocore is loaded where it is needed, and not before (see ``direct``). Where it is loaded already, its clients are used: then
somebody may have hooked into them, as moto and debuggers do. Into what is not loaded nobody has.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Event
from typing import Any

from minutehand.direct import Direct, direct_to
from minutehand.errors import MinutehandError, Misconfigured, NotFound, Unavailable
from minutehand.settings import Settings
from minutehand.transport import SERVICES, Refused, Transport, Unanswered, passes

TRANSIENT = frozenset(
    {
        "InternalServerError",
        "InternalFailure",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_MISSING = frozenset(
    {"ResourceNotFoundException", "ResourceNotFound", "AWS.SimpleQueueService.NonExistentQueue", "NoSuchBucket"}
)


class ConditionFailed(MinutehandError):
    """A conditional write was refused: a normal answer. ``item`` is the row that refused it, in DynamoDB's JSON, if there is one."""

    def __init__(self, item: dict[str, Any] | None) -> None:
        super().__init__("condition failed")
        self.item = item


class TransactionRefused(MinutehandError):
    """A transaction was cancelled: ``by_condition`` if one of its conditions does not hold, else because it met another write."""

    def __init__(self, text: str, *, by_condition: bool) -> None:
        super().__init__(text)
        self.by_condition = by_condition


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Full-jitter exponential waits between rounds of a batch."""

    rounds: int = 7  # in all; the last answer is final
    base: float = 0.05  # seconds
    cap: float = 2.0  # seconds
    wait: Callable[[float], object] = field(default_factory=lambda: Event().wait)
    random: random.Random = field(default_factory=random.Random)

    def rounds_with_waits(self) -> Iterator[int]:
        """0, 1, 2 …, waiting before each but the first."""
        for number in range(self.rounds):
            if number:
                self.wait(self.random.uniform(0, min(self.cap, self.base * 2.0**number)))
            yield number


class Session:
    """What the clients of one installation share: credentials, configuration, the descriptions of services."""

    @cached_property
    def raw(self) -> Any:
        """botocore's, made when it is first needed."""
        from minutehand import hooked  # noqa: PLC0415 (see above)

        return hooked.new_session()


def straight_to(service: str, settings: Settings, path: str = "/") -> Direct | None:
    """A link past botocore, unless it is loaded or the environment leaves anything to it."""
    return None if "botocore.session" in sys.modules else direct_to(service, settings, path)


def idle() -> float:
    """Seconds in which this thread had nothing to do, counted from anywhere: what it grows by while a request is under way was waiting."""
    return time.perf_counter() - time.thread_time()


class Client:
    """A client of one service, whose errors are ours. Clients that share a ``session`` are made in one thread.

    ``config`` are fields of botocore's Config, for the services that are called by botocore alone. ``waited`` is told of each request
    how many seconds its thread had nothing to do, by ``idle``.
    """

    def __init__(
        self,
        service: str,
        settings: Settings,
        session: Session | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        waited: Callable[[float], object] = lambda _: None,
        idle: Callable[[], float] = idle,
    ) -> None:
        self._waited, self._idle = waited, idle
        self._service, self._settings, self._config = service, settings, config or {}
        self._session = session or Session()
        self._transport: Transport | None = None
        link = straight_to(service, settings) if service in SERVICES else None
        if link is not None:
            self._transport = Transport(service, link)
        else:
            _ = self.raw

    @cached_property
    def raw(self) -> Any:
        """A client of botocore's. Whoever asks for it may listen to its events, so from then on all requests go past them."""
        from minutehand import hooked  # noqa: PLC0415 (see above)

        client = hooked.new_client(self._session.raw, self._service, self._settings, self._config)
        if self._service in SERVICES:
            self._transport = Transport(self._service, hooked.Hooked(self._session.raw, client))
        return client

    def call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """One operation. Raises ConditionFailed, TransactionRefused, Unavailable or Misconfigured."""
        began = self._idle()
        try:
            if self._transport is not None:
                return self._transport.call(operation, arguments)
            return self._called(operation, arguments)
        except Refused as problem:
            raise translated(problem.response, operation) from problem
        except Unanswered as problem:  # connection refused, timeouts: it may have taken effect or not
            raise Unavailable(f"{operation}: {problem}") from problem
        finally:
            self._waited(self._idle() - began)

    def _called(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        from minutehand import hooked  # noqa: PLC0415 (see above)

        return hooked.call(self.raw, operation, arguments)


def translated(response: dict[str, Any], operation: str) -> MinutehandError:  # noqa: PLR0911 (a table of cases)
    """Our error for an answer that is one."""
    error = response.get("Error", {})
    code, text = str(error.get("Code", "")), str(error.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(response.get("Item"))
    if code == "TransactionCanceledException":
        codes = {reason.get("Code") for reason in response.get("CancellationReasons", [])}
        if codes & {"ConditionalCheckFailed", "TransactionConflict"}:
            return TransactionRefused(text, by_condition="ConditionalCheckFailed" in codes)
        return Unavailable(f"{operation}: {text}") if codes & TRANSIENT else MinutehandError(f"{operation}: {text}")
    if code in TRANSIENT or passes(status):
        return Unavailable(f"{operation}: {code}: {text}")
    if code == "NoSuchKey":
        return NotFound(f"{operation}: {text}; has the bucket been emptied?")
    if code in _MISSING:
        return Misconfigured(
            f"{operation}: {code}: {text}; is MINUTEHAND_PREFIX right, and the stack deployed in this region?"
        )
    if code in ("AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "InvalidClientTokenId"):
        return Misconfigured(f"{operation}: {code}: {text}; grant the caller this action")
    return MinutehandError(f"{operation}: {code}: {text}")
