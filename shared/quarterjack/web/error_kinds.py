"""One table says which error is which status of HTTP, and which code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quarterjack import errors
from quarterjack.errors import QuarterjackError


@dataclass(frozen=True)
class ErrorKind:
    """How an error is answered."""

    status: int
    code: str  # stable; for programs
    title: str
    remedy: str | None = None  # for an error without a remedy of its own
    ours: bool = False  # for operators to correct, not for the client: it is logged


# A worker handles these; no call of the SDK raises them.
_OF_WORKERS = (
    *(errors.EventRefused, errors.EventFailed, errors.LeaseLost, errors.ItemRefused, errors.JobSignal),
    *(errors.Permanent, errors.WaitTimedOut, errors.CallbackFailed, errors.ChildFailed, errors.Diverged),
    *(errors.RetryAfter, errors.Continue, errors.UnexpectedStatus, errors.RunCancelled),
)
_OURS = ErrorKind(500, "internal", "An error that belongs to a worker reached the API", ours=True)
KINDS: Mapping[type[QuarterjackError], ErrorKind] = {
    errors.InvalidInput: ErrorKind(422, "invalid-input", "An argument is invalid; nothing was written"),
    errors.ExpressionError: ErrorKind(422, "invalid-expression", "An expression or its time zone is invalid"),
    errors.JobError: ErrorKind(422, "invalid-job", "A job's declaration is invalid"),
    errors.NotFound: ErrorKind(404, "not-found", "There is nothing of that name or id", "list what there is"),
    errors.AlreadyExists: ErrorKind(409, "already-exists", "The name is taken", "choose another one"),
    errors.KeyReused: ErrorKind(
        422, "key-reused", "The idempotency key was used for another request", "use another key"
    ),
    errors.Conflict: ErrorKind(
        409, "conflict", "Another call was first, or the state does not allow it", "read it again, then decide"
    ),
    errors.Forbidden: ErrorKind(403, "forbidden", "The caller may not do this", "ask an operator"),
    errors.TenantSuspended: ErrorKind(403, "tenant-suspended", "The tenant takes no new work", "ask an operator"),
    errors.JobNotGranted: ErrorKind(403, "job-not-granted", "The tenant may not run this job", "ask an operator"),
    errors.LimitExceeded: ErrorKind(
        403, "limit-exceeded", "A limit of the tenant refuses this", "free something, or ask an operator for more"
    ),
    errors.Throttled: ErrorKind(
        429,
        "throttled",
        "The tenant acts faster or has more than its limit allows",
        "send the same request again after Retry-After",
    ),
    errors.Unavailable: ErrorKind(
        503, "unavailable", "A table or queue did not answer", "send the same request again after Retry-After"
    ),
    errors.Misconfigured: ErrorKind(500, "misconfigured", "The installation is not set up for this", ours=True),
    errors.Unreadable: ErrorKind(500, "unreadable", "A stored item is damaged", ours=True),
    errors.TooNew: ErrorKind(500, "too-new", "A stored item is of a later release", ours=True),
    errors.NotFinished: ErrorKind(504, "not-finished", "The run has not ended within the time", "ask again"),
    errors.QuarterjackError: ErrorKind(500, "internal", "An error of Quarterjack", ours=True),
    **dict.fromkeys(_OF_WORKERS, _OURS),
}
MEMBERS: Mapping[type[QuarterjackError], Sequence[str]] = {  # of the problems of these errors
    errors.Forbidden: ("principal", "verb", "tenant", "job"),
    errors.LimitExceeded: ("tenant", "most"),
    errors.Throttled: ("tenant", "limit", "seconds", "most"),
}
PRECONDITION = ErrorKind(412, "precondition-failed", "The resource is not as If-Match or If-None-Match says")
UNEXPECTED = ErrorKind(500, "internal", "An unexpected error; the log of the server has it", ours=True)
INVALID_CREDENTIALS = ErrorKind(401, "invalid-credentials", "What the request says of its sender is not valid")
REFUSALS: Mapping[int, ErrorKind] = {
    400: ErrorKind(400, "malformed", "The request cannot be parsed"),
    401: ErrorKind(401, "unauthenticated", "The request does not say who sends it"),
    403: ErrorKind(403, "forbidden", "Not allowed"),
    404: ErrorKind(404, "no-such-route", "The API has no such address"),
    405: ErrorKind(405, "method-not-allowed", "The address does not take this method"),
    412: PRECONDITION,
    413: ErrorKind(413, "too-large", "The body is too large"),
    415: ErrorKind(415, "unsupported-media-type", "The body is not in a form that the API reads"),
    421: ErrorKind(421, "foreign-host", "The request is for another host"),
    429: ErrorKind(429, "too-many-requests", "The caller sends more requests than the API takes"),
}


def kind_of(problem: QuarterjackError) -> ErrorKind:
    """The kind of an error: its own, or that of the nearest class above it."""
    return next(KINDS[cls] for cls in type(problem).__mro__ if cls in KINDS)
