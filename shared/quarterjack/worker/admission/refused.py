"""Refused: a lease was refused, or is not due; the row says what becomes of the message, and what is reported."""

from __future__ import annotations

import logging

from quarterjack.domain.message import REJECTED, DeadLetter, Message, Wait
from quarterjack.domain.names import parse_run_id
from quarterjack.domain.run import FailedAttemptRow, Failure, RunRow, RunState
from quarterjack.domain.times import SECOND
from quarterjack.errors import QuarterjackError, Unavailable
from quarterjack.fires.parking import wake_if_over
from quarterjack.owner.runs.change import end_children
from quarterjack.ports.services import Services
from quarterjack.state.before_start import UNSERVED, give_up, wait_for_version
from quarterjack.state.ending import cancel, cancel_waiting, exhaust, expire, lose, request_cancel
from quarterjack.state.lease import has_live_lease, takeable_at
from quarterjack.state.refusal import OnRefusedLease, is_same_claim, on_refused_lease, vanished
from quarterjack.state.start import HEAD_START, HOLD, MAX_DELAY, is_past_deadline
from quarterjack.state.tenants.breaker import breaker_of
from quarterjack.state.waits.park import batch_size, pipeline_of
from quarterjack.stores.siblings import Siblings
from quarterjack.values import replace
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import ENDED, Action, Outcome, ReadyRun, ReceivedMessage

log = logging.getLogger(__name__)

RETRY_AFTER = 5 * SECOND  # before a message comes back whose run others keep moving
_OTHERWISE = 10 * SECOND  # before a message comes back whose new order was not accepted
_DEADLINE = "deadline passed"
_VANISHED = "worker vanished in the last attempt"
_REPORTED = (RunState.LOST, RunState.EXPIRED)  # whose letter is sent after their end
OTHER = "other_version"  # why a message goes back whose run is assigned to another application version
NO_WORKER = "version_unserved"  # the same, where no worker of that version is alive
_SOON, _LATE = 1 * SECOND, 60 * SECOND  # before it is offered again: workers of its version are there, are not
_SPENT = "no attempt is left"  # its job allows fewer attempts than it did


def not_due(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Wait until the run may be leased if that is near; a message that comes much too early is postponed."""
    message = ready.message
    left = message.not_before - ready.as_of
    if left > MAX_DELAY:
        return _much_too_early(worker, ready)
    if left > HOLD[message.start]:
        return postponed(worker, ready, message.not_before, "not_due")
    if left > 0:
        worker.wait_until(message.not_before - HEAD_START if ready.ahead else message.not_before)
        ready.as_of = worker.clock()
    return None


def _much_too_early(worker: WorkerContext, ready: ReadyRun) -> Outcome:
    """No queue delays a message so long, so the row says when. A run that waits for nothing is ordered for now."""
    run, now = worker.services.ledger.read(ready.message.run), worker.clock()
    return refused(worker, ready, run, now) or postponed(worker, ready, now, "not_due")


def expired(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """A run whose deadline has passed becomes EXPIRED, unless it is in other hands: then its lease decides."""
    message, now = ready.message, ready.as_of
    if not is_past_deadline(ready.spec.due, ready.policies, now):
        return None
    transition = expire(
        revision=message.revision,
        backfill=message.backfill,
        seen_fence=message.fence,
        now=now,
        expires=worker.expires(now),
        reason=_past_deadline(worker, ready, now),
    )
    moved = worker.services.ledger.move(message.run, transition)
    if not moved.applied or moved.run is None:
        ready.as_of = worker.clock()
        return None
    report(moved.run, worker.services)
    return Outcome.refused("deadline", RunState.EXPIRED)


def of_other_version(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Give back the run of a pinned job that is assigned to another version than this worker's."""
    row = ready.received.definition.row
    if row is None or row.app_version is None or not worker.own_version.binds(ready.job):
        return None
    own, now = worker.own_version.name(), worker.clock()
    if row.app_version == own:
        return None
    wanted = worker.services.tenants.app_versions.current(now).resolved(row.app_version)
    if wanted == own:
        return None
    try:
        is_served = worker.versions_seen.is_served(wanted, worker.services, now)
    except QuarterjackError as problem:
        log.warning("workers.unread", extra={"error": str(problem)})
        is_served = True
    if not is_served:
        _tell(worker, row, wanted)
    return (
        postponed(worker, ready, now + _SOON, OTHER) if is_served else postponed(worker, ready, now + _LATE, NO_WORKER)
    )


def _tell(worker: WorkerContext, row: RunRow, version: str) -> None:
    """Say in the row of a run, once, that its version has no worker. Raises Unavailable."""
    log.warning("version.unserved", extra={"run_id": str(row.ref), "version": version})
    if row.reason != f"{UNSERVED}{version}":
        worker.services.ledger.move(row.ref, wait_for_version(version=str(row.app_version), served_by=version))


def version_bound(worker: WorkerContext, ready: ReadyRun) -> str | None:
    """The version that the lease of a run demands: a run may be assigned to another one since it was read. None: any."""
    row = ready.received.definition.row
    return row.app_version if row is not None and worker.own_version.binds(ready.job) else None


def orphaned(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """No slice of a child starts any more once the cancellation of its parent was asked for.

    So a child ends that the cancellation could not name: of an attempt that failed or died before its run parked. Items of a batch that
    have begun go on, as do tasks of a pipeline that has ended.
    """
    row = ready.received.definition.row
    if row is None or row.parent is None or has_live_lease(row, worker.clock()):
        return None
    if not _is_withdrawn(row, worker.services):
        return None
    if row.state is RunState.RUNNING:  # its worker has crashed: the lease is refused, and that ends it
        worker.services.ledger.move(row.ref, request_cancel())
        return None
    now = row.end_time(worker.clock())
    moved = worker.services.ledger.move(row.ref, cancel(now=now, expires=worker.expires(now)))
    return Outcome.ended("parent cancelled", RunState.CANCELLED) if moved.applied else None


def _is_withdrawn(run: RunRow, services: Services) -> bool:
    """Whether a parent, or a pipeline that this one is a task of, is over for what comes below it. Raises Unavailable."""
    above = run.parent
    while above is not None:
        parent = services.ledger.read(parse_run_id(above))
        if parent is None:  # its row may expire before a child that has begun ends
            return not run.fence
        if parent.cancel_requested or parent.state is RunState.CANCELLED:
            return not run.fence or batch_size(parent) is None
        if _has_ended(parent):
            return not run.fence
        above = parent.parent if pipeline_of(parent) is not None else None
    return False


def _has_ended(parent: RunRow) -> bool:
    """Whether a parent is over for its children that have not begun: that of a task."""
    return parent.is_terminal and pipeline_of(parent) is not None


def _past_deadline(worker: WorkerContext, ready: ReadyRun, now: int) -> str:
    """The reason of its end; it names the circuit breakers that kept the run waiting."""
    message, spec = ready.message, ready.spec
    if Wait.BREAKER not in message.waited:
        return _DEADLINE
    breakers = worker.breakers.known(message.run.tenant, worker.services, now)
    names = dict.fromkeys(breaker_of(period.job) for period in breakers.between(spec.job, spec.due, now))
    return f"{_DEADLINE}: held by {' and '.join(names) or 'a circuit breaker'}"


def refused(  # noqa: PLR0911 (a table of cases)
    worker: WorkerContext, ready: ReadyRun, run: RunRow | None, now: int
) -> Outcome | None:
    """What a refused lease means; None: try again. ``run``: as its row is, None if there is none."""
    message = ready.message
    if run is None:
        return rejected(worker, ready.received, "unknown_run")
    answer = on_refused_lease(
        run,
        revision=message.revision,
        backfill=message.backfill,
        fence=message.fence,
        now=now,
        policies=ready.policies,
    )
    match answer.action:
        case OnRefusedLease.DROP:
            if (
                run.state in _REPORTED
            ):  # who ended it may have died before its letter; by this clock it may not have ended
                report(run, worker.services)
            return Outcome.refused(answer.why)
        case OnRefusedLease.WAIT:
            return Outcome.kept(answer.why, at=answer.until + SECOND, action=Action.WAITING)
        case OnRefusedLease.POSTPONE:
            # The worker that parked it may have died before its check.
            if wake_if_over(run, worker.services, worker.clock) is not None:
                return None
            return postponed(worker, ready, answer.until, answer.why)
        case OnRefusedLease.RETRY:
            return None
        case _:
            return _end(worker, ready, run, answer.action, answer.why)


def rejected(worker: WorkerContext, received: ReceivedMessage, why: str) -> Outcome:
    """No run or revision stands behind the message: no process of ours sent it, or somebody has removed rows. A person is to see it."""
    extra = {"run_id": str(received.in_flight.ref), "reason": why, "message_id": received.delivery.id}
    log.error("message.rejected", extra=extra)
    worker.services.dead.send(DeadLetter(body=received.delivery.body, reason=why, state=REJECTED))
    return Outcome(action=Action.REJECTED, why=why)


def given_up(worker: WorkerContext, received: ReceivedMessage, reason: str, failure: Failure) -> Outcome:
    """The run can never start: it is DEAD, with this failure; unless the message is not the run's, or another worker has it."""
    message, now = received.message, worker.clock()
    run = worker.services.ledger.read(message.run)
    if run is None:
        return rejected(worker, received, "unknown_run")
    if run.is_terminal:
        return Outcome.refused(ENDED)
    if not is_same_claim(run, message.revision, message.backfill, message.fence):
        return Outcome.refused("other_claim")
    if has_live_lease(run, now):
        return Outcome.kept(reason, at=takeable_at(run.lease_until or 0))
    worker.send_dead_letter(received.delivery.body, run.fence, reason, failure)
    now = run.end_time(now)
    transition = give_up(
        revision=message.revision,
        backfill=message.backfill,
        now=now,
        expires=worker.expires(now),
        reason=reason,
        failure=failure,
    )
    moved = worker.services.ledger.move(message.run, transition)
    return Outcome.ended(reason, moved.run.state if moved.applied and moved.run else None)


def postponed(worker: WorkerContext, ready: ReadyRun, until: int, why: str) -> Outcome:
    """The run is ordered anew for a time (UTC ms)."""
    order = replace(ready.message, not_before=until)
    return Outcome.postponed(why, order=order, at=until, otherwise=worker.clock() + _OTHERWISE)


def _end(worker: WorkerContext, ready: ReadyRun, run: RunRow, action: OnRefusedLease, why: str) -> Outcome | None:
    """The run can have no further attempt: record its end. None if it moved meanwhile."""
    now, services = run.end_time(worker.clock()), worker.services
    expires, last = worker.expires(now), vanished(run, now)
    match action:
        case OnRefusedLease.LOSE:
            transition = lose(now=now, expires=expires, token=run.lease_token or "")
        case OnRefusedLease.CANCEL:
            end_children(run, worker.role)  # the owner's call may have ended before that
            transition = cancel_waiting(now=now, expires=expires, reason="requested")
        case _:
            failure, reason = (run.failure, _SPENT) if last is None else (last.failure, _VANISHED)
            if last is not None and (failed := _failed(run, services)) is not None:
                last, failure, reason = failed, failed.failure, f"failed {run.attempt} times"
            worker.send_dead_letter(ready.received.delivery.body, run.fence, reason, failure)
            transition = exhaust(
                now=now,
                expires=expires,
                max_attempts=ready.policies.max_attempts,
                fence=run.fence,
                reason=reason,
                failure=failure,
            )
    moved = services.ledger.move(run.ref, transition)
    if not moved.applied or moved.run is None:
        return None
    if last is not None:
        record(replace(last, next_attempt_at=None), services.siblings)
    if moved.run.state is RunState.LOST:
        report(moved.run, services)
    log.warning("run.ended", extra={"run_id": str(run.ref), "job": run.job, "state": str(transition.to), "reason": why})
    return Outcome.ended(why, transition.to, attempt=run.attempt)


def _failed(run: RunRow, services: Services) -> FailedAttemptRow | None:
    """The failure of a RUNNING run's attempt whose dead letter could not be sent; None: its worker vanished before it ended."""
    return next((each for each in services.siblings.attempts(run.ref) if each.fence == run.fence), None)


def record(attempt: FailedAttemptRow, siblings: Siblings) -> None:
    """Put the row of a failed attempt, if the ledger answers."""
    try:
        siblings.record(attempt)
    except Unavailable as problem:
        log.warning("attempt.not_recorded", extra={"run_id": str(attempt.run), "error": str(problem)})


def report(run: RunRow, services: Services) -> None:
    """Send the letter of a run that has ended so; none for one that is recorded already. Raises Unavailable."""
    if run.buried_at is not None:
        return
    order = Message(run=run.ref, revision=run.revision, not_before=run.not_before, backfill=run.backfill)
    why = run.reason or str(run.state)
    services.dead.send(DeadLetter(body=order.encode(), reason=why, fence=run.fence, state=str(run.state)))
