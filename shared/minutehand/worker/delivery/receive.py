"""Receive: keep a batch of deliveries hidden, decode them, and read the revisions of all their runs at once.

A step of one message that fails lets that message come back, and stops no other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from minutehand.domain.message import Message, decode
from minutehand.domain.names import RunRef
from minutehand.domain.schedule import freeze_key
from minutehand.domain.times import SECOND
from minutehand.errors import Unavailable, Unreadable
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.work_queue import RawMessage
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import InFlightMessage, Outcome, ReceivedMessage

log = logging.getLogger(__name__)

_SOON = 10 * SECOND  # before a message comes back that met an unavailable service
_LATER = 60 * SECOND  # before a message comes back that met a defect of ours

_T = TypeVar("_T")


def guarded(worker: WorkerContext, received: ReceivedMessage, step: Callable[[], _T]) -> _T | Outcome:
    """What a step of a message gives, or the outcome of its failure."""
    try:
        return step()
    except Unavailable as problem:
        return on_service_error(worker, received, str(problem))
    except Exception:
        log.exception("work.defect", extra={"run_id": str(received.in_flight.ref)})
        return on_internal_error(worker, received)


def on_service_error(worker: WorkerContext, received: ReceivedMessage, problem: str) -> Outcome:
    """A service did not answer: the message comes back soon."""
    log.warning("work.unavailable", extra={"run_id": str(received.in_flight.ref), "error": problem})
    return Outcome.kept(received.message, "unavailable", at=worker.clock() + _SOON)


def on_internal_error(worker: WorkerContext, received: ReceivedMessage) -> Outcome:
    """What went wrong is ours: the message comes back later."""
    return Outcome.kept(received.message, "defect", at=worker.clock() + _LATER)


def receive(worker: WorkerContext, deliveries: Sequence[RawMessage]) -> list[ReceivedMessage]:
    """The messages of a batch. From here on the heartbeat keeps them hidden."""
    decoded = [_decode(delivery) for delivery in deliveries]
    messages = [message for message, _ in decoded if message is not None]
    changed = threading.Condition()  # a watch replaces it by its own
    in_flight = [
        InFlightMessage(delivery.receipt, message.run if message else RunRef("", ""), changed=changed)
        for delivery, (message, _) in zip(deliveries, decoded, strict=True)
    ]
    worker.heartbeat.take(in_flight)
    revisions = _revisions(worker, messages)
    return [
        ReceivedMessage(delivery=delivery, in_flight=each, message=message, problem=problem, revisions=revisions)
        for delivery, each, (message, problem) in zip(deliveries, in_flight, decoded, strict=True)
    ]


def _decode(delivery: RawMessage) -> tuple[Message | None, Unreadable | None]:
    try:
        return decode(delivery.body), None
    except Unreadable as problem:
        return None, problem


def _revisions(worker: WorkerContext, messages: Sequence[Message]) -> RevisionBatch:
    """The revisions of runs of schedules, and the freezes of all tenants, in one batch."""
    keys = {(m.run.owner, m.revision) for m in messages if m.revision} | {freeze_key(m.run.tenant) for m in messages}
    try:
        read = worker.services.schedules.revisions(keys) if keys else RevisionBatch()
    except Exception:  # whatever it is, the messages must not stay hidden for it
        log.exception("work.revisions_unread")
        read = RevisionBatch(unanswered=frozenset(keys))
    return replace(read, read_at=worker.clock())
