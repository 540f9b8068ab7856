"""The marks by which a tick knows, before it has read an entry, that a tenant is held back somewhere. Pure.

~quarterjack/~marks    ~open~<tenant>      a circuit breaker of the tenant is open
                      ~line~<cap's id>    runs wait in the line of a concurrency cap
"""

from __future__ import annotations

from enum import StrEnum

MARKS = "~quarterjack/~marks"  # the owner of their records


class Mark(StrEnum):
    """Why; the beginning of a mark's key."""

    OPEN = "~open~"
    LINE = "~line~"


def tenant_of_mark(key: str) -> str:
    """Whose a mark is; of a cap over all tenants nobody's."""
    return key.removeprefix(Mark.OPEN).removeprefix(Mark.LINE).partition("/")[0]
