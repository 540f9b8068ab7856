"""The schema of what lies in tables and queues: what this release reads, and what it leaves to a later one.

Every item and message may carry ``v``. An item without it is of schema 1, so the usual row pays nothing for it. A later release that
adds an attribute which an older one may pass over keeps the number; one whose items an older one would misunderstand raises it. So what
is newer is left where it is and counts as nobody's failure: a ticker, worker or undertaker of that release takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minutehand.errors import MinutehandError, TooNew, Unreadable, shorten

SCHEMA = 1  # raised when an older reader would misunderstand; a reader leaves alone what is newer than itself

# What reading a foreign item may raise.
GARBAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def check_schema(given: Mapping[str, Any], what: str) -> None:
    """Raises TooNew for an item or message of a later schema."""
    schema = given.get("v", 1)
    if isinstance(schema, int) and schema > SCHEMA:
        raise TooNew(
            f"{what} of schema {schema}: this release reads up to {SCHEMA}; deploy the newer one to all functions"
        )


@contextmanager
def reading(what: str, given: Mapping[str, Any]) -> Iterator[None]:
    """What goes wrong in here is the item's: Unreadable, or TooNew."""
    check_schema(given, what)
    try:
        yield
    except MinutehandError:
        raise
    except GARBAGE as problem:
        raise unreadable(what, problem) from problem


def unreadable(what: str, problem: BaseException) -> Unreadable:
    """The error for an item that is none of ours, or broken."""
    return Unreadable(f"{what} cannot be read: {type(problem).__name__}: {shorten(str(problem))}")
