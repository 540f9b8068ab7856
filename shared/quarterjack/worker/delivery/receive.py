"""Receive: keep a batch of deliveries hidden, decode them, and read the rows and revisions of all their runs at once. Partition: which
messages go through the pipeline together. Acknowledge: carry out what an outcome says of its message; the heartbeat lets it go in any case.

A step of one message that fails lets that message come back, and stops no other. The outcome of a run is durable before its message
is acknowledged. A message that is neither deleted nor shown comes back when its visibility ends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress

from quarterjack.domain.message import GARBAGE, Message, decode
from quarterjack.domain.names import RunRef
from quarterjack.domain.policies import Delivery, Isolation
from quarterjack.domain.run import AgendaEntry, EntryKind
from quarterjack.domain.schedule import freeze_key
from quarterjack.domain.times import SECOND
from quarterjack.errors import Unavailable, Unreadable
from quarterjack.fires.claim import lane_of, outgoing
from quarterjack.ports.queues import RawMessage
from quarterjack.state.run_spec import of_one_off, of_schedule, says_more
from quarterjack.state.start import MAX_DELAY, goes_ahead
from quarterjack.stores.ledger import BatchReadResult
from quarterjack.stores.schedule_rows import RevisionBatch
from quarterjack.values import replace
from quarterjack.worker.ahead import may_go_ahead
from quarterjack.worker.context import Done, WorkerContext
from quarterjack.worker.delivery.visibility import InFlightMessage
from quarterjack.worker.stages import (
    Acknowledgement,
    Action,
    AnyMessage,
    Outcome,
    ReceivedMessage,
    RunDefinition,
    UnreadableMessage,
)

log = logging.getLogger(__name__)

_SOON = 10 * SECOND  # before a message comes back that met an unavailable service
_LATER = 60 * SECOND  # before a message comes back that met a defect of ours


def receive(worker: WorkerContext, deliveries: Sequence[RawMessage]) -> list[AnyMessage]:
    """The messages of a batch. From here on the heartbeat keeps them hidden."""
    decoded = [_decode(delivery) for delivery in deliveries]
    messages = [message for message in decoded if isinstance(message, Message)]
    changed = threading.Condition()  # a watch replaces it by its own
    in_flight = [
        InFlightMessage(delivery.receipt, _ref_of(message), changed=changed)
        for delivery, message in zip(deliveries, decoded, strict=True)
    ]
    worker.heartbeat.take(in_flight)
    every = worker.own_version.some
    with_rows = {message.run for message in messages if every or says_more(message.run, message.backfill)}
    rows = _read_rows(worker, with_rows)
    batch = _read_revisions_freezes_profiles(worker, messages, rows)
    return [
        ReceivedMessage(
            delivery=delivery, message=message, in_flight=each, definition=_definition(message, with_rows, rows, batch)
        )
        if isinstance(message, Message)
        else UnreadableMessage(delivery=delivery, in_flight=each, problem=message)
        for delivery, message, each in zip(deliveries, decoded, in_flight, strict=True)
    ]


def _decode(delivery: RawMessage) -> Message | Unreadable:
    try:
        return decode(delivery.body)
    except Unreadable as problem:
        return problem


def _ref_of(message: Message | Unreadable) -> RunRef:
    return message.run if isinstance(message, Message) else RunRef("", "")


def _read_rows(worker: WorkerContext, refs: Collection[RunRef]) -> BatchReadResult:
    """The rows of runs, in one batch."""
    try:
        return worker.services.ledger.look(sorted(refs), whole=True) if refs else BatchReadResult()
    except Exception:  # whatever it is, the messages must not stay hidden for it
        log.exception("work.rows_unread")
        return BatchReadResult(unanswered=frozenset(refs))


def _read_revisions_freezes_profiles(
    worker: WorkerContext, messages: Sequence[Message], rows: BatchReadResult
) -> RevisionBatch:
    """The revisions of runs of schedules, and the freezes and profiles of all tenants as of now, in one batch."""
    tenants, now = {message.run.tenant for message in messages}, worker.clock()
    keys = {(message.run.owner, message.revision) for message in messages if not message.run.is_one_off}
    keys |= {(ref.owner, run.defined_by) for ref, run in rows.found.items() if run.defined_by}
    try:
        schedules = worker.services.schedules
        return schedules.revisions_freezes_profiles(keys, tenants, now) if tenants else RevisionBatch()
    except Exception:  # whatever it is, the messages must not stay hidden for it
        log.exception("work.revisions_unread")
        return RevisionBatch(unanswered=frozenset({*keys, *map(freeze_key, tenants)}), read_at=now)


def _definition(
    message: Message, with_rows: Collection[RunRef], rows: BatchReadResult, batch: RevisionBatch
) -> RunDefinition:
    """What was read of one message's run."""
    ref, row = message.run, rows.found.get(message.run)
    spec, defined_by = None, None
    if ref.is_one_off:
        with suppress(*GARBAGE):  # of a row whose policies cannot be read; others of its batch can
            spec = None if row is None else of_one_off(row)
    elif row is not None or ref not in with_rows:
        defined_by = ref.owner, (row.defined_by if row else None) or message.revision
        defining = batch.found.get(defined_by)
        spec = None if defining is None else of_schedule(ref, defining, row)
    return RunDefinition(
        row=row,
        row_unread=ref in rows.unanswered,
        revision=batch.found.get((ref.owner, message.revision)),
        defined_by=defined_by,
        spec=spec,
        governance=batch.governance.get(ref.tenant),
        batch=batch,
    )


def partition_batch(worker: WorkerContext, batch: Sequence[AnyMessage]) -> list[Sequence[AnyMessage]]:
    """Batches of plain runs that may start at the same instant; every other message is a batch of one."""
    now = worker.clock()
    by_instant: dict[tuple[int, bool], dict[RunRef, ReceivedMessage]] = {}
    alone: list[Sequence[AnyMessage]] = []
    for received in batch:
        if isinstance(received, UnreadableMessage) or not _is_plain(worker, received):
            alone.append([received])
            continue
        message = received.message
        ahead = goes_ahead(message, now) and may_go_ahead(worker, received)
        same = by_instant.setdefault((max(message.not_before, now), ahead), {})
        if message.run in same:
            alone.append([replace(received, alone=True)])
        else:
            same[message.run] = replace(received, ahead=True) if ahead else received
    return [list(by_instant[at].values()) for at in sorted(by_instant)] + alone


def _is_plain(worker: WorkerContext, received: ReceivedMessage) -> bool:
    """Whether its run takes no more than a plain first lease, a job in a thread and a settlement, so that it can share their requests.

    Anything slower (a payload in the bucket, a turn of its schedule, a backfill's next run) would hold up the others of its batch.
    """
    message, revision, spec = received.message, received.definition.revision, received.definition.spec
    job = None if spec is None else worker.jobs.get(spec.job)
    if spec is None or job is None or received.alone or received.delivery.receives > 1:
        return False
    if message.fence or message.backfill or spec.payload_ref or job.policies.isolation is not Isolation.THREAD:
        return False
    if (spec.overrides.delivery or job.policies.delivery) is Delivery.AT_MOST_ONCE:
        return False
    if revision is None:
        return message.run.is_one_off
    return not (revision.definition.options.shadow or received.definition.is_exclusive or revision.failing)


# At its end.


def acknowledge(worker: WorkerContext, done: Sequence[Done]) -> list[Done]:
    """Delete, show or send anew; the outcomes as they are by that. Raises nothing."""
    result = [
        (received, _resent(worker, received, outcome) if outcome.acknowledgement is Acknowledgement.RESEND else outcome)
        for received, outcome in done
    ]
    worker.heartbeat.let_go([received.in_flight for received, _ in result])  # a beat would hide again what is shown
    for received, outcome in result:
        if outcome.acknowledgement is Acknowledgement.SHOW:
            _show(worker, received, outcome.at)
    worker.deletions.add(*[received.in_flight.receipt for received, outcome in result if outcome.gone])
    return result


def delete_before(worker: WorkerContext, received: ReceivedMessage) -> None:
    """At most once: the message goes before the job's code. If it does not, its lease is refused all the same."""
    try:
        worker.services.work.delete(received.in_flight.receipt)
    except Unavailable as problem:
        extra = {"run_id": str(received.in_flight.ref), "error": str(problem)}
        log.warning("work.delete_failed", extra=extra)


def _resent(worker: WorkerContext, received: AnyMessage, outcome: Outcome) -> Outcome:
    """Send the new order to the run's own queue. The message is deleted if it was accepted, and else comes back."""
    assert isinstance(received, ReceivedMessage)
    assert outcome.order is not None
    assert received.definition.spec is not None
    spec, since = received.definition.spec, _waits_since(received)
    order = replace(outcome.order, queue=spec.queue, priority=spec.priority, since=since)
    try:
        accepted = _send(worker, order, outcome.at)
    except Exception:  # the run is recorded; whatever it is, its message comes back
        log.exception("work.not_sent_anew", extra={"run_id": str(order.run)})
        accepted = False
    if accepted:
        return replace(outcome, acknowledgement=Acknowledgement.DELETE)
    action = Action.KEPT if outcome.action is Action.POSTPONED else outcome.action
    return replace(outcome, action=action, acknowledgement=Acknowledgement.SHOW, at=outcome.otherwise)


def _waits_since(received: ReceivedMessage) -> int | None:
    """UTC ms since which its run could start for the first time; of a fire without a row that is its instant."""
    lease = received.in_flight.lease
    run = received.definition.row if lease is None else lease.run
    return received.in_flight.ref.instant if run is None else run.waits_since


def _send(worker: WorkerContext, order: Message, at: int) -> bool:
    """A delayed message, or beyond SQS's reach an agenda entry; whether it was accepted."""
    now = worker.clock()
    if at - now <= MAX_DELAY:
        return worker.services.work.send([outgoing(order, at, now, worker.services.work)])[0]
    shard = worker.services.agenda.layout().shard_of(order.run.owner)
    entry = AgendaEntry(
        shard=shard,
        due=at,
        kind=EntryKind.RUN,
        id=str(order.run),
        created_at=now,
        queue=order.queue,
        priority=lane_of(order, at, worker.services.work),
    )
    return bool(worker.services.agenda.put([entry]))


def _show(worker: WorkerContext, received: AnyMessage, at: int) -> None:
    """Let the message come back at a time (UTC ms)."""
    left = max(at - worker.clock(), 0)
    try:
        worker.services.work.hide([received.in_flight.receipt], -(-left // SECOND))
    except Exception:  # then it comes back when its visibility ends
        log.exception("work.not_shown", extra={"run_id": str(received.in_flight.ref)})


# What a step does that fails.


def on_failure(worker: WorkerContext, received: AnyMessage, problem: Exception) -> Outcome:
    """The outcome of a message for which a step failed: the one boundary between exceptions and outcomes."""
    if isinstance(problem, Unavailable):
        return on_service_error(worker, received, str(problem))
    if isinstance(problem, Unreadable):  # its row: of a later release, whose worker it waits for, or garbage
        log.error("run.unreadable", extra={"run_id": str(received.in_flight.ref), "error": str(problem)})
        return on_internal_error(worker)
    log.error("work.defect", extra={"run_id": str(received.in_flight.ref)}, exc_info=problem)
    return on_internal_error(worker)


def on_service_error(worker: WorkerContext, received: AnyMessage, problem: str) -> Outcome:
    """A service did not answer: the message comes back soon."""
    log.warning("work.unavailable", extra={"run_id": str(received.in_flight.ref), "error": problem})
    return Outcome.kept("unavailable", at=worker.clock() + _SOON)


def on_internal_error(worker: WorkerContext) -> Outcome:
    """What went wrong is ours: the message comes back later."""
    return Outcome.kept("defect", at=worker.clock() + _LATER)
