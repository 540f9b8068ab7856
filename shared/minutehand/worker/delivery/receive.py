"""Receive: keep a batch of deliveries hidden, decode them, and read the revisions of all their runs at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from minutehand.domain.formats.message import Message, decode
from minutehand.domain.freeze import freeze_key
from minutehand.domain.names import RunRef
from minutehand.errors import Unreadable
from minutehand.ports.schedules import RevisionBatch
from minutehand.ports.work_queue import RawMessage
from minutehand.worker.context import WorkerContext
from minutehand.worker.stages import InFlightMessage, ReceivedMessage

log = logging.getLogger(__name__)


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
