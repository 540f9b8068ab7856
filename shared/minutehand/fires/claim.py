"""Claim fires: put their runs under deterministic keys, and send the messages.

A claim has one of three results (``state.existing_run``): the run was created; it exists and its message is sent again, because its
claimer may have died before the send; it exists and is left alone. A take-over that loses its race is decided again from the new row.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from minutehand.domain.names import RunRef, fire_ref
from minutehand.domain.quick import quick
from minutehand.domain.run import RunRow, RunState
from minutehand.domain.schedule import Revision
from minutehand.fires.context import FireContext
from minutehand.fires.send import fire_message, send
from minutehand.ports.services import Services
from minutehand.state.existing_run import OnExisting, on_existing
from minutehand.state.transitions.before_start import take_over

log = logging.getLogger(__name__)

_ROUNDS = 3  # decisions on one claim before it is left to the next tick: each lost round means that its row changed


@quick
@dataclass(frozen=True)
class FireClaim:
    """One fire to claim for a revision."""

    revision: Revision
    fire: int  # UTC ms

    @cached_property
    def ref(self) -> RunRef:
        return fire_ref(self.revision.owner, self.fire)

    def run(self, now: int) -> RunRow:
        """The row that claims it."""
        return RunRow(
            ref=self.ref,
            state=RunState.QUEUED,
            revision=self.revision.number,
            job=self.revision.definition.job,
            due=self.fire,
            not_before=self.fire,
            created_at=now,
        )


@dataclass(kw_only=True)
class MaterialiseResult:
    """The result of a batch of claims."""

    done: set[RunRef] = field(default_factory=set)  # decided, and sent where a message was due
    claimed: int = 0  # runs created
    resent: int = 0  # messages sent for runs that existed
    taken_over: int = 0  # runs taken over from an older revision
    sent: int = 0  # messages accepted, in all
    lag: int = 0  # ms from a fire's time to the acceptance of its message: the largest, 0 if all were ahead
    fresh: set[RunRef] = field(default_factory=set)  # claimed or taken over now
    missed: set[RunRef] = field(default_factory=set)  # of these, more than a minute after their time


def materialise(claims: Sequence[FireClaim], context: FireContext) -> MaterialiseResult:
    """Put the run of every claim and send its message. A claim that is not in ``done`` was throttled or lost a race: repeat it."""
    services, clock = context.services, context.clock
    context.write_budget.take(len(claims), (claim.fire for claim in claims), clock())
    result, now = MaterialiseResult(), clock()
    by_ref = {claim.ref: claim for claim in claims}
    runs = {ref: claim.run(now) for ref, claim in by_ref.items()}
    to_send: list[RunRef] = []
    pending = list(by_ref)
    for _ in range(_ROUNDS if pending else 0):
        claimed = services.ledger.claim([runs[ref] for ref in pending])
        to_send += [ref for ref in pending if ref in claimed.created]  # in order of time
        result.claimed += len(claimed.created)
        result.fresh |= claimed.created
        _leave_unreadable(claimed.unreadable, result)
        takers = _sort_existing(claimed.existing, by_ref, runs, result, to_send)
        pending = _take_over(takers, by_ref, services, now, result, to_send) if takers else []
        if not pending:
            break
    result.missed = {ref for ref in result.fresh if runs[ref].missed}
    messages = [fire_message(runs[ref], by_ref[ref].revision, context.trace) for ref in to_send]
    answers = send(messages, services.work, clock)
    finished = clock()
    for ref, accepted in zip(to_send, answers, strict=True):
        if accepted:
            result.done.add(ref)
            result.sent += 1
            result.lag = max(result.lag, finished - by_ref[ref].fire)
    return result


def _leave_unreadable(unreadable: frozenset[RunRef], result: MaterialiseResult) -> None:
    """An unreadable row is of a later release, or broken: this ticker does not send its message."""
    result.done |= unreadable
    for ref in unreadable:
        log.error("run.unreadable", extra={"run_id": str(ref)})


def _sort_existing(
    existing: Mapping[RunRef, RunRow],
    by_ref: dict[RunRef, FireClaim],
    runs: dict[RunRef, RunRow],
    result: MaterialiseResult,
    to_send: list[RunRef],
) -> dict[RunRef, RunState]:
    """Decide on every claim whose run exists; returns the runs to take over, and the states that were read."""
    takers = {}
    for ref, run in existing.items():
        match on_existing(run, by_ref[ref].revision.number):
            case OnExisting.SEND:
                runs[ref] = run
                to_send.append(ref)
                result.resent += 1
            case OnExisting.TAKE_OVER:
                takers[ref] = run.state
            case OnExisting.LEAVE:
                result.done.add(ref)
    return takers


def _take_over(
    refs: Mapping[RunRef, RunState],
    by_ref: dict[RunRef, FireClaim],
    services: Services,
    now: int,
    result: MaterialiseResult,
    to_send: list[RunRef],
) -> list[RunRef]:
    """Take runs over from older revisions; returns the runs whose rows changed meanwhile."""
    moves = []
    for ref, seen in refs.items():
        claim = by_ref[ref]
        number, job = claim.revision.number, claim.revision.definition.job
        move = take_over(revision=number, job=job, not_before=claim.fire, now=now, seen=seen)
        moves.append((ref, move))
    answers = services.ledger.move_all(moves)
    taken = [ref for ref in refs if answers.get(ref) is True]
    to_send += taken
    result.taken_over += len(taken)
    result.fresh |= set(taken)
    return [ref for ref in refs if answers.get(ref) is False]
