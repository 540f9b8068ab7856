"""What ticker, owner and auditor need first: the context, the agenda's pages, and the schedule or run that must exist."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from minutehand.concurrency.rate_limits import WriteBudget
from minutehand.domain.names import RunRef
from minutehand.domain.run import AgendaEntry, RunRow
from minutehand.domain.schedule import Head, Revision, ScheduleState
from minutehand.domain.times import DAY
from minutehand.errors import Conflict, NotFound, Unavailable, Unreadable
from minutehand.fires.plan import REACH
from minutehand.ports.agenda import DuePage
from minutehand.ports.services import Clock, Services


@dataclass(frozen=True, kw_only=True)
class FireContext:
    """The services, the time, and the limits of one tick or of one change by an owner."""

    services: Services
    clock: Clock
    reach: int = REACH  # ms beyond the look-ahead that a chain's plan may cover
    trace: str | None = None  # trace header that the messages carry
    write_budget: WriteBudget = field(default_factory=WriteBudget)  # write units that the claims may take


FAR = 200 * 365 * DAY  # UTC ms beyond every entry and every fire
PAGE = 500  # entries of one query: bounds memory, and fills the batches of 100 revisions and 25 claims


def due_pages(shard: int, services: Services, *, upto: int = FAR) -> Iterator[DuePage]:
    """The entries of a shard due up to an instant (UTC ms), oldest first. Raises Unavailable."""
    after = None
    while True:
        page = services.agenda.due(shard, upto=upto, after=after, limit=PAGE)
        yield page
        after = page.last
        if after is None:
            return


def postpone(entry: AgendaEntry, due: int, services: Services) -> bool:
    """Put the same entry at a later time (UTC ms); whether the agenda accepted it, so that the earlier one may go."""
    later = replace(entry, due=due, failures=0)
    return later.key in services.agenda.put([later])


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
