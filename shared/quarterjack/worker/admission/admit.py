"""Admit: ask every reason not to start a run now, in this order. What nothing keeps back goes on to its lease.

A reason is a function of a run that gives the outcome of its message, or None: it does not hold. It may write the run's row; what
happens with the message is for ``acknowledge``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from quarterjack.domain.message import UNREADABLE, DeadLetter, Message
from quarterjack.domain.names import RunRef
from quarterjack.domain.run import Failure, RunState
from quarterjack.domain.schedule import ClosedBy, Revision, ScheduleState, freeze_key
from quarterjack.domain.tenants.profile import Governance
from quarterjack.domain.times import MINUTE, SECOND
from quarterjack.errors import NotFound, TooNew, Unavailable
from quarterjack.owner.backfill.control import refuse_stopped
from quarterjack.state.backfill import unhurried
from quarterjack.state.before_start import refuse, shadow, take_back
from quarterjack.state.refusal import Refusal, deaths, is_same_claim, refused_by
from quarterjack.state.run_spec import RunSpec
from quarterjack.state.transition import EndWords
from quarterjack.values import replace
from quarterjack.worker.admission.overlap import acquire_turn
from quarterjack.worker.admission.refused import (
    RETRY_AFTER,
    expired,
    given_up,
    not_due,
    of_other_version,
    orphaned,
    refused,
    rejected,
)
from quarterjack.worker.admission.tenant_state import (
    RETURN,
    UNREAD,
    held_by_breaker,
    not_granted,
    out_of_bounds,
    suspended,
)
from quarterjack.worker.context import WorkerContext
from quarterjack.worker.stages import ENDED, Action, AnyMessage, Outcome, ReadyRun, ReceivedMessage, UnreadableMessage

log = logging.getLogger(__name__)

FRESH = 5 * SECOND  # how long a worker believes what it read; a batch has started by then, mostly
PATIENCE = 15 * MINUTE  # how long a run waits for a worker that knows its job
UNKNOWN = "unknown_job"  # why a message goes back whose job this worker does not know
UNKNOWN_DELAY = 30 * SECOND  # before it is offered again
_LATER = 60 * SECOND  # before a message comes back that this release cannot read
_QUARANTINE_TAKEN = 10 * SECOND  # before a message comes back whose run found another suspect in the quarantine
_AHEAD = 10  # later revisions that are read at once

Reason = Callable[[WorkerContext, ReadyRun], Outcome | None]


def admit(worker: WorkerContext, received: AnyMessage) -> ReadyRun | Outcome:
    """The run of a message, ready for its lease; or why it does not start now. Raises Unavailable."""
    if isinstance(received, UnreadableMessage):
        return _unreadable(worker, received)
    found = received.definition
    if found.governance is None or found.governance.profile.is_erased:
        return out_of_bounds(worker, found.governance)
    if found.spec is None or (found.revision is None and received.message.run.is_fire):
        return _unfounded(worker, received)
    outcome = _of_another_claim(received) or _quarantined(worker, received) or withdrawn(worker, received)
    return outcome or _admit(worker, received, found.spec, found.governance)


def _admit(
    worker: WorkerContext, received: ReceivedMessage, spec: RunSpec, governance: Governance
) -> ReadyRun | Outcome:
    job = worker.jobs.get(spec.job)
    if job is None:
        return unknown_job(worker, received, spec)
    message, own = received.message, job.policies.overridden(spec.overrides)
    ready = ReadyRun(
        received=received,
        message=message,
        in_flight=received.in_flight,
        job=job,
        spec=spec,
        policies=own if message.backfill is None else unhurried(own),
        payload=spec.payload,
        governance=governance,
        as_of=worker.clock(),
    )
    for reason in (*REASONS, acquire_turn) if received.definition.is_exclusive else REASONS:
        outcome = reason(worker, ready)
        if outcome is not None:
            return outcome
    return ready


def _unreadable(worker: WorkerContext, received: UnreadableMessage) -> Outcome:
    """Not one of our messages: to the dead-letter queue with the reason. One of a later release waits for its worker."""
    if isinstance(received.problem, TooNew):
        log.warning("message.too_new", extra={"error": str(received.problem)})
        return Outcome.kept("too_new", at=worker.clock() + _LATER)
    reason = f"unreadable: {received.problem}"
    log.error("message.unreadable", extra={"error": reason, "message_id": received.delivery.id})
    worker.services.dead.send(DeadLetter(body=received.delivery.body, reason=reason[:500], state=UNREADABLE))
    return Outcome(action=Action.UNREADABLE, why="unreadable")


def _unfounded(worker: WorkerContext, received: ReceivedMessage) -> Outcome:
    """The run's row, or the revision that defines it, was not read or does not exist."""
    message, found, again = received.message, received.definition, worker.clock() + UNREAD
    ref, key, batch = message.run, found.defined_by, found.batch
    if found.row_unread or (ref.is_one_off and found.row is not None):  # or its policies are garbage
        log.warning("run.unread", extra={"run_id": str(ref)})
        return Outcome.kept("run_unread", at=again)
    if key is None:
        return rejected(worker, received, "unknown_run")
    if found.spec is not None:  # a backfill's run, which waits under another revision than defines it
        key = (ref.owner, message.revision)
    if key in batch.unanswered or batch.tell_broken(key, run_id=str(ref)):
        return Outcome.kept("revision_unread", at=again)
    log.error("revision.missing", extra={"run_id": str(ref), "revision": key[1]})
    run = worker.services.ledger.read(ref)
    if run is None or run.revision != message.revision:
        return rejected(worker, received, "unknown_revision")
    missing = Failure(kind="RevisionMissing", message=f"revision {key[1]} of {key[0]!r} is missing")
    return given_up(worker, received, "revision missing", missing)


def _of_another_claim(received: ReceivedMessage) -> Outcome | None:
    """The row was claimed anew or restored since, or the message says what is not so; the row's own message is another one."""
    row, message = received.definition.row, received.message
    if row is None or is_same_claim(row, message.revision, message.backfill, message.fence):
        return None
    return Outcome.refused(ENDED) if row.is_terminal else Outcome.refused("other_claim")


def _quarantined(worker: WorkerContext, received: ReceivedMessage) -> Outcome | None:
    """Enter the crash quarantine if the run's worker crashed; a message that came for the first time needs no look. Raises Unavailable."""
    if received.delivery.receives <= 1:
        return None
    crashes = deaths(worker.services.ledger.read(received.message.run), worker.clock())
    if worker.quarantine.enter(received.in_flight, crashes):
        return None
    return Outcome.kept("other_suspect_runs", at=worker.clock() + _QUARANTINE_TAKEN)


def withdrawn(worker: WorkerContext, received: ReceivedMessage) -> Outcome | None:
    """Refuse a run that its owner took back before it ever started. Raises Unavailable."""
    message = received.message
    if message.run.is_one_off:
        return None
    fire_of = received.definition.revision if message.run.is_fire else None
    refusal = _deleted(worker, message) if fire_of is None else _refused_by(worker, fire_of, message.run)
    if refusal is not None:
        return _refuse(worker, message, refusal)
    found = None if message.backfill is None else refuse_stopped(message, worker.services, worker.clock)
    return None if found is None else Outcome.refused(*found)


def _deleted(worker: WorkerContext, message: Message) -> Refusal | None:
    """A run that was triggered by hand is its owner's act: only a full stop takes it back, and that sweeps.

    What a sweep may have missed, because the trigger was on its way, came after a pause, but must not come after a deletion.
    """
    owner, schedules = message.run.owner, worker.services.schedules
    head = schedules.head(message.run.tenant, owner.partition("/")[2])
    if head is not None and head.state is not ScheduleState.DELETED:
        return None
    last = None if head is None else schedules.revisions([(owner, head.revision)]).found.get((owner, head.revision))
    if last is not None and last.closed_by is ClosedBy.DRAINED:
        return None
    return Refusal(RunState.CANCELLED, str(ClosedBy.DELETED))


def _refused_by(worker: WorkerContext, revision: Revision, fire: RunRef) -> Refusal | None:
    """Whether the end of its revision took the run back, or a stop after that was replaced: a late ticker may have claimed it only now."""
    if revision.active_until is None:
        return None
    due = fire.instant or 0
    refusal, number = refused_by(revision, due), revision.number
    while refusal is None:
        keys = [(revision.owner, number + ahead) for ahead in range(1, _AHEAD + 1)]
        answer = worker.services.schedules.revisions(keys)
        for key in keys:
            if key in answer.unanswered or key in answer.broken:
                raise Unavailable(f"revision {key[1]} of {key[0]!r} could not be read")
            later = answer.found.get(key)
            if later is None or later.active_until is None:
                return None
            refusal = refused_by(later, due)
            if refusal is not None:
                break
        number += _AHEAD
    return refusal


def _refuse(worker: WorkerContext, message: Message, refusal: Refusal) -> Outcome | None:
    """None: it was leased before, has ended, or was taken over. The lease decides."""
    now = worker.clock()
    ledger, number = worker.services.ledger, message.revision
    end: EndWords = {"now": now, "expires": worker.expires(now), "reason": refusal.reason}
    applied = ledger.move(message.run, refuse(to=refusal.to, revision=number, **end)).applied
    if not applied and refusal.beyond and refusal.to is RunState.CANCELLED:
        applied = ledger.move(message.run, take_back(revision=number, instant=message.run.instant or 0, **end)).applied
    return Outcome.refused(refusal.reason, refusal.to) if applied else None


def unknown_job(worker: WorkerContext, received: ReceivedMessage, spec: RunSpec) -> Outcome:
    """No job of that name here. Since when, the message says; but the run has not waited longer than its row says."""
    message, now = received.message, worker.clock()
    since, again = message.unknown_since or now, now + UNKNOWN_DELAY
    run = None if now - since < PATIENCE else worker.services.ledger.read(message.run)
    if run is not None and not is_same_claim(run, message.revision, message.backfill, message.fence):
        return Outcome.refused("other_claim")
    if run is not None:
        since = max(since, run.created_at, run.not_before)
    if now - since < PATIENCE:
        log.warning("job.unknown", extra={"job": spec.job, "run_id": str(message.run)})
        order = replace(message, unknown_since=since)
        return Outcome.postponed(UNKNOWN, order=order, at=again, otherwise=again)
    text = f"no worker knew job {spec.job!r} for {PATIENCE // MINUTE} minutes"
    return given_up(worker, received, "unknown job", Failure(kind="UnknownJob", message=text))


def without_payload(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """The run's own payload is not there, or is another tenant's."""
    problem = ready.spec.payload_problem(ready.message.run)
    return None if problem is None else _payload_missing(worker, ready, problem)


def _payload_missing(worker: WorkerContext, ready: ReadyRun, problem: str) -> Outcome:
    return given_up(worker, ready.received, "payload missing", Failure(kind="PayloadMissing", message=problem))


def payload_gone(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Read a payload that lies in the bucket; somebody may have removed it."""
    if ready.spec.payload_ref is None:
        return None
    try:
        ready.payload = worker.services.payloads.get(ready.message.run.tenant, ready.spec.payload_ref)
    except NotFound as problem:
        return _payload_missing(worker, ready, str(problem))
    return None


def frozen(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """Send the message back if its tenant is frozen."""
    batch, now = ready.received.definition.batch, ready.as_of
    is_fresh = now - batch.read_at <= FRESH
    if is_fresh and not (batch.frozen or batch.unanswered or batch.broken):
        return None
    message, tenant = ready.message, ready.message.run.tenant
    key = freeze_key(tenant)
    if not is_fresh:
        batch = worker.services.schedules.revisions([key])
        now = ready.as_of = worker.clock()
    if key in batch.unanswered or key in batch.broken:
        return Outcome.kept("freeze_unread", at=now + UNREAD)
    freeze = batch.frozen.get(tenant)
    if freeze is None or freeze.until <= now:
        return None
    until = min(freeze.until, now + RETURN) + SECOND  # a second later: an exact message comes that much early
    return Outcome.postponed("frozen", order=message, at=until, otherwise=now + UNREAD)


def shadowed(worker: WorkerContext, ready: ReadyRun) -> Outcome | None:
    """End the run of a schedule with ``shadow=True`` as SHADOWED."""
    revision = ready.received.definition.revision
    if revision is None or not revision.definition.options.shadow:
        return None
    message, now = ready.message, worker.clock()
    expires = worker.expires(max(now, ready.spec.due))
    transition = shadow(revision=message.revision, backfill=message.backfill, now=now, expires=expires)
    moved = worker.services.ledger.move(message.run, transition)
    if not moved.applied:
        outcome = refused(worker, ready, moved.run, now)
        return outcome or Outcome.kept("contended", at=worker.clock() + RETRY_AFTER)
    lag = now - ready.spec.due
    ids = {"run_id": str(message.run), "job": ready.job.name, "tenant": message.run.tenant}
    log.info("run.shadowed", extra=ids | {"lateness_ms": lag})
    return Outcome.ended("shadow", RunState.SHADOWED, start_lag=lag)


REASONS: tuple[Reason, ...] = (
    without_payload,
    not_due,
    expired,
    of_other_version,
    frozen,
    suspended,
    not_granted,
    orphaned,
    shadowed,
    payload_gone,
    held_by_breaker,  # the last: it takes a probe
)
