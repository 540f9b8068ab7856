"""The errors of Quarterjack, with one root.

An error about input names the field, the value and the remedy. The adapters translate errors of AWS once and chain them as the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

_SHOWN = 80  # characters of a wrong value in a message


class QuarterjackError(Exception):
    """The root of all errors of Quarterjack. Each may be copied and pickled, whatever its constructor takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, dict(vars(self)))


def _again(kind: type[QuarterjackError], args: tuple[Any, ...], state: dict[str, Any]) -> QuarterjackError:
    """An error as it was, without its constructor: that one takes other arguments than the message."""
    made = kind.__new__(kind, *args)
    vars(made).update(state)
    return made


class InvalidInput(QuarterjackError, ValueError):
    """An argument is invalid; nothing was written.

    ``field`` is the name of the argument, ``value`` its value, ``problem`` the fault, ``remedy`` what to pass instead.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"{field}={shorten(value)}: {problem}; {remedy}")
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy

    def about(self, field: str) -> InvalidInput:
        """The same error for another field, the one that the user wrote."""
        return self.reworded(field, str)

    def reworded(self, field: str, words: Callable[[str], str]) -> InvalidInput:
        """The same error for another field, with problem and remedy in other words."""
        return InvalidInput(field, self.value, words(self.problem), words(self.remedy))


class ExpressionError(InvalidInput):
    """A schedule expression or its time zone is invalid.

    ``position`` is the zero-based position of the problem in the expression; None: it concerns the whole expression.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str, *, position: int | None = None) -> None:
        super().__init__(field, value, problem, remedy)
        self.position = position

    def reworded(self, field: str, words: Callable[[str], str]) -> ExpressionError:
        """See ``InvalidInput.reworded``."""
        return ExpressionError(field, self.value, words(self.problem), words(self.remedy), position=self.position)


class NotFound(QuarterjackError, LookupError):
    """This tenant has no such schedule or run."""


class AlreadyExists(QuarterjackError):
    """A schedule of that name exists already; see also ``KeyReused``."""


class KeyReused(AlreadyExists):
    """The idempotency key or client token was used for a call with other arguments."""


class Conflict(QuarterjackError):
    """Another call changed the schedule first: read it again, then decide."""


class Forbidden(QuarterjackError):
    """The caller may not do this, or nobody may at present; nothing was done.

    For want of a grant: ``principal`` lacks ``verb`` for ``tenant``, and for ``job`` (None: for all jobs, or its name is not said).
    ``command`` is what an operator of the installation runs to allow it, if there is such a command: the message is for the caller.
    """

    def __init__(
        self,
        message: str,
        *,
        principal: str | None = None,
        verb: str | None = None,
        tenant: str | None = None,
        job: str | None = None,
        command: str | None = None,
    ) -> None:
        super().__init__(message)
        self.principal, self.verb, self.tenant, self.job, self.command = principal, verb, tenant, job, command


class TenantSuspended(Forbidden):
    """The tenant is suspended, is being erased or was erased: it takes no new work."""


class JobNotGranted(Forbidden):
    """The tenant may not run this job: its profile does not name it. ``tenant`` and ``job`` are their names."""

    def __init__(self, message: str, *, tenant: str, job: str, command: str | None = None) -> None:
        super().__init__(message, tenant=tenant, job=job, command=command)


class LimitExceeded(QuarterjackError):
    """A limit of the tenant refuses this; nothing was done. Repeated, it is refused again, until something is freed or the limit raised.

    ``limit`` is its name, ``tenant`` whose it is, ``value`` what would be, ``most`` what may be, ``remedy`` what the tenant can do,
    ``command`` what an operator of the installation runs to raise it.
    """

    def __init__(
        self, message: str, *, tenant: str, limit: str, value: int, most: int, remedy: str, command: str | None = None
    ) -> None:
        super().__init__(message)
        self.tenant, self.limit, self.value, self.most, self.remedy = tenant, limit, value, most, remedy
        self.command = command


class Throttled(QuarterjackError):
    """The tenant acts faster than its limit, or has as many runs as it may; nothing was done. The same call is accepted ``seconds`` later,
    unless others are first.

    ``limit`` is its name, ``tenant`` whose it is. How much it is: of a rate ``per_second`` and ``burst``, else ``most``.
    """

    def __init__(
        self,
        message: str,
        *,
        tenant: str,
        limit: str,
        seconds: float,
        per_second: float | None = None,
        burst: int | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__(message)
        self.tenant, self.limit, self.seconds = tenant, limit, seconds
        self.per_second, self.burst, self.most = per_second, burst, most


class Unavailable(QuarterjackError):
    """A table or queue throttled, timed out or failed, also after retries. The request itself is valid as far as known."""


class Misconfigured(QuarterjackError):
    """A setting is missing or impossible, or a table or queue is not where the settings say."""


class Unreadable(QuarterjackError, ValueError):
    """A message or an item of a table is foreign or damaged. Others are handled nevertheless; the log names it."""


class TooNew(Unreadable):
    """A message or an item of a later release, whose functions handle it: finish the deployment."""


class JobError(QuarterjackError):
    """A job's declaration is invalid: its name is taken, or it is not a function of ``(ctx, payload)``."""


class NotFinished(QuarterjackError, TimeoutError):
    """The run had not ended within the time to wait."""


class EventRefused(QuarterjackError):
    """The receiver of events will never take this one. It is set aside, and the others are sent."""


class EventFailed(QuarterjackError):
    """The receiver did not take this event, but may take others, and this one later.

    ``is_outage``: the answer, or its absence, says that the receiver takes none at present.
    """

    def __init__(self, message: str, *, is_outage: bool = False) -> None:
        super().__init__(message)
        self.is_outage = is_outage


class LeaseLost(QuarterjackError):
    """This worker no longer holds the run's lease; another may have it. Nothing was written."""


class ItemRefused(QuarterjackError):
    """The condition of an item of ``ctx.transaction`` does not hold. Nothing of the transaction was written.

    ``index`` is the item's place in the list, from 0, ``action`` its key (``Put``, ``Update`` …), ``table`` the name of its table.
    """

    def __init__(self, index: int, action: str, table: str) -> None:
        super().__init__(
            f"items[{index}]: the condition of this {action} in table {table!r} does not hold, so nothing was written; "
            "read the item and decide, or raise Permanent if another attempt is useless"
        )
        self.index, self.action, self.table = index, action, table


class JobSignal(QuarterjackError):
    """Raised by a job to tell the worker how the attempt ended."""

    permanent = False  # whether another attempt is useless
    seconds: float | None = None  # least wait before the next attempt, instead of the backoff


class Permanent(JobSignal):
    """Another attempt is useless: the run is DEAD at once."""

    permanent = True


class RetryAfter(JobSignal):
    """Retry after at least so many seconds (0 to 14 days)."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"try again after {seconds} s")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 14 * 86_400:
            raise InvalidInput("seconds", seconds, "is not a number of seconds", "use 0 to 1,209,600 (14 days)")
        self.seconds = float(seconds)


class Continue(JobSignal):
    """End this slice and continue from the checkpoint in a new one, which is not a new attempt.

    A slice without a checkpoint that raises it is a failed attempt.
    """


class Diverged(JobSignal):
    """A job that was called again after a wait has asked for its waits and children in another order than before.

    ``place`` is the place of the request, from 1, ``recorded`` the one that the record has there, ``asked`` the present one (None: none).
    """

    def __init__(self, place: int, recorded: str, asked: str | None) -> None:
        before, after = (f"{each[:45]}…{each[-34:]}" if len(each) > 80 else each for each in (recorded, asked or ""))
        now = "the job has returned without it" if asked is None else f"is {after!r}"
        text = f"request {place} of this run was {before!r} before, and {now} now"  # it fits into what is stored of an error
        super().__init__(f"{text}: ask for the same in the same order, by payload, steps and answers of waits")
        self.place, self.recorded, self.asked = place, recorded, asked


class WaitTimedOut(Permanent, TimeoutError):
    """No signal came within the time that ``ctx.wait_for`` allows."""


class CallbackFailed(Permanent):
    """An outside system has failed what ``ctx.wait_for`` waits for: ``Scheduler.fail(token, error)``."""


class ChildFailed(Permanent):
    """A child of ``ctx.gather`` or ``ctx.map`` ended without success: ``run_id``, its ``step``, its ``state``, its last ``error``."""

    def __init__(self, run_id: str, step: str, state: str, error: str = "") -> None:
        super().__init__(f"child {step!r} (run {run_id}) is {state}" + (f": {error}" if error else ""))
        self.run_id, self.step, self.state, self.error = run_id, step, state, error


class Parking(BaseException):
    """Raised through a job whose run parks. A job lets it pass: a handler for ``Exception`` does not see it."""


class UnexpectedStatus(JobSignal):
    """An HTTP job's endpoint returned an unexpected status, ``status_code``.

    408, 425, 429 and 5xx are retried, after the response's ``Retry-After`` if it has one; others are permanent.
    """

    def __init__(self, status_code: int, message: str, *, permanent: bool, seconds: float | None = None) -> None:
        super().__init__(message)
        self.status_code, self.permanent, self.seconds = status_code, permanent, seconds


class RunCancelled(JobSignal):
    """The run's cancellation was requested, and the job has noticed it. Raised without a request it is a failure."""


def shorten(value: object, limit: int = _SHOWN) -> str:
    """``repr(value)``, cut to ``limit`` characters, an instant as ISO 8601; the name of its class if its repr fails."""
    try:
        text = value.isoformat() if isinstance(value, datetime) else repr(value)
    except Exception:  # noqa: BLE001 (a foreign repr may raise anything)
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class UnknownJobWarning(UserWarning):
    """A schedule or run was accepted whose job no worker has ever known. With ``Scheduler(strict=True)`` it is refused instead.

    Also: a task names a pipeline that does not exist; whether ``strict`` or not, as pipelines of one package are published in turn.
    Also, once: the payloads of a job cannot be checked in this process, and are checked by its worker only.
    Filter it like any warning: ``warnings.simplefilter("error", UnknownJobWarning)``.
    """
