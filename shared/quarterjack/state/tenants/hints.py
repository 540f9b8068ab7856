"""The hints by which a tick knows, before it has read an entry, that a tenant is held back somewhere. Pure.

~quarterjack/~hints    ~open~<tenant>      a circuit breaker of the tenant is open
"""

from __future__ import annotations

from enum import StrEnum

HINTS = "~quarterjack/~hints"  # the owner of their records


class Hint(StrEnum):
    """Why; the beginning of a hint's key."""

    OPEN = "~open~"


def tenant_of_hint(key: str) -> str:
    """The tenant that a hint is of."""
    return key.removeprefix(Hint.OPEN)
