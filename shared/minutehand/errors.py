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


class ExpressionError(InvalidInput):
    """A schedule expression or its time zone cannot be used.

    ``position`` is the zero-based character in the expression at which the problem stands, or None if it is about the whole.
    """

    def __init__(self, field: str, value: object, problem: str, remedy: str, *, position: int | None = None) -> None:
        super().__init__(field, value, problem, remedy)
        self.position = position


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


class JobError(MinutehandError):
    """A job was declared wrongly: two with one name, or not a function of ``(ctx, payload)``."""


class LeaseLost(MinutehandError):
    """This worker no longer holds the run: its lease ran out and another may have taken it, so nothing was written."""


def shorten(value: object, limit: int = _SHOWN) -> str:
    """``repr(value)``, cut to ``limit`` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
