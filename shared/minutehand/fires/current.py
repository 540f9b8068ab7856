"""Checks before an owner acts: a schedule or run must exist, be the one that the caller saw, and be readable."""

from __future__ import annotations

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.errors import Conflict, NotFound, Unavailable, Unreadable
from minutehand.ports.services import Services


def must_exist(tenant: str, name: str, head: Head | None, *, deleted: bool = False) -> Head:
    """The head, if there is one. The head of a deleted schedule stays, for the numbering; it counts only with ``deleted``.

    Raises NotFound.
    """
    if head is None or (head.state is ScheduleState.DELETED and not deleted):
        raise NotFound(
            f"name={name!r}: tenant {tenant!r} has no schedule of that name; list_schedules() shows those it has"
        )
    return head


def check_seen(head: Head, expected: int | None) -> None:
    """Optimistic lock: ``expected`` is the revision that the caller saw; None: any. Raises Conflict with both revisions."""
    if expected is not None and head.revision != expected:
        raise Conflict(
            f"name={head.name!r}: you saw revision {expected}, but revision {head.revision} is current; read it again"
        )


def run_must_exist(ref: RunRef, run: RunRow | None) -> RunRow:
    """The run, if there is one. Raises NotFound."""
    if run is None:
        raise NotFound(f"run_id={str(ref)!r}: there is no such run, or its retention is over")
    return run


def find_revision(owner: str, number: int, services: Services) -> Revision | None:
    """A revision, read strongly, if there is one. Raises Unavailable, Unreadable."""
    key = (owner, number)
    answer = services.schedules.revisions([key])
    if key in answer.broken:
        problem = answer.broken[key]
        if isinstance(problem, Unreadable):
            raise problem
        raise Unreadable(f"revision {number} of {owner!r} cannot be understood: {problem}") from problem
    if key in answer.unanswered:
        raise Unavailable(f"revision {number} of {owner!r} could not be read; try again")
    return answer.found.get(key)


def read_revision(owner: str, number: int, services: Services) -> Revision:
    """A revision that must be there. Raises as ``find_revision`` does; NotFound if the tables contradict each other."""
    revision = find_revision(owner, number, services)
    if revision is None:
        raise NotFound(f"revision {number} of {owner!r} is missing; run the auditor")
    return revision


def revision_of(head: Head, services: Services) -> Revision:
    """The head's current revision. Raises as ``read_revision`` does."""
    return read_revision(head.owner, head.revision, services)
