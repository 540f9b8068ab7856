"""Withdraw the runs that have not started, after an update, pause or delete; wait for those leased before their instant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from quarterjack.domain.run import RunRow
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable
from quarterjack.fires.context import FireContext
from quarterjack.ports.services import Services
from quarterjack.state.before_start import refuse
from quarterjack.state.refusal import refused_by
from quarterjack.state.start import HELD, UNCERTAIN, may_not_have_begun
from quarterjack.state.transition import Transition

_BATCH = 100  # runs refused in one call
_ROUNDS = 5  # times that writes without a response are repeated before Unavailable is raised


def held_leases(runs: Iterable[RunRow], now: int) -> list[RunRow]:
    """The runs that were leased before their instant, and whose jobs may not have begun."""
    return [run for run in runs if may_not_have_begun(run, now)]


def wait_for_held(held: Sequence[RunRow], services: Services) -> None:
    """Wait until the jobs of these runs have begun or will never begin."""
    if held:
        services.wait(HELD / SECOND)


def withdraw(closed: Revision, context: FireContext) -> int:
    """Refuse the unstarted runs of revisions up to ``closed`` that it no longer allows; how many. Raises Unavailable.

    An update leaves manual triggers alone; a full stop refuses them like all other runs.
    """
    beyond_only = closed.closed_by in (ClosedBy.REPLACED, ClosedBy.DRAINED)
    refused = _refuse_unstarted(closed, context, after=closed.active_until if beyond_only else None)
    now = context.clock()
    near = context.services.ledger.window(closed.owner, after=now - UNCERTAIN, upto=now + UNCERTAIN)
    wait_for_held(held_leases(near, now), context.services)
    return refused


def withdraw_beyond(closed: Revision, context: FireContext) -> int:
    """Refuse only the runs later than the revision's end, which were claimed and perhaps never sent; how many.

    Called before a closed revision's last entry is removed, in case the owner's process died in ``withdraw``. Raises Unavailable.
    """
    return _refuse_unstarted(closed, context, after=closed.active_until)


def _refuse_unstarted(closed: Revision, context: FireContext, *, after: int | None) -> int:
    runs = context.services.ledger.never_leased(closed.owner, after=after)
    refused = 0
    while batch := list(islice(runs, _BATCH)):
        stopped = [run for run in batch if run.revision <= closed.number and (after is None or run.ref.is_fire)]
        refused += _refuse_batch(stopped, closed, context)
    return refused


def _refuse_batch(runs: Sequence[RunRow], closed: Revision, context: FireContext) -> int:
    refused, left = 0, [(run.ref, _refusal(run, closed, context)) for run in runs]
    for _ in range(_ROUNDS):
        answers = context.services.ledger.move_all(left)
        refused += sum(answers.values())
        left = [(ref, transition) for ref, transition in left if ref not in answers]
        if not left:
            return refused
    raise Unavailable(
        f"the change of {closed.owner!r} is made, but {len(left)} of its queued runs could not be taken back yet; "
        "call again to finish"
    )


def _refusal(run: RunRow, closed: Revision, context: FireContext) -> Transition:
    refusal, now = refused_by(closed, run.due), run.end_time(context.clock())
    assert refusal is not None
    expires = now + context.services.retention
    return refuse(to=refusal.to, revision=closed.number, now=now, expires=expires, reason=refusal.reason)
