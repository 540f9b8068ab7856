"""Ledger levels: what of a run is written when, and what that leaves unwritten at an instant. Pure.

    full   claim: QUEUED ──► lease: RUNNING ──► settle
    lean            sent ──► lease: RUNNING ──► settle         the lease puts the row, on condition that there is none
    failures   claim: SENT ──► nothing, or: QUEUED ──► lease ──► settle, when it has failed

What is lean is so only while it is in time: a fire that is late by LATE is claimed as in ``full``, by whoever comes to it. So nobody
puts the row of a late run without having asked anew whether its schedule still wants it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minutehand.domain.formats.message import Message
from minutehand.domain.job import Job
from minutehand.domain.options import LedgerLevel
from minutehand.domain.policies import Delivery
from minutehand.domain.run import MISSED, RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.domain.times import HOUR, MINUTE
from minutehand.state.decisions import is_past_deadline
from minutehand.state.transitions import LEASE, SKEW

LATE = MISSED - 2 * SKEW  # after so long the clock of a ticker may say that a fire was missed
# How long before an instant the lease of a run without a row may have been decided on that takes effect after it: a process that
# stands still for longer within one request is beyond what is promised.
STALL = HOUR
# How far ahead of an instant a worker's clock may be that has the lease of a run without a row under way: none leases more than a second
# before its time. And how much later than a revision's end a fire may be whose worker read the revision before: none has a message
# earlier than that.
AHEAD = 3 * MINUTE


def is_lean(revision: Revision) -> bool:
    """Whether its fires have no rows before they start."""
    return revision.definition.options.ledger is LedgerLevel.LEAN


def sent_unclaimed(revision: Revision, fire: int, now: int) -> bool:
    """Whether a fire is sent without a row."""
    return is_lean(revision) and now - fire <= LATE


def state_of_claim(revision: Revision) -> RunState:
    """As what its fires are claimed."""
    level = revision.definition.options.ledger
    return RunState.SENT if level is LedgerLevel.FAILURES else RunState.QUEUED


def level_of(run: RunRow) -> LedgerLevel:
    """What is written of a run that has a row, as its message says it."""
    return LedgerLevel.FAILURES if run.state is RunState.SENT else LedgerLevel.FULL


def is_late(message: Message, now: int) -> bool:
    """Whether a run without a row is claimed now, before its lease."""
    return message.unclaimed and now - message.due > LATE


def starts_untracked(message: Message, revision: Revision | None, job: Job | None, receives: int, now: int) -> bool:
    """Whether a run starts without a lease, because it can be that only its failure matters.

    Not if its message came before (its worker may have died, and attempts count), its schedule is failing (its owner waits for a
    success), was changed, or is a shadow; nor if its job is unknown, or delivered otherwise than at least once.
    """
    if job is None or revision is None or receives > 1 or revision.failing or revision.active_until is not None:
        return False
    policies = job.policies.overridden(message.overrides)
    due_still = not is_past_deadline(message.due, policies, now)
    return policies.delivery is Delivery.AT_LEAST_ONCE and not revision.definition.options.shadow and due_still


def claim_of(message: Message, now: int) -> RunRow:
    """The row that a ticker would have put. It was on its way in time, whenever that is written."""
    return RunRow(
        ref=message.run,
        state=RunState.QUEUED,
        revision=message.revision,
        job=message.job,
        due=message.due,
        not_before=message.not_before,
        created_at=min(now, message.due),
    )


def first_lease(message: Message, *, now: int, token: str, worker: str, max_attempts: int) -> RunRow:
    """The row of a run that is leased without having been claimed: what ``transitions.lease`` makes of ``claim_of``."""
    return replace(
        claim_of(message, now),
        state=RunState.RUNNING,
        fence=1,
        attempt=1,
        max_attempts=max_attempts,
        lease_until=now + LEASE,
        lease_token=token,
        started_at=now,
        leased_at=now,
        worker=worker,
    )


def unclaimed(closed: Revision, earlier: Iterator[Revision], now: int) -> list[tuple[Revision, int, int]]:
    """Revisions with the intervals ``(after, upto]`` of their fires whose first lease may be under way, although they are closed.

    ``earlier``: the schedule's revisions before ``closed``, newest first.
    """
    found = []
    for revision in (closed, *earlier):
        end = now if revision.active_until is None else revision.active_until
        after, upto = max(revision.active_from, now - STALL), min(now, end) + AHEAD
        if after >= upto and revision is not closed:
            break
        if is_lean(revision) and after < upto:
            found.append((revision, after, upto))
    return found
