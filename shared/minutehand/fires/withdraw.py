"""Withdraw the runs that have not started, after an update, pause or delete.

A worker reads the revision before it leases, perhaps just before the change. Its lease is conditional on QUEUED, so after every unstarted
run has left QUEUED, no run of the revision starts: only then may the owner's call return. The job of a run that was leased before its
instant begins before the call returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from minutehand.domain.run import RunRow
from minutehand.domain.schedule import ClosedBy, Revision
from minutehand.errors import Unavailable
from minutehand.fires.held_leases import held_leases, wait_for_held
from minutehand.ports.clock import Clock
from minutehand.ports.services import Services
from minutehand.state.start import UNCERTAIN
from minutehand.state.transitions.before_start import refuse
from minutehand.state.transitions.transition import Transition
from minutehand.state.withdrawal import refused_by

_BATCH = 100  # runs refused in one call
_ROUNDS = 5  # times that writes without a response are repeated before Unavailable is raised


def withdraw(closed: Revision, services: Services, clock: Clock) -> int:
    """Refuse the unstarted runs of revisions up to ``closed`` that it no longer allows; how many. Raises Unavailable.

    An update leaves manual triggers alone; a full stop refuses them like all other runs.
    """
    beyond_only = closed.closed_by in (ClosedBy.REPLACED, ClosedBy.DRAINED)
    refused = _refuse_unstarted(closed, services, clock, after=closed.active_until if beyond_only else None)
    now = clock()
    near = services.ledger.window(closed.owner, after=now - UNCERTAIN, upto=now + UNCERTAIN)
    wait_for_held(held_leases(near, now), services)
    return refused


def withdraw_beyond(closed: Revision, services: Services, clock: Clock) -> int:
    """Refuse only the runs later than the revision's end, which were claimed and perhaps never sent; how many.

    Called before a closed revision's last entry is removed, in case the owner's process died in ``withdraw``. Raises Unavailable.
    """
    return _refuse_unstarted(closed, services, clock, after=closed.active_until)


def _refuse_unstarted(closed: Revision, services: Services, clock: Clock, *, after: int | None) -> int:
    runs = services.ledger.never_leased(closed.owner, after=after)
    refused = 0
    while batch := list(islice(runs, _BATCH)):
        stopped = [run for run in batch if run.revision <= closed.number and (after is None or run.ref.is_fire)]
        refused += _refuse_batch(stopped, closed, services, clock)
    return refused


def _refuse_batch(runs: Sequence[RunRow], closed: Revision, services: Services, clock: Clock) -> int:
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


def _refusal(run: RunRow, closed: Revision, services: Services, now: int) -> Transition:
    refusal = refused_by(closed, run.due)
    assert refusal is not None
    return refuse(
        to=refusal.to, revision=closed.number, now=now, expires=now + services.retention, reason=refusal.reason
    )
