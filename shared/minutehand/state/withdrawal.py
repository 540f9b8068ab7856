"""A change of a schedule refuses runs that have not started."""

from __future__ import annotations

from dataclasses import dataclass

from minutehand.domain.run import RunState
from minutehand.domain.schedule import ClosedBy, Revision


@dataclass(frozen=True)
class Refusal:
    """A run must not start any more."""

    to: RunState
    reason: str
    beyond: bool = False  # the change came before its instant


def refused_by(revision: Revision, due: int) -> Refusal | None:
    """Whether the end of a revision refuses its unstarted run due at ``due`` (UTC ms); None: the run may start."""
    if revision.active_until is None:
        return None
    beyond = due > revision.active_until
    match revision.closed_by:
        case ClosedBy.PAUSED | ClosedBy.DELETED:
            return Refusal(RunState.CANCELLED, str(revision.closed_by), beyond)
        case ClosedBy.DRAINED:
            return Refusal(RunState.CANCELLED, str(revision.closed_by), beyond) if beyond else None
        case _:
            return Refusal(RunState.SUPERSEDED, "replaced", beyond) if beyond else None
