"""The marks by which a tick knows, before it has read an entry, that a tenant is held back somewhere. Pure.

~quarterjack/~marks    ~open~<tenant>      a circuit breaker of the tenant is open
"""

from __future__ import annotations

from enum import StrEnum

MARKS = "~quarterjack/~marks"  # the owner of their records


class Mark(StrEnum):
    """Why; the beginning of a mark's key."""

    OPEN = "~open~"


def tenant_of_mark(key: str) -> str:
    """The tenant that a mark is of."""
    return key.removeprefix(Mark.OPEN)
