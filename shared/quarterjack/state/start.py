"""When a run's message is in its queue: the options ``start`` and ``deadline``, and the rows whose messages a lost queue had."""

from __future__ import annotations

from quarterjack.domain.message import Message
from quarterjack.domain.policies import Policies, Start
from quarterjack.domain.run import WAITING, RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.state.lease import SKEW
from quarterjack.state.waits.park import SLEEP, deadline_over

MAX_DELAY = 900 * SECOND  # the longest delay of an SQS message
# The longest (ms) that a worker waits for a run's instant; it sends earlier messages back for the rest.
HOLD = {Start.PROMPT: 1 * SECOND, Start.EXACT: 2 * SECOND}
EARLY = 1 * SECOND  # an exact run's message should arrive at least so long before its instant
HEAD_START = EARLY
TOO_LATE = 1 * SECOND
# How long a stop waits for jobs that were leased early: half a second more, between the worker's last check and the job's start.
HELD = HEAD_START + TOO_LATE + SECOND // 2
UNCERTAIN = HELD + 2 * SKEW  # the greatest distance of such a run from its instant, by any clock


def delay_for(not_before: int, start: Start, now: int) -> int:
    """Whole seconds (0 to 900) to delay a message: rounded up for prompt, one to two seconds short for exact."""
    left = min(max(not_before - now, 0), MAX_DELAY)
    if start is Start.EXACT:
        return max(left - EARLY, 0) // SECOND
    return -(-left // SECOND)


def goes_ahead(message: Message, now: int) -> bool:
    """Whether the run of a message may be leased before its instant; a manual trigger has no instant."""
    if message.start is not Start.EXACT or message.not_before <= now:
        return False
    return not message.fence and (message.run.is_fire or message.run.is_one_off)


def may_not_have_begun(run: RunRow, now: int) -> bool:
    """Whether the job of a leased run may not have begun: the lease is dated at the run's instant, and that is near."""
    return run.state is RunState.RUNNING and run.leased_at == run.not_before and abs(now - run.not_before) <= UNCERTAIN


def is_past_deadline(due: int, policies: Policies, at: int) -> bool:
    """Whether no attempt may start at ``at`` (UTC ms) any more."""
    return policies.deadline is not None and at >= deadline_over(due, policies.deadline)


def belongs_in_queue(run: RunRow, now: int, ahead: int) -> bool:
    """Whether the message of a run should be in its queue at ``now`` (UTC ms), delayed or not.

        state                                     its message is there
        QUEUED, of a chain or a backfill          from its claim on, at most MAX_DELAY before its time
        QUEUED, a one-off or a trigger            from ``ahead`` (ms) before its time on; until then it is in the agenda
        RETRYING, CONTINUED, PARKED in a sleep    at most MAX_DELAY before its next attempt; until then it is in the agenda
        PARKED in another wait                    from ``ahead`` before the wait's end on; until then its timer is in the agenda
        RUNNING                                   until its end: if its worker vanishes, the message starts it again

    A retry that the agenda holds and that is due within MAX_DELAY counts as well: its row does not say where its message is. The lease
    makes a second message harmless.
    """
    if run.state in WAITING:
        has_entry = run.state is RunState.QUEUED and not run.ref.is_fire and run.backfill is None
        has_entry = has_entry or (run.state is RunState.PARKED and run.awaits != SLEEP)
        return run.not_before <= now + (ahead if has_entry else MAX_DELAY)
    return run.state is RunState.RUNNING
