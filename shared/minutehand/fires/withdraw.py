"""Sweep: after an update, pause or delete, take back the runs that have not started.

A worker reads the revision before it leases, but it may have read it just before the change. Its lease is conditional on QUEUED,
so once every unstarted run has left QUEUED, nothing of it starts: only then may the owner's call return. A lean fire has no row
before its lease, which is conditional on there being none: so those that a worker may be about to lease are put, refused. What was
leased ahead of its instant begins before the call returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from minutehand.domain.run import RunRow
from minutehand.domain.schedule import ClosedBy, Revision
from minutehand.errors import Unavailable
from minutehand.fires.claim import FireClaim
from minutehand.fires.held_leases import held_leases, wait_for_held
from minutehand.fires.missed import gaps_before, record_missed
from minutehand.fires.plan import timetable_of
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.decisions import UNCERTAIN, Refusal, refused_by
from minutehand.state.ledger_levels import LATE, unclaimed
from minutehand.state.missed import covers
from minutehand.state.transitions import Transition, refuse
from minutehand.timing import fires

_BATCH = 100  # runs taken back in one go
_ROUNDS = 5  # times that unanswered writes are asked for again before the caller is told


def withdraw(closed: Revision, services: Services, clock: Clock) -> int:
    """Refuse the unstarted runs of revisions up to ``closed`` that it no longer allows; how many. Raises Unavailable.

    A run that was triggered by hand is no fire's: an update leaves it alone, a full stop takes it back like all others.
    """
    beyond_only = closed.closed_by in (ClosedBy.REPLACED, ClosedBy.DRAINED)
    refused = _sweep(closed, services, clock, after=closed.active_until if beyond_only else None)
    now = clock()
    near = services.ledger.window(closed.owner, after=now - UNCERTAIN, upto=now + UNCERTAIN)
    wait_for_held(held_leases(near, now), services)
    return refused


def withdraw_beyond(closed: Revision, services: Services, clock: Clock) -> int:
    """The part of a sweep that only its caller does: runs later than the revision's end, claimed and perhaps never sent.

    Whoever takes a closed revision's last entry off the agenda does it again, in case that caller died. Raises Unavailable.
    """
    return _sweep(closed, services, clock, after=closed.active_until)


def _sweep(closed: Revision, services: Services, clock: Clock, *, after: int | None) -> int:
    runs = services.ledger.never_leased(closed.owner, after=after)
    refused = _sweep_unclaimed(closed, services, clock, after=after)
    while batch := list(islice(runs, _BATCH)):
        stopped = [run for run in batch if run.revision <= closed.number and (after is None or run.ref.is_fire)]
        refused += _refuse(stopped, closed, services, clock)
    return refused


def _refuse(runs: Sequence[RunRow], closed: Revision, services: Services, clock: Clock) -> int:
    refused, left = 0, [(run.ref, _refusal(run, closed, services, clock())) for run in runs]
    for _ in range(_ROUNDS):
        answers = services.ledger.move_all(left)
        refused += sum(answers.values())
        left = [(ref, transition) for ref, transition in left if ref not in answers]
        if not left:
            return refused
    raise Unavailable(
        f"the change of {closed.owner!r} is made, but {len(left)} of its queued runs could not be taken back yet; "
        "call again to finish"
    )


def _sweep_unclaimed(closed: Revision, services: Services, clock: Clock, *, after: int | None) -> int:
    """Put the rows of fires that may be on their way to a first lease, as refused; how many. Raises Unavailable."""
    now, refused = clock(), 0
    earlier = _earlier(closed, services) if after is None and closed.number > 1 else iter(())
    for revision, since, upto in unclaimed(closed, earlier, now):
        since = since if after is None else max(since, after)  # noqa: PLW2901 (the same bound, closer)
        rows = list(services.ledger.window(closed.owner, after=since, upto=upto)) if since < upto else []
        there = {run.due for run in rows if run.ref.is_fire}
        bare = [fire for fire in fires(timetable_of(revision), since, upto) if fire not in there]
        gaps = [run for run in rows if run.skipped_until is not None]
        if bare and bare[0] < now - LATE:  # a gap that begins earlier may reach into it
            gaps += gaps_before(closed.owner, since, services)
        wanted = [_refused(revision, fire, closed, gaps, now) for fire in bare]
        refused += _put_refused(wanted, services)
        if any(not run.unstarted for run in wanted):
            oldest = min(gap.due - 1 for gap in gaps)
            record_missed(revision, (), min(since, oldest), services, clock)  # what has a row of its own is in no gap
    return refused


def _earlier(closed: Revision, services: Services) -> Iterator[Revision]:
    return (revision for revision in services.schedules.history(closed.owner) if revision.number < closed.number)


def _refused(revision: Revision, fire: int, closed: Revision, gaps: Sequence[RunRow], now: int) -> RunRow:
    """The row of a fire that has none. What its schedule's policy has passed over stays so, and is never taken over."""
    skipped = next((gap for gap in gaps if covers(gap, fire)), None)
    refusal = refused_by(closed, fire) if skipped is None else Refusal(skipped.state, skipped.reason or "")
    assert refusal is not None
    claim = FireClaim(revision, fire).run(min(now, fire))
    return replace(claim, state=refusal.to, ended_at=now, reason=refusal.reason, unstarted=skipped is None)


def _put_refused(runs: Sequence[RunRow], services: Services) -> int:
    """Put them where there is still no row; how many. A run that has begun meanwhile, began before the call returned."""
    put, left = 0, list(runs)
    for _ in range(_ROUNDS):
        if not left:
            return put
        claimed = services.ledger.claim(left)
        put += len(claimed.created)
        answered = claimed.created | claimed.existing.keys() | claimed.unreadable
        left = [run for run in left if run.ref not in answered]
    if not left:
        return put
    raise Unavailable(
        f"the change of {left[0].ref.owner!r} is made, but {len(left)} of its fires could not be taken back yet; "
        "call again to finish"
    )


def _refusal(run: RunRow, closed: Revision, services: Services, now: int) -> Transition:
    refusal = refused_by(closed, run.due)
    assert refusal is not None
    return refuse(
        to=refusal.to, revision=closed.number, now=now, expires=now + services.retention, reason=refusal.reason
    )
