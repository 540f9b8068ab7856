"""Waiting: lean runs that are on their way to a worker have no row yet. Which they are follows from the schedule's revisions.

A run is taken to wait from LOOKAHEAD before its time on, which is when the ticker comes to it at the latest. It is what the ledger would
say under ``full``, to the ticker's next minute; whoever cancels it puts the row, and the first lease is then refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minutehand.domain.names import RunRef
from minutehand.domain.run import RunRow
from minutehand.domain.schedule import Revision
from minutehand.domain.times import DAY
from minutehand.fires.claim import FireClaim
from minutehand.fires.missed import gaps_before
from minutehand.fires.plan import LOOKAHEAD, timetable_of
from minutehand.ports.services import Services
from minutehand.state.decisions import refused_by
from minutehand.state.ledger_levels import LATE, is_lean
from minutehand.state.missed import covers
from minutehand.timing import fires

LONGEST = 14 * DAY  # that a queue keeps a message


def waiting(owner: str, services: Services, *, after: int, upto: int, now: int) -> Iterator[RunRow]:
    """The runs of a schedule with fires in ``(after, upto]`` that are on their way without a row. Raises Unavailable."""
    after, upto = max(after, now - min(LONGEST, services.retention)), min(upto, now + LOOKAHEAD)
    revisions = list(_since(owner, after, services)) if after < upto else []
    if not any(is_lean(revision) for revision in revisions):
        return
    rows = list(services.ledger.window(owner, after=after, upto=upto))
    there = {run.due for run in rows if run.ref.is_fire}
    bare = [
        (revision, fire)
        for place, revision in enumerate(revisions)
        for fire in _fires(revision, after, upto)
        # taken back by its own revision's end, or by that of one after it: the newest comes first
        if fire not in there and not any(refused_by(later, fire) for later in revisions[: place + 1])
    ]
    gaps = [run for run in rows if run.skipped_until is not None]
    if any(fire < now - LATE for _, fire in bare):  # a gap that begins earlier may reach into it
        gaps += gaps_before(owner, after, services)
    for revision, fire in bare:
        if not any(covers(gap, fire) for gap in gaps):
            yield FireClaim(revision, fire).run(fire)


def waiting_run(ref: RunRef, services: Services, now: int) -> RunRow | None:
    """The run of a fire, if it is on its way without a row. Raises Unavailable."""
    if not ref.is_fire:
        return None
    fire = int(ref.key)
    return next(waiting(ref.owner, services, after=fire - 1, upto=fire, now=now), None)


def _since(owner: str, after: int, services: Services) -> Iterator[Revision]:
    """A schedule's revisions that may have fires later than that, newest first."""
    for revision in services.schedules.history(owner):
        if revision.active_until is not None and revision.active_until <= after:
            return
        yield revision


def _fires(revision: Revision, after: int, upto: int) -> Iterable[int]:
    since, end = max(after, revision.active_from), revision.bound(upto)
    return fires(timetable_of(revision), since, end) if is_lean(revision) and since < end else ()
