"""Acknowledge: carry out what an outcome says of its message. The heartbeat lets it go in any case.

The outcome of a run is durable before this. A message that is neither deleted nor shown comes back when its visibility ends.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from minutehand.domain.message import Message
from minutehand.domain.names import shard_of
from minutehand.domain.run import AgendaEntry, EntryKind
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable
from minutehand.ports.work_queue import OutgoingMessage
from minutehand.state.start import MAX_DELAY, delay_for
from minutehand.worker.context import Done, WorkerContext
from minutehand.worker.stages import Acknowledgement, Action, Outcome, ReceivedMessage

log = logging.getLogger(__name__)


def acknowledge(worker: WorkerContext, done: Sequence[Done]) -> list[Done]:
    """Delete, show or send anew; the outcomes as they are by that. Raises nothing."""
    result = [(received, _acknowledged(worker, received, outcome)) for received, outcome in done]
    for received, _ in result:
        worker.heartbeat.let_go(received.in_flight)
    worker.deletions.add(*(received.in_flight.receipt for received, outcome in result if outcome.gone))
    return result


def delete_before(worker: WorkerContext, received: ReceivedMessage) -> None:
    """At most once: the message goes before the job's code. If it does not, its lease is refused all the same."""
    try:
        worker.services.work.delete(received.in_flight.receipt)
    except Unavailable as problem:
        extra = {"run_id": str(received.in_flight.ref), "error": str(problem)}
        log.warning("work.delete_failed", extra=extra)


def _acknowledged(worker: WorkerContext, received: ReceivedMessage, outcome: Outcome) -> Outcome:
    if outcome.acknowledgement is Acknowledgement.RESEND:
        outcome = _resent(worker, outcome)
    if outcome.acknowledgement is Acknowledgement.SHOW:
        worker.heartbeat.let_go(received.in_flight)  # first: a beat would hide it again
        _show(worker, received, outcome.at)
    return outcome


def _resent(worker: WorkerContext, outcome: Outcome) -> Outcome:
    """Send the new order. The message is deleted if it was accepted, and else comes back."""
    order = outcome.order
    assert order is not None
    try:
        accepted = _send(worker, order, outcome.at)
    except Exception:  # the run is recorded; whatever it is, its message comes back
        log.exception("work.not_sent_anew", extra={"run_id": str(order.run)})
        accepted = False
    if accepted:
        return replace(outcome, acknowledgement=Acknowledgement.DELETE)
    action = Action.KEPT if outcome.action is Action.POSTPONED else outcome.action
    return replace(outcome, action=action, acknowledgement=Acknowledgement.SHOW, at=outcome.otherwise)


def _send(worker: WorkerContext, order: Message, at: int) -> bool:
    """A delayed message, or beyond SQS's reach an agenda entry; whether it was accepted."""
    now = worker.clock()
    if at - now <= MAX_DELAY:
        return worker.services.work.send([OutgoingMessage(order, delay_for(at, order.start, now))])[0]
    shard = shard_of(order.run.owner, worker.services.agenda.shards())
    entry = AgendaEntry(shard=shard, due=at, kind=EntryKind.RUN, id=str(order.run), created_at=now, queue=order.queue)
    return bool(worker.services.agenda.put([entry]))


def _show(worker: WorkerContext, received: ReceivedMessage, at: int) -> None:
    """Let the message come back at a time (UTC ms)."""
    left = max(at - worker.clock(), 0)
    try:
        worker.services.work.hide([received.in_flight.receipt], -(-left // SECOND))
    except Exception:  # then it comes back when its visibility ends
        log.exception("work.not_shown", extra={"run_id": str(received.in_flight.ref)})
