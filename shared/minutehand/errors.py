"""Every error that Minutehand raises, under one root.

An error about input names the field, the value and the remedy. Errors of botocore are translated once, in the adapters of
``store`` and ``queue``, and stay chained as the cause.
"""

from __future__ import annotations

_SHOWN = 80  # characters of a bad value that a message repeats: enough to recognise it, too few to flood a log


class MinutehandError(Exception):
    """Something went wrong in Minutehand."""


class InvalidInput(MinutehandError, ValueError):
    """A value was refused at the door; nothing was written.

    ``field`` is the name of the argument, ``value`` what was given, ``remedy`` what to give instead.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        super().__init__(f"{field}={shorten(value)}: {problem}; {remedy}")
        self.field, self.value, self.problem, self.remedy = field, value, problem, remedy

    def about(self, field: str) -> InvalidInput:
        """The same refusal as one of another field: where the value stands in what the user wrote."""
        return InvalidInput(field, self.value, self.problem, self.remedy)


class ExpressionError(InvalidInput):
    """A schedule expression or its time zone cannot be used.

    ``position`` is the zero-based character in the expression at which the problem stands, or None if it is about the whole.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str, *, position: int | None = None) -> None:
        super().__init__(field, value, problem, remedy)
        self.position = position

    def about(self, field: str) -> ExpressionError:
        """As of every refusal."""
        return ExpressionError(field, self.value, self.problem, self.remedy, position=self.position)


class NotFound(MinutehandError, LookupError):
    """There is no such schedule or run in this tenant."""


class AlreadyExists(MinutehandError):
    """A schedule of that name, or a run with that idempotency key and another content, is there already."""


class Conflict(MinutehandError):
    """Somebody else changed the schedule first: read it again, then decide."""


class Unavailable(MinutehandError):
    """A table or queue throttled, timed out or failed although it was asked again: nothing is known to be wrong with the request."""


class Misconfigured(MinutehandError):
    """A setting is missing or impossible, or a table or queue is not where the settings say."""


class Unreadable(MinutehandError, ValueError):
    """A message or an item of a table is none of Minutehand's, or it is broken. It stops no other; the log names it."""


class TooNew(Unreadable):
    """A message or an item of a later release. It is left for that release's functions: finish the deployment."""


class JobError(MinutehandError):
    """A job was declared wrongly: two with one name, or not a function of ``(ctx, payload)``."""


class NotFinished(MinutehandError, TimeoutError):
    """The run had not ended when the time to wait for it was over."""


class LeaseLost(MinutehandError):
    """This worker no longer holds the run: its lease ran out and another may have taken it, so nothing was written."""


class JobSignal(MinutehandError):
    """What a job raises to tell the worker how its attempt ended."""

    permanent = False  # whether no further attempt would help
    seconds: float | None = None  # that the next attempt waits at least, instead of the backoff


class Permanent(JobSignal):
    """No further attempt would help: the run is dead at once."""

    permanent = True


class RetryAfter(JobSignal):
    """Try again, but not before so many seconds (0 to 14 days)."""

    def __init__(self, seconds: float, message: str = "") -> None:
        super().__init__(message or f"try again after {seconds} s")
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= 14 * 86_400:
            raise InvalidInput("seconds", seconds, "is not a number of seconds", "use 0 to 1,209,600 (14 days)")
        self.seconds = float(seconds)


class Continue(JobSignal):
    """This slice is over: go on from the checkpoint in a new one, without spending an attempt.

    In a slice that recorded no checkpoint it is a failed attempt.
    """


class UnexpectedStatus(JobSignal):
    """An HTTP job's endpoint answered with a status that is none of those expected; ``status_code`` is that status.

    408, 425, 429 and 5xx are worth another attempt, after the answer's ``Retry-After`` if it has one; others are permanent.
    """

    def __init__(self, status_code: int, message: str, *, permanent: bool, seconds: float | None = None) -> None:
        super().__init__(message)
        self.status_code, self.permanent, self.seconds = status_code, permanent, seconds


class RunCancelled(JobSignal):
    """The run's cancellation was asked for, and the job has seen it."""


def shorten(value: object, limit: int = _SHOWN) -> str:
    """``repr(value)``, cut to ``limit`` characters; of a value whose own repr fails, its class."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (it is somebody else's code)
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
