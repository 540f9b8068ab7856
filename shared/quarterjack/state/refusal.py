"""What a refused claim or lease means, read from the run's row and the schedule's last change."""

from __future__ import annotations

from enum import StrEnum

from quarterjack.domain.policies import Delivery, Policies
from quarterjack.domain.run import EPOCH, FailedAttemptRow, Failure, RunRow, RunState
from quarterjack.domain.schedule import ClosedBy, Revision
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import SKEW, has_live_lease, last_renewal
from quarterjack.values import value


@value()
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


class OnExisting(StrEnum):
    """What to do with a claim whose run exists."""

    SEND = "send"  # a ticker may have died between claim and send; the lease makes a duplicate harmless
    TAKE_OVER = "take over"  # an older revision or a backfill claimed it and it never started
    LEAVE = "leave"  # started, ended, or of a newer revision


def on_existing(run: RunRow, revision: int) -> OnExisting:
    """A fire of ``revision`` is claimed and ``run`` is in the ledger."""
    if run.revision == revision and run.backfill is None:
        return OnExisting.SEND if run.state is RunState.QUEUED else OnExisting.LEAVE
    # A backfill may claim a fire that a late chain has not reached. If it is stopped, the fire is still the schedule's own.
    revivable = run.state is RunState.QUEUED or run.unstarted
    return OnExisting.TAKE_OVER if run.revision <= revision and revivable else OnExisting.LEAVE


def is_same_claim(run: RunRow, revision: int, backfill: str | None, fence: int) -> bool:
    """Whether a message with these is of the present claim of a run, and of the epoch since the last restore."""
    return (run.revision, run.backfill) == (revision, backfill) and run.fence < fence + EPOCH


class OnRefusedLease(StrEnum):
    """What to do with a message whose lease was refused."""

    DROP = "drop"  # ended, or a newer revision's
    WAIT = "wait"  # another worker holds it: hide the message until that lease would end
    POSTPONE = "postpone"  # not yet due: send it back with the rest of the delay
    LOSE = "lose"  # at-most-once and abandoned: lost, and never run again
    EXHAUST = "exhaust"  # no attempt is left, and none runs: dead
    CANCEL = "cancel"  # its owner requested it before this attempt
    RETRY = "retry"  # the row changed after the refusal: try to lease it again


@value()
class LeaseAnswer:
    """The decision on a refused lease; ``until`` is UTC ms, for WAIT and POSTPONE."""

    action: OnRefusedLease
    why: str
    until: int = 0


def on_refused_lease(  # noqa: PLR0911 (a table of cases)
    run: RunRow | None, *, revision: int, backfill: str | None = None, fence: int = 0, now: int, policies: Policies
) -> LeaseAnswer:
    """Why a lease was refused, read from the row that refused it. ``revision``, ``backfill``, ``fence``: of the message."""
    if run is None:
        return LeaseAnswer(OnRefusedLease.DROP, "unknown_run")
    if run.is_terminal:
        return LeaseAnswer(OnRefusedLease.DROP, "ended")
    if run.revision != revision:
        return LeaseAnswer(OnRefusedLease.DROP, "other_revision")
    if not is_same_claim(run, revision, backfill, fence):
        return LeaseAnswer(OnRefusedLease.DROP, "other_claim")
    running = run.state is RunState.RUNNING
    if has_live_lease(run, now):
        return LeaseAnswer(OnRefusedLease.WAIT, "live_lease", (run.lease_until or 0) + SKEW)
    if running and policies.delivery is Delivery.AT_MOST_ONCE:
        return LeaseAnswer(OnRefusedLease.LOSE, "at_most_once")
    if run.cancel_requested:
        return LeaseAnswer(OnRefusedLease.CANCEL, "cancelled")
    if run.attempt >= policies.max_attempts:
        return LeaseAnswer(OnRefusedLease.EXHAUST, "attempts_spent")
    if not running and run.not_before > now:
        return LeaseAnswer(OnRefusedLease.POSTPONE, "not_due", run.not_before)
    return LeaseAnswer(OnRefusedLease.RETRY, "changed")


def vanished(run: RunRow, now: int) -> FailedAttemptRow | None:
    """The attempt of a RUNNING run as if its worker had crashed; None if no worker holds the run.

    The attempt ended when the lease was last renewed. The next attempt may start from ``now`` on (UTC ms).
    """
    if run.state is not RunState.RUNNING or run.lease_until is None:
        return None
    alive = last_renewal(run.lease_until)
    return FailedAttemptRow(
        run=run.ref,
        number=run.attempt,
        fence=run.fence,
        worker=run.worker or "",
        started_at=alive if run.leased_at is None else run.leased_at,
        ended_at=alive,
        failure=Failure(
            kind="WorkerVanished",
            message=f"worker {run.worker or '?'} was not heard of for {(now - alive) // SECOND} s: it died, stalled or was cut off",
        ),
        next_attempt_at=now,
    )


def deaths(run: RunRow | None, now: int) -> int:
    """How many workers may have crashed in a run: its attempts, if its last lease has lapsed at ``now`` (UTC ms)."""
    if run is None or run.state is not RunState.RUNNING or has_live_lease(run, now):
        return 0
    return max(run.attempt, 1)
