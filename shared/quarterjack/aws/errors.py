"""Errors of requests to AWS: what the service or the way to it reports, and what this package raises for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quarterjack.errors import Misconfigured, NotFound, QuarterjackError, Unavailable
from quarterjack.ports.run_stream import StreamTrimmed

TRANSIENT = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
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
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchBucket",
        "QueueDoesNotExist",
        "ResourceNotFound",
        "ResourceNotFoundException",
    }
)
_OF_A_SHARD = frozenset({"get_shard_iterator", "get_records"})
DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
# The service does not know the caller, or does not believe the signature: no permission helps.
BAD_CREDENTIALS = frozenset(
    {"AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId"}
    | {"InvalidSignatureException", "RequestTimeTooSkewed", "SignatureDoesNotMatch", "UnrecognizedClientException"}
)


class ServiceError(Exception):
    """The service answered with an error. ``response`` has the shape of botocore's ClientError: code, message, status, further fields."""

    def __init__(self, response: dict[str, Any]) -> None:
        super().__init__(response["Error"]["Code"], response["Error"]["Message"])
        self.response = response

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed soon."""
        return self.response["Error"]["Code"] in TRANSIENT or is_passing(
            self.response["ResponseMetadata"]["HTTPStatusCode"]
        )


class NoResponse(Exception):
    """No response arrived: the request may have taken effect or not."""


class ConnectFailed(NoResponse):
    """No connection could be made: the request was not sent."""


class ConditionFailed(QuarterjackError):
    """A conditional write was refused: a normal answer. ``item`` is the row that refused it, in DynamoDB's JSON, if there is one."""

    def __init__(self, item: dict[str, Any] | None) -> None:
        super().__init__("condition failed")
        self.item = item


class TransactionRefused(QuarterjackError):
    """A transaction was cancelled: because of the conditions of the items at these ``places``, or, if there are none, of another write."""

    def __init__(self, text: str, *, places: frozenset[int] = frozenset()) -> None:
        super().__init__(text)
        self.places = places


class IteratorExpired(QuarterjackError):
    """An iterator of a stream's shard was not used for 15 minutes: another one from the same position goes on."""


_POSITIONS: Mapping[str, type[QuarterjackError]] = {  # of a position in a shard
    "ExpiredIteratorException": IteratorExpired,
    "ResourceNotFoundException": StreamTrimmed,  # the shard is gone
    "TrimmedDataAccessException": StreamTrimmed,
}


def untrusted(url: str, problem: Exception) -> Misconfigured:
    """The error for a service whose certificate is not trusted. It is not tried again: the certificates are read once."""
    remedy = "set AWS_CA_BUNDLE, or ca_bundle of the profile, to a file with the certificate of its authority"
    return Misconfigured(f"{url}: its certificate is not trusted ({problem}); {remedy}")


def is_passing(status: int) -> bool:
    """Whether an error of this HTTP status may be over soon, from the service or from a proxy before it."""
    return status >= 500 or status in (408, 429)


def translated(response: dict[str, Any], operation: str) -> QuarterjackError:  # noqa: PLR0911 (a table of cases)
    """This package's error for a service's error response."""
    error = response.get("Error", {})
    code, text = str(error.get("Code", "")), str(error.get("Message", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in ("ConditionalCheckFailedException", "PreconditionFailed"):  # the latter is S3's
        return ConditionFailed(response.get("Item"))
    if code == "TransactionCanceledException":
        reasons = [reason.get("Code") for reason in response.get("CancellationReasons", [])]
        codes, refused = set(reasons), "ConditionalCheckFailed"
        if codes & {refused, "TransactionConflict"}:
            return TransactionRefused(text, places=frozenset(i for i, code in enumerate(reasons) if code == refused))
        return Unavailable(f"{operation}: {text}") if codes & TRANSIENT else QuarterjackError(f"{operation}: {text}")
    if code in TRANSIENT or is_passing(status):
        return Unavailable(f"{operation}: {code}: {text}")
    if code in ("NoSuchKey", "NoSuchVersion"):
        return NotFound(f"{operation}: {text}; has the bucket been emptied?")
    if operation in _OF_A_SHARD and code in _POSITIONS:
        return _POSITIONS[code](f"{operation}: {code}: {text}")
    if code in _MISSING:
        return Misconfigured(
            f"{operation}: {code}: {text}; is QUARTERJACK_PREFIX right, and the stack deployed in this region?"
        )
    if code in BAD_CREDENTIALS:
        remedy = "check credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE), endpoint (AWS_ENDPOINT_URL) and clock"
        return Misconfigured(f"{operation}: {code}: {text}; {remedy}")
    if code in DENIED or code.upper().startswith(
        "KMS"
    ):  # SQS has codes for a key; DynamoDB and S3 name it in their text
        of_key = "KMS" in f"{code} {text}".upper()
        remedy = "enable the KMS key, and let its caller use it" if of_key else "grant the caller this action"
        return Misconfigured(f"{operation}: {code}: {text}; {remedy}")
    return QuarterjackError(f"{operation}: {code}: {text}")
