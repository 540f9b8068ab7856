"""Decisions about runs: what is known goes in, what to do comes out; the shell carries it out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from minutehand.domain.formats.message import Message
from minutehand.domain.policies import Backoff, Delivery, Policies, Retry, Start
from minutehand.domain.run import FailedAttemptRow, Failure, RunRow, RunState
from minutehand.domain.schedule import ClosedBy, Revision
from minutehand.domain.times import SECOND
from minutehand.state.transitions import SKEW, last_sign_of_life

MAX_DELAY = 900 * SECOND  # the longest that SQS holds a message back
# The longest (ms) that a worker waits for a run's instant; earlier messages go back for the rest.
HOLD = {Start.PROMPT: 1 * SECOND, Start.EXACT: 2 * SECOND}
MAX_SLICES = 10_000  # of one run, which on Lambda are a hundred days
EARLY = 1 * SECOND  # how much before its instant an exact run's message should arrive, at least
# How much before its instant an exact run may be leased, at most. Its job begins at the instant, or up to TOO_LATE after it: or else not,
# because whoever stopped it waits no longer than HELD, which has half a second more for what lies between looking and beginning.
HEAD_START = EARLY
TOO_LATE = 1 * SECOND
HELD = HEAD_START + TOO_LATE + SECOND // 2
UNCERTAIN = HELD + 2 * SKEW  # how far from its instant, by anybody's clock, such a run may be


class OnExisting(StrEnum):
    """What to do with a claim whose run exists."""

    SEND = "send"  # a ticker may have died between claim and send; the lease absorbs the duplicate
    TAKE_OVER = "take over"  # an older revision claimed it and it never started
    LEAVE = "leave"  # started, ended, or of a newer revision


def on_existing(run: RunRow, revision: int) -> OnExisting:
    """A fire of ``revision`` is claimed and its run exists already."""
    if run.revision == revision:
        return OnExisting.SEND if run.state is RunState.QUEUED else OnExisting.LEAVE
    revivable = run.state is RunState.QUEUED or run.unstarted
    return OnExisting.TAKE_OVER if run.revision < revision and revivable else OnExisting.LEAVE


def delay_for(not_before: int, start: Start, now: int) -> int:
    """Whole seconds (0 to 900) to hold a message back: rounded up for prompt, one to two seconds short for exact."""
    left = min(max(not_before - now, 0), MAX_DELAY)
    if start is Start.EXACT:
        return max(left - EARLY, 0) // SECOND
    return -(-left // SECOND)


def goes_ahead(message: Message, now: int) -> bool:
    """Whether a message is of a run that may be leased before its instant. One that was triggered by hand has none to wait for."""
    if message.start is not Start.EXACT or message.not_before <= now:
        return False
    return not message.fence and (message.run.is_fire or message.run.is_one_off)


def may_not_have_begun(run: RunRow, now: int) -> bool:
    """Whether the job of a run that is leased may begin only now: its lease is dated at its instant, and that is not long past."""
    return run.state is RunState.RUNNING and run.leased_at == run.not_before and abs(now - run.not_before) <= UNCERTAIN


@dataclass(frozen=True)
class Refusal:
    """A run that must not start any more, and why."""

    to: RunState
    reason: str
    beyond: bool = False  # the change came before its instant


def refused_by(revision: Revision, due: int) -> Refusal | None:
    """Whether a change of its schedule took an unstarted run back."""
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


class OnRefusedLease(StrEnum):
    """What to do with a message whose lease was refused."""

    DROP = "drop"  # ended, or a newer revision's
    WAIT = "wait"  # somebody holds it: hide the message until that lease would end
    POSTPONE = "postpone"  # not yet due: send it back with the rest of the delay
    LOSE = "lose"  # at-most-once and abandoned: lost, and never run again
    EXHAUST = "exhaust"  # abandoned with no attempt left: dead
    CANCEL = "cancel"  # its owner asked for it before this attempt
    RETRY = "retry"  # it changed between the refusal and now: try again


@dataclass(frozen=True)
class LeaseAnswer:
    """The decision on a refused lease; ``until`` is UTC ms, for WAIT and POSTPONE."""

    action: OnRefusedLease
    why: str
    until: int = 0


def on_refused_lease(  # noqa: PLR0911 (a table of cases)
    run: RunRow | None, *, revision: int, now: int, policies: Policies
) -> LeaseAnswer:
    """Why a lease was refused, read from the row that refused it."""
    if run is None:
        return LeaseAnswer(OnRefusedLease.DROP, "unknown_run")
    if run.is_terminal:
        return LeaseAnswer(OnRefusedLease.DROP, "ended")
    if run.revision != revision:
        return LeaseAnswer(OnRefusedLease.DROP, "other_revision")
    if run.state is RunState.RUNNING:
        return _on_running(run, now, policies)
    if run.cancel_requested:
        return LeaseAnswer(OnRefusedLease.CANCEL, "cancelled")
    if run.attempt >= policies.max_attempts:
        return LeaseAnswer(OnRefusedLease.EXHAUST, "attempts_spent")
    if run.not_before > now:
        return LeaseAnswer(OnRefusedLease.POSTPONE, "not_due", run.not_before)
    return LeaseAnswer(OnRefusedLease.RETRY, "changed")


def _on_running(run: RunRow, now: int, policies: Policies) -> LeaseAnswer:
    lease_until = run.lease_until or 0
    if lease_until >= now - SKEW:
        return LeaseAnswer(OnRefusedLease.WAIT, "live_lease", lease_until + SKEW)
    if policies.delivery is Delivery.AT_MOST_ONCE:
        return LeaseAnswer(OnRefusedLease.LOSE, "at_most_once")
    if run.cancel_requested:
        return LeaseAnswer(OnRefusedLease.CANCEL, "cancelled")
    if run.attempt >= policies.max_attempts:
        return LeaseAnswer(OnRefusedLease.EXHAUST, "attempts_spent")
    return LeaseAnswer(OnRefusedLease.RETRY, "changed")


@dataclass(frozen=True)
class RetryAt:
    """Another attempt follows at ``at`` (UTC ms)."""

    at: int


@dataclass(frozen=True)
class GiveUp:
    """The run is dead, and why."""

    reason: str


def after_failure(
    failure: Failure, *, attempt: int, due: int, policies: Policies, now: int, chance: float
) -> RetryAt | GiveUp:
    """What follows the failure of number ``attempt`` of a run due at ``due``; ``chance`` in [0, 1) is the jitter's dice."""
    if failure.permanent:
        return GiveUp("failed for good")
    if attempt >= policies.max_attempts:
        return GiveUp(f"failed {attempt} times" if attempt > 1 else "failed")
    at = now + int(_wait(failure, attempt, policies.retry, chance) * SECOND)
    if policies.retry.within is not None and at > due + policies.retry.within * SECOND:
        return GiveUp("failed, and the next attempt would be outside the retry window")
    if policies.deadline is not None and at > due + policies.deadline * SECOND:
        return GiveUp("failed, and the next attempt would be past the deadline")
    return RetryAt(at)


def _wait(failure: Failure, attempt: int, retry: Retry, chance: float) -> float:
    """Seconds until the next attempt; jitter keeps what failed together from returning together."""
    if failure.retry_after is not None:
        return failure.retry_after
    match retry.backoff:
        case Backoff.EXPONENTIAL:
            seconds = retry.base * 2.0 ** min(attempt - 1, 64)
        case Backoff.LINEAR:
            seconds = retry.base * attempt
        case Backoff.FIXED:
            seconds = retry.base
    return min(seconds, retry.cap) * (1 - retry.jitter * chance)


def vanished(run: RunRow, now: int) -> FailedAttemptRow | None:
    """The attempt that a run's row still tells of, if its worker vanished in it; None if nobody had the run, or was done with it.

    It ended with the last sign of life, and is followed by another one from ``now`` on (UTC ms), or by none.
    """
    if run.state is not RunState.RUNNING or run.lease_until is None:
        return None
    alive = last_sign_of_life(run.lease_until)
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
    """How many workers may have died of a run: its attempts, if the last of them neither ended nor is alive (``now``: UTC ms)."""
    if run is None or run.state is not RunState.RUNNING or (run.lease_until or 0) >= now - SKEW:
        return 0
    return max(run.attempt, 1)


def stuck(*, checkpointed: bool, slices: int) -> str | None:
    """Why a slice that asks to go on in another must not; None: it may.

    A slice spends no attempt, so one that moved nothing would be followed by its like for ever. ``checkpointed``: it recorded a
    checkpoint; ``slices``: how many of the run have ended before it.
    """
    if not checkpointed:
        return (
            "the job raised Continue in a slice that recorded no checkpoint, so the next one would begin where it began; "
            "call ctx.checkpoint(state) before it, or raise RetryAfter(seconds) to try again later"
        )
    if slices >= MAX_SLICES:
        return f"the run has had {MAX_SLICES:,} slices; give the job an end, a deadline, or a schedule of its own"
    return None


def is_permanent(kinds: Collection[str], status: int | None, retry: Retry) -> bool:
    """Whether a failure is not worth another attempt; ``kinds`` are the names of the exception's class and its parents."""
    if any(name in kinds for name in retry.never_on):
        return True
    if retry.retry_on:
        return not any(name in kinds for name in retry.retry_on)
    return retry.by_status and status is not None and is_permanent_status(status)


def is_permanent_status(status: int) -> bool:
    """Whether an HTTP status will be the same next time: an error of the client's, but for timeouts and too many requests."""
    return 400 <= status < 500 and status not in (408, 425, 429)


def is_past_deadline(due: int, policies: Policies, now: int) -> bool:
    """Whether no attempt may start any more."""
    return policies.deadline is not None and now > due + policies.deadline * SECOND
