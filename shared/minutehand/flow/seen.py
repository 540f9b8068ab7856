"""The optimistic lock of what an owner does: the revision that they saw must be the current one."""

from __future__ import annotations

from minutehand.errors import Conflict
from minutehand.model.schedule import Head


def check_seen(head: Head, expected: int | None) -> None:
    """Raises Conflict with both revisions. ``expected``: the one that the caller saw; None: whichever it is."""
    if expected is not None and head.revision != expected:
        raise Conflict(
            f"name={head.name!r}: you saw revision {expected}, but revision {head.revision} is current; read it again"
        )
