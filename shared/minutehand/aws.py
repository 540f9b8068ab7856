"""Calls to AWS: one place that makes clients, translates botocore's errors and paces retries of single items."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from minutehand.errors import MinutehandError, Misconfigured, NotFound, Unavailable
from minutehand.settings import Settings
from minutehand.transport import SERVICES, Transport

_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 4},
    connect_timeout=3,
    read_timeout=25,  # beyond the 20 s of a long poll
    max_pool_connections=50,
    user_agent="minutehand",  # botocore would compose its own anew for every call
    parameter_validation=False,  # every argument is made here, of checked values: it is a quarter of a tick's CPU
)
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


def new_session() -> botocore.session.Session:
    """What the clients of one installation share: credentials, configuration, the descriptions of services.

    It is botocore's, as boto3's clients are: boto3 itself would add a fifth to a function's cold start and nothing to a client.
    """
    return botocore.session.get_session()


class Client:
    """A client as boto3 makes it, whose errors are ours. Clients that share a ``session`` are made in one thread."""

    def __init__(
        self,
        service: str,
        settings: Settings,
        session: botocore.session.Session | None = None,
        *,
        config: Config | None = None,
    ) -> None:
        session = session or new_session()
        try:
            self.raw: Any = session.create_client(
                service,
                endpoint_url=settings.endpoint,
                region_name=settings.region,
                config=_CONFIG if config is None else _CONFIG.merge(config),
            )
        except (NoRegionError, ValueError) as problem:
            raise Misconfigured(
                f"AWS_REGION={settings.region!r}: {problem}; set it to the region of your stack"
            ) from problem
        self._transport = Transport(session, self.raw) if service in SERVICES else None

    def call(self, operation: str, /, **arguments: Any) -> dict[str, Any]:
        """One operation. Raises ConditionFailed, TransactionRefused, Unavailable or Misconfigured."""
        try:
            if self._transport is not None:
                return self._transport.call(operation, arguments)
            answer: dict[str, Any] = getattr(self.raw, operation)(**arguments)
        except ClientError as problem:
            raise translated(problem, operation) from problem
        except NoCredentialsError as problem:
            raise Misconfigured(
                "no AWS credentials; set AWS_PROFILE, or AWS_ENDPOINT_URL and keys for a local cloud"
            ) from problem
        except BotoCoreError as problem:  # connection refused, timeouts: it may have taken effect or not
            raise Unavailable(f"{operation}: {problem}") from problem
        return answer


def translated(problem: ClientError, operation: str) -> MinutehandError:  # noqa: PLR0911 (a table of cases)
    """Our error for one of botocore's."""
    response: Any = problem.response
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
    if code in TRANSIENT or status >= 500:
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
