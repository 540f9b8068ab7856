"""The schema number of items and messages: which of them this release reads.

An item or message without ``v`` has schema 1, so that the usual row needs no attribute for it. A later release keeps the number if
older releases may ignore its new attributes, and raises it if they would misunderstand its items. An item of a higher schema stays
where it is and is not a failure: a ticker, worker or undertaker of the newer release handles it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minutehand.errors import MinutehandError, TooNew, Unreadable, shorten

SCHEMA = 1  # raised for a change that an older release would misunderstand

# The exceptions that reading a foreign item may raise.
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
    """Errors within are the item's: raises Unreadable or TooNew."""
    check_schema(given, what)
    try:
        yield
    except MinutehandError:
        raise
    except GARBAGE as problem:
        raise unreadable(what, problem) from problem


def unreadable(what: str, problem: BaseException) -> Unreadable:
    """The error for an item that is foreign or damaged."""
    return Unreadable(f"{what} cannot be read: {type(problem).__name__}: {shorten(str(problem))}")
