"""What follows an attempt that did not succeed: another attempt, another slice, or the end of the run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from quarterjack.domain.policies import Backoff, Policies, Retry
from quarterjack.domain.run import Failure
from quarterjack.domain.times import SECOND
from quarterjack.state.start import is_past_deadline

MAX_SLICES = 10_000  # of one run: a hundred days on Lambda


@dataclass(frozen=True)
class RetryAt:
    at: int  # UTC ms of the next attempt


@dataclass(frozen=True)
class GiveUp:
    reason: str  # for the run's row


def after_failure(
    failure: Failure, *, attempt: int, due: int, policies: Policies, now: int, chance: float
) -> RetryAt | GiveUp:
    """What follows the failure of number ``attempt`` of a run due at ``due``; ``chance`` in [0, 1) randomises the jitter."""
    if failure.permanent:
        return GiveUp("failed for good")
    if attempt >= policies.max_attempts:
        return GiveUp(f"failed {attempt} times" if attempt > 1 else "failed")
    at = now + int(_backoff(failure, attempt, policies.retry, chance) * SECOND)
    if policies.retry.within is not None and at > due + policies.retry.within * SECOND:
        return GiveUp("failed, and the next attempt would be outside the retry window")
    if is_past_deadline(due, policies, at):
        return GiveUp("failed, and the next attempt would be past the deadline")
    return RetryAt(at)


def _backoff(failure: Failure, attempt: int, retry: Retry, chance: float) -> float:
    """Seconds until the next attempt; jitter spreads the retries of runs that failed at the same time."""
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


def stuck(*, checkpointed: bool, slices: int) -> str | None:
    """Why a run may not continue in another slice; None: it may.

    A slice counts as no attempt, so a slice without progress would be repeated without end. ``checkpointed``: the slice recorded a
    checkpoint; ``slices``: how many slices of the run ended before it.
    """
    if not checkpointed:
        return (
            "the job raised Continue in a slice that recorded no checkpoint, so the next one would begin where it began; "
            "call ctx.checkpoint(state) before it, or raise RetryAfter(seconds) to try again later"
        )
    if slices >= MAX_SLICES:
        return f"the run has had {MAX_SLICES:,} slices; give the job an end, a deadline, or a schedule of its own"
    return None


def is_permanent(kinds: Collection[str], status: int | None, retry: Retry, *, invalid: bool = False) -> bool:
    """Whether a failure gets no other attempt.

    ``kinds`` are the names of the exception's class and its parents, ``status`` is the HTTP status that it carries, ``invalid`` says
    that Quarterjack refused a payload. What the policies name goes before what is permanent by default.
    """
    if any(name in kinds for name in retry.always_on):
        return False
    if invalid or any(name in kinds for name in retry.never_on):
        return True
    if retry.retry_on:
        return not any(name in kinds for name in retry.retry_on)
    return retry.by_status and status is not None and is_permanent_status(status)


def is_permanent_status(status: int) -> bool:
    """Whether an HTTP status will be the same next time: a client error other than a timeout or too many requests."""
    return 400 <= status < 500 and status not in (408, 425, 429)
